"""What a fault is: the configurator with one method that is wrong."""

from inspect import isfunction
from typing import ClassVar

from impl.configurator import POOL_CONFIGURATORS, MemoryPoolConfigurator
from impl.optimized import Configurator
from impl.places import place_of
from spec.model import Scenario


def wrong(base: type[MemoryPoolConfigurator], change: type[MemoryPoolConfigurator]) -> type[MemoryPoolConfigurator]:
    """The configurator `base` with the methods of `change`, which is derived from it or from a base of it."""
    return change if issubclass(change, base) else type(change.__name__, (change, base), {"__slots__": ()})


class Fault(Configurator):
    """A known-bad implementation, given to the gate as `impl.faults:NAME`.

    A subclass says in its docstring what went wrong, where it was reported, and what it does, and changes one thing:
    a method of its own, or `_Pool`, whose methods replace those of the configurators of the pool kinds in `pools`.
    """

    caught_by: ClassVar[dict[str, str]] = {}
    """Law id -> globs of cells, separated by spaces: the law must break in at least one of them."""
    cells: ClassVar[str] = "*"
    """Globs of the cells whose scenarios are sized wrongly, if only now and then."""
    pools: ClassVar[tuple[str, ...]] = tuple(POOL_CONFIGURATORS)
    _Pool: ClassVar[type[MemoryPoolConfigurator] | None] = None

    def __init_subclass__(cls) -> None:
        """Names the implementation, and derives its configurators."""
        cls.name = cls.__name__
        change = cls._Pool
        if change is not None:
            changed = {pool: wrong(POOL_CONFIGURATORS[pool], change) for pool in cls.pools}
            cls.configurators = {**POOL_CONFIGURATORS, **changed}

    def where(self, scenario: Scenario) -> str:
        """The method that is wrong."""
        changed = vars(self._Pool or type(self)).values()
        return next(place_of(method) for each in changed if isfunction(method := getattr(each, "__func__", each)))
