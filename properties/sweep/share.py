"""How much of the default space a run of the laws sweeps."""

SHARES = {"gate": 10, "nightly": 1}
"""Profile, and which blocks: every tenth, every one. Other profiles sweep nothing."""
SWEPT = ("spec", "configurator", "batched")
"""The implementations whose runs sweep: those of this repository, which size as the formulas of the sweep do. A run
of an engine is in an environment of the engine's."""


def is_swept(implementation_name: str, profile_name: str, *, whole: bool) -> bool:
    """Whether a run sweeps; `whole` where it asks for all laws and cells."""
    return whole and implementation_name in SWEPT and profile_name in SHARES
