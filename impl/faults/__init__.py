"""Known-bad implementations: bugs of real engines, most with a public report, that the suite must catch.

`pytest properties --kv-impl impl.faults:NoDraftOnHybrid` shows how one is told. `tests/kill_matrix.py` measures how
soon each law finds each of them.
"""

from impl.faults import draft, rows, sizes
from impl.faults.base import Fault

FAULTS: tuple[type[Fault], ...] = tuple(
    found
    for module in (draft, rows, sizes)
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, Fault) and found is not Fault
)
"""All of them, in the order of the files."""

globals().update({fault.__name__: fault for fault in FAULTS})
