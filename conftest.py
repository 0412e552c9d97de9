"""Registers the options and reports of `pytest properties`."""

pytest_plugins = ("properties.plugin", "properties.proof_report")
