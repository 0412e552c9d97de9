"""Which step waits for which: the protocols, present and historical, as data.

A step is written `verb owner` ("load target", "attach draft 1") or `verb` ("measure"). A `Before` holds for every pair
of steps its two patterns match. Guards are what every start-up needs: without one of them some law breaks, and a test
shows which. Phases are what a protocol does beyond that: they choose among the orders that are right.
"""

from dataclasses import dataclass, replace

from spec.model import DFLASH, DSPARK, EAGLE, FROZEN_KV_MTP, MTP, STANDALONE
from spec.units import GiB

TARGET = "target"
"""The owner of the served model's weights, pool and backend."""
DRAFT = "draft"
"""The owner of a draft's; where several runners draft, "draft 0", "draft 1", ..."""


@dataclass(frozen=True)
class Before:
    """A step that matches `later` waits until each step that matches `earlier` is done: on its own rank, or on every
    rank. Patterns are globs; `{owner}` in `earlier` is the owner of the later step."""

    earlier: str
    later: str
    every_rank: bool = False

    def __str__(self) -> str:
        where = " on every rank" if self.every_rank else ""
        return f"{self.earlier}{where}, then {self.later}"


@dataclass(frozen=True)
class Protocol:
    """One way to start: whose draft, which order, which sum.

    algorithm: one of `spec.model.ALGORITHMS`, None without a draft.
    guards, phases: what waits for what.
    repeats: verbs that take effect again when asked again. No protocol has any; `mutants` adds them.
    flat_reserve_bytes: the draft's pool is in nobody's sum, and so many bytes are set aside for it. None: it is priced.
    reserves_after_minimum: the smallest reading of the ranks is taken first, then each rank takes off its own reserve.
    historical: empty for a protocol that must hold; else where it was seen, and what went wrong.
    """

    name: str
    algorithm: str | None
    guards: tuple[Before, ...]
    phases: tuple[Before, ...]
    repeats: tuple[str, ...] = ()
    flat_reserve_bytes: int | None = None
    reserves_after_minimum: bool = False
    historical: str = ""


WEIGHTS_FIRST = Before("load *", "measure")
"""Bytes that are not resident yet look free."""
TARGET_WEIGHTS_FIRST = Before("load target", "measure")
"""What was left of it where the draft loaded later."""
LOADER_DONE = Before("release", "measure")
"""What the loader still holds looks taken. Upstream: the collection before `_profile_available_bytes`."""
ALL_MEASURED = Before("measure", "size", every_rank=True)
"""The smallest reading of all ranks sizes every rank."""
SIZED = Before("size", "allocate *")
"""A pool has as many rows as were sold."""
TARGET_POOL_FIRST = Before("allocate target", "allocate draft*")
"""The draft is handed the target's sizes, request table and allocator."""
OWN_POOL_FIRST = Before("allocate {owner}", "attach *")
"""A backend reads the pool it attaches to."""
BACKENDS_FIRST = Before("attach *", "capture")
"""A graph records what its backends do."""
POOLS_FIRST = Before("allocate *", "report")
"""Tokens, running requests and request length are those of the pools."""

GUARDS = (
    WEIGHTS_FIRST,
    LOADER_DONE,
    ALL_MEASURED,
    SIZED,
    TARGET_POOL_FIRST,
    OWN_POOL_FIRST,
    BACKENDS_FIRST,
    POOLS_FIRST,
)
"""What every start-up needs."""

THREE_PHASES = (
    Before("load *", "allocate *"),
    Before("allocate *", "attach *"),
    Before("attach *", "report"),
    Before("capture", "report"),
)
"""Load all, allocate all, attach all; then capture, then report."""
TARGET_LOADS_FIRST = Before("load target", "load draft*")
"""A draft worker is built around the target's worker, whose embeddings it may share."""
UPSTREAM = (*THREE_PHASES, TARGET_LOADS_FIRST)
"""SGLang's order. Which of several draft runners comes first stays open."""


def without(guards: tuple[Before, ...], *dropped: Before) -> tuple[Before, ...]:
    """The guards but some."""
    return tuple(guard for guard in guards if guard not in dropped)


