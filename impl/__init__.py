"""Implementations under test, all behind one interface, looked up by name or as `module:object`.

An implementation answers for one `Scenario` at a time. It returns `PoolSizes` or a `Refusal`; anything it raises is a
finding. `spec` and `configurator` are built in, `sglang` needs an environment that SGLang can be imported in. The last
three methods are optional: the laws that need them say n/a of an implementation without them. An implementation may
also have `path`, where it was imported from, `exemptions()`, the verdicts nobody can ask of it, `known_failures()`, the
`Path` of the file of failures that are expected of it (it need not be there yet), or None, `where(scenario)`, file,
line and name of the code that sizes a scenario, `script(scenario, stage, title)`, a program for a bug report that needs
the engine alone, and `coverage()`, how much of the engine is judged in a line, and what
of it is new or listed in vain: each of these fails a run. With `any_number = False` it is asked about numbers that
people use alone, not about any (`properties/any_number.py`).
"""

import importlib
from fnmatch import fnmatchcase
from typing import NamedTuple, Protocol, cast

from spec.laws.base import DraftResolution
from spec.model import PoolSizes, Refusal, Scenario
from spec.startup.system import State, Step
from spec.startup.world import World


class StartUp(Protocol):
    """A start-up that can be asked step by step, in any order."""

    def ask(self, rank: int, step: Step) -> Refusal | None:
        """Ask one rank for one step; None when it is taken, or was before."""

    def state(self) -> State:
        """What every rank has done."""


class Implementation(Protocol):
    """What the suite asks of an implementation. `name` and `version` go into the header of a run. One that sizes in
    float says `exact = False` and is judged to a page where `spec/laws/floats.py` says so."""

    name: str
    version: str

    def supports(self, scenario: Scenario) -> str | None:
        """None, or the reason why it cannot judge this scenario. Reasons are counted and printed."""

    def size_pools(self, scenario: Scenario) -> PoolSizes | Refusal:
        """The profile path: bytes to tokens."""

    def size_pools_from_max_tokens(self, scenario: Scenario, tokens: int) -> PoolSizes | Refusal:
        """The constraint path: every pool from `tokens` rows per rank, whatever the bytes."""

    def resolve_draft(self, scenario: Scenario) -> DraftResolution | None:
        """What start-up knows of the active draft before its weights are loaded, None without one."""

    def allocated_bytes(self, scenario: Scenario, sizes: PoolSizes) -> tuple[int, ...]:
        """Bytes that the pools this implementation really builds for `sizes` take, on one rank of each stage."""

    def start_up(self, world: World) -> StartUp:
        """A start-up of all ranks of a world, to be asked step by step."""


REGISTRY = {
    "spec": "impl.reference:Reference",
    "configurator": "impl.optimized:Configurator",
    "batched": "impl.batched_scenarios:Batched",
    "sglang": "impl.sglang:SGLang",
}
"""Names of the built-in implementations and where each lives."""

PATH_VARIABLE = "KV_IMPL_PATH"
"""Environment variable with the folder of `--kv-impl-path`, from which an implementation is imported; the option sets
it, for workers too."""


class Exemption(NamedTuple):
    """Verdicts that are not asked of an implementation, and why. Each is counted and listed at the end of a run."""

    laws: str
    """Globs of law ids, separated by spaces."""
    cells: str
    """Globs of cells, separated by spaces."""
    reason: str

    def covers(self, law_id: str, cell: str) -> bool:
        """Whether the verdict of this law in this cell is left out."""
        return any(fnmatchcase(law_id, glob) for glob in self.laws.split()) and any(
            fnmatchcase(cell, glob) for glob in self.cells.split()
        )


class CannotJudge(Exception):
    """Raised by a method of an implementation that cannot answer it for this scenario, though it can others; the reason
    is counted as one of `supports` is."""


class WrongAdapter(BaseException):
    """Raised by an adapter whose engine asks it for something it does not know: the run ends with exit code 4. Not an
    `Exception`, so that neither the engine nor the judge takes it for an answer."""


MUST_HAVE = ("name", "version", "supports", "size_pools", "size_pools_from_max_tokens")
"""What every implementation has; the rest is optional."""


class UnknownImplementation(LookupError):
    """No implementation of that name, or its module or object cannot be found."""


def load(name: str) -> Implementation:
    """The implementation called `name`, or the one at `module:object` (a class is instantiated)."""
    location = REGISTRY.get(name, name)
    module_name, separator, object_name = location.partition(":")
    if not separator:
        raise UnknownImplementation(f"{name!r} is neither one of {', '.join(REGISTRY)} nor module:object")
    try:
        found = getattr(importlib.import_module(module_name), object_name)
    except (ImportError, AttributeError) as error:
        raise UnknownImplementation(f"{name!r} cannot be loaded: {error}") from error
    implementation = found() if isinstance(found, type) else found
    missing = [part for part in MUST_HAVE if not hasattr(implementation, part)]
    if missing:
        raise UnknownImplementation(f"{name!r} lacks {', '.join(missing)}")
    return cast(Implementation, implementation)
