"""A claim: one function of inputs that runs what is claimed and says whether it holds.

The same function is proved, run over symbolic inputs down every path, and re-run on the plain integers of a
counterexample.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from properties.proofs.paths import Impossible, Path, Unproved
from properties.proofs.symbolic import SymBool, SymInt, SymRatio
from spec.laws.base import HOLDS, NOT_JUDGED, Broken, Verdict

MOST_OF_AN_INPUT = (3, 12, 200)
"""Bounds between which a counterexample is looked for, the smallest first."""

EXCEPTION = "exception"
"""The term of a claim that could not be judged to its end."""


class Inputs(Protocol):
    """What a claim asks for. Every integer is at least `least`."""

    def integer(self, name: str, least: int = 0) -> Any:
        """An integer."""

    def ratio(self, name: str) -> Any:
        """A ratio in (0, 1]."""

    def flag(self, name: str) -> bool:
        """A switch."""

    def assume(self, condition: object) -> None:
        """A premise of the claim."""


Claim = Callable[[Inputs], Verdict]


class Symbols:
    """Inputs that stand for all numbers, on one path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def integer(self, name: str, least: int = 0) -> Any:
        """A name."""
        return SymInt(self.path, self.path.name(name, least))

    def ratio(self, name: str) -> Any:
        """Any p / q, in lowest terms or not."""
        numerator, denominator = self.integer(f"{name}_p", 1), self.integer(f"{name}_q", 1)
        self.assume(numerator <= denominator)
        return SymRatio(numerator, denominator)

    def flag(self, name: str) -> bool:
        """Either way."""
        return bool(self.integer(name) >= 1)

    def assume(self, condition: object) -> None:
        """Leaves paths on which it is false."""
        if isinstance(condition, SymBool) and condition.fact.known is None:
            self.path.know(condition.fact)
        elif not condition:
            raise Impossible


class Numbers:
    """Inputs that are plain numbers."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self.numbers = numbers

    def integer(self, name: str, least: int = 0) -> int:
        """The number of that name; one the counterexample did not need is the least."""
        return self.numbers.get(name, least)

    def ratio(self, name: str) -> Fraction:
        """The ratio of that name."""
        return Fraction(self.integer(f"{name}_p", 1), self.integer(f"{name}_q", 1))

    def flag(self, name: str) -> bool:
        """The switch of that name."""
        return self.integer(name) >= 1

    def assume(self, condition: object) -> None:
        """Raises `Impossible` where it is false."""
        if not condition:
            raise Impossible


@dataclass
class Explored:
    """What was seen: paths that end, those on which the claim holds, plain inputs of one of them, where it is open,
    plain inputs on which it is broken."""

    paths: int = 0
    holding: int = 0
    example: Mapping[str, int] | None = None
    open: str = ""
    counterexample: Mapping[str, int] | None = None


def verdict_on(claim: Claim, path: Path) -> Verdict:
    """The verdict of one path. An exception is a broken claim, unless the path is impossible."""
    try:
        return claim(Symbols(path))
    except Impossible:
        raise
    except Unproved as error:
        return Broken("unproved", "", str(error))
    except (AssertionError, ArithmeticError, TypeError, ValueError) as error:
        return Broken(EXCEPTION, "", f"{type(error).__name__}: {error}")


def plain_verdict(claim: Claim, numbers: Mapping[str, int]) -> Verdict:
    """The verdict on plain integers."""
    try:
        return claim(Numbers(numbers))
    except Impossible:
        return NOT_JUDGED
    except (AssertionError, ArithmeticError, ValueError) as error:
        return Broken(EXCEPTION, "", f"{type(error).__name__}: {error}")


def smallest_model(path: Path) -> Mapping[str, int] | None:
    """Plain inputs that lead down a path."""
    models = (path.model(most) for most in MOST_OF_AN_INPUT)
    return next((found for found in models if found is not None), None)


def explore(claim: Claim, *, refuting: bool = False) -> Explored:
    """Runs a claim down every path, until one is open. Refuting, goes on until one breaks it on plain integers."""
    seen, pending, answers = Explored(), [tuple[bool, ...]()], dict[Any, bool]()
    while pending and seen.counterexample is None:
        path = Path(pending.pop(), answers)
        try:
            verdict = verdict_on(claim, path)
        except Impossible:
            verdict = NOT_JUDGED
        pending += path.alternatives
        seen.paths += 1
        if verdict is HOLDS:
            seen.holding += 1
            if seen.example is None and not refuting:
                seen.example = confirmed(claim, path, broken=False)
        elif isinstance(verdict, Broken) and (refuting or not path.is_impossible()):
            seen.open = f"{verdict}, where {path.facts}"
            seen.counterexample = confirmed(claim, path, broken=True)
            if seen.counterexample is None and not refuting:
                return seen
    return seen


def confirmed(claim: Claim, path: Path, *, broken: bool) -> Mapping[str, int] | None:
    """Plain inputs of a path, once the claim run on them says the same. That something was raised says nothing."""
    numbers = smallest_model(path)
    if numbers is None:
        return None
    verdict = plain_verdict(claim, numbers)
    if isinstance(verdict, Broken):
        return numbers if broken and verdict.term != EXCEPTION else None
    return numbers if verdict is HOLDS and not broken else None
