"""The complete check of a bounded space: every point, every law that speaks of sizes. `python -m properties sweep`.

A space is a TOML file of axes (`default.toml`). It is checked in two steps. `geometry.py` prices every geometry with
`spec/`, holds the price against `spec/accounting.py`, and keeps the distinct triples of F, S and D: cells, far fewer
than geometries. `kernel.py` sizes every cell under every setting at budgets on and around every page boundary and
judges the laws of `laws.py`; nothing is stored. `formulas.py` is the arithmetic of both; a sample of points is sized by
`spec/` as well, so that they cannot drift apart.

Points are numbered, in the order of the axes: the first that breaks a law is the same however the space was split.
"""