ANY_ORDER = Protocol("any order the guards allow", EAGLE, GUARDS, ())
PRESENT = (
    ANY_ORDER,
    Protocol("three-phase", EAGLE, GUARDS, THREE_PHASES),
    Protocol("plain", None, GUARDS, UPSTREAM),
    Protocol("EAGLE", EAGLE, GUARDS, UPSTREAM),
    Protocol("multi-layer EAGLE", MTP, GUARDS, UPSTREAM),
    Protocol("STANDALONE", STANDALONE, GUARDS, UPSTREAM),
    Protocol("DFLASH", DFLASH, GUARDS, UPSTREAM),
    Protocol("DSPARK", DSPARK, GUARDS, UPSTREAM),
    Protocol("frozen-KV MTP", FROZEN_KV_MTP, GUARDS, UPSTREAM),
)
"""The protocols that must hold."""

MEASURED_BEFORE_DRAFT = (*without(GUARDS, WEIGHTS_FIRST), TARGET_WEIGHTS_FIRST)
"""The guards that are left when the draft loads after the measurement."""
DRAFT_LOADS_LATE = (*THREE_PHASES, Before("measure", "load draft*"), Before("release", "allocate *"))
"""The draft loads after the measurement, and still before any pool. What loaders held is gone before pools come."""
CONSTRUCTORS = (
    Before("allocate target", "load draft*"),
    Before("load {owner}", "allocate *"),
    Before("release", "allocate *"),
    *THREE_PHASES[1:],
)
"""One constructor a worker, which loads and allocates; the target's comes first."""

HISTORICAL = (
    Protocol(
        "measure before the draft loads",
        EAGLE,
        MEASURED_BEFORE_DRAFT,
        DRAFT_LOADS_LATE,
        historical="until PR 23862: the target's constructor measured, so the draft's weights came on top",
    ),
    Protocol(
        "frozen-KV MTP, target pool first",
        FROZEN_KV_MTP,
        MEASURED_BEFORE_DRAFT,
        CONSTRUCTORS,
        historical="as PR 23862 left it (0.5.14): its constructor fetched the target's pool, then loaded its weights",
    ),
    Protocol(
        "flat reserve of 4 GiB",
        EAGLE,
        MEASURED_BEFORE_DRAFT,
        CONSTRUCTORS,
        flat_reserve_bytes=4 * GiB,
        historical="until PR 23862: 4 GiB set aside for draft weights and draft pool of any size",
    ),
    Protocol(
        "flat reserve of 6 GiB",
        STANDALONE,
        MEASURED_BEFORE_DRAFT,
        CONSTRUCTORS,
        flat_reserve_bytes=6 * GiB,
        historical="until PR 23862: the same for a STANDALONE draft, with 6 GiB",
    ),
    Protocol(
        "draft pool in its constructor",
        EAGLE,
        (*without(GUARDS, SIZED, TARGET_POOL_FIRST), Before("size", "allocate target")),
        (Before("load draft", "allocate draft"), Before("allocate draft", "measure"), *THREE_PHASES[1:]),
        historical="a draft worker that allocates while it is built: nobody has sized anything yet",
    ),
    Protocol(
        "backend before its pool",
        EAGLE,
        without(GUARDS, OWN_POOL_FIRST),
        (Before("load *", "attach *"), Before("attach *", "measure"), Before("allocate *", "capture"), UPSTREAM[3]),
        historical="a worker that builds its backend in its constructor",
    ),
    Protocol(
        "loader memory still resident",
        EAGLE,
        (*without(GUARDS, LOADER_DONE), Before("release", "size")),
        (*UPSTREAM, Before("load *", "release")),
        historical="before the collection in _profile_available_bytes: whether temporaries were gone was luck",
    ),
    Protocol(
        "minimum before the rank's own reserve",
        EAGLE,
        GUARDS,
        UPSTREAM,
        reserves_after_minimum=True,
        historical="a correction of one rank after the ranks agreed: they no longer agree",
    ),
)
"""Protocols that were in use or are a step away from it; each breaks a law."""

ONCE = ("load", "measure", "allocate", "attach")
"""Verbs whose second time must change nothing. The others write the same again."""


def mutants(protocol: Protocol) -> dict[str, Protocol]:
    """The protocol without its phases and without one guard each, by the guard's text."""
    bare = replace(protocol, phases=())
    changed = {str(guard): replace(bare, guards=without(bare.guards, guard)) for guard in bare.guards}
    return changed | {f"{verb} once": replace(bare, repeats=(verb,)) for verb in ONCE}
