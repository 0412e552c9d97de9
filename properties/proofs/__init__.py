"""Proofs of the laws of sizing for all integers, on the functions of `spec/` and `impl/configurator.py` themselves."""

from importlib.util import find_spec

if find_spec("z3") is None:
    raise ImportError("the proofs need z3-solver, which is not installed: pip install z3-solver")
