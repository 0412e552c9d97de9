"""Integers and ratios that stand for all numbers: the same code runs on them as on `int` and `Fraction`.

A branch on what is not decided yet is put to the path (`paths.py`), which runs the function again down the other way.
Quotients are exact: `a // b` is a name q with `0 <= a - q*b < b`, once b is proved positive.
"""

from dataclasses import dataclass
from typing import Protocol, Union

from properties.proofs.polynomials import Polynomial, constant

AT_LEAST, EQUAL, DIFFERENT = ">= 0", "== 0", "!= 0"


@dataclass(frozen=True)
class Fact:
    """A polynomial that is at least 0, equal to 0, or different from it."""

    left: Polynomial
    relation: str

    def opposite(self) -> "Fact":
        """What is true where the fact is not."""
        if self.relation == AT_LEAST:
            return Fact(-self.left - constant(1), AT_LEAST)
        return Fact(self.left, DIFFERENT if self.relation == EQUAL else EQUAL)

    @property
    def known(self) -> bool | None:
        """Whether it is true, where that needs no names."""
        value = self.left.constant
        if value is None:
            return None
        return value >= 0 if self.relation == AT_LEAST else (value == 0) == (self.relation == EQUAL)


class Decides(Protocol):
    """The path a symbolic number lives on."""

    def decide(self, fact: Fact) -> bool:
        """Which way a branch goes."""

    def quotient(self, dividend: Polynomial, divisor: Polynomial) -> Polynomial:
        """`dividend // divisor`."""


Number = Union[int, "SymInt"]


def polynomial_of(number: Number) -> Polynomial:
    """The polynomial of a plain or symbolic integer."""
    return number.value if isinstance(number, SymInt) else constant(number)


class SymBool:
    """A comparison. Asking for its truth is a branch."""

    __slots__ = ("fact", "path")

    def __init__(self, path: Decides, fact: Fact) -> None:
        self.path, self.fact = path, fact

    def __bool__(self) -> bool:
        known = self.fact.known
        return self.path.decide(self.fact) if known is None else known


class SymInt:
    """An integer that is not chosen yet: a polynomial over names."""

    __slots__ = ("path", "value")

    def __init__(self, path: Decides, value: Polynomial) -> None:
        self.path, self.value = path, value

    def _make(self, value: Polynomial) -> Number:
        plain = value.constant
        return SymInt(self.path, value) if plain is None else plain

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __repr__(self) -> str:
        return repr(self.value)

    def __floor__(self) -> "SymInt":
        return self

    __ceil__ = __floor__

    def __neg__(self) -> Number:
        return self._make(-self.value)

    def __add__(self, other: Number) -> Number:
        if not isinstance(other, int | SymInt):
            return NotImplemented
        return self._make(self.value + polynomial_of(other))

    __radd__ = __add__

    def __sub__(self, other: Number) -> Number:
        if not isinstance(other, int | SymInt):
            return NotImplemented
        return self._make(self.value - polynomial_of(other))

    def __rsub__(self, other: Number) -> Number:
        return -self + other

    def __mul__(self, other: Number) -> Number:
        if not isinstance(other, int | SymInt):
            return NotImplemented
        return self._make(self.value * polynomial_of(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Number) -> Number:
        if not isinstance(other, int | SymInt):
            return NotImplemented
        return self._make(self.path.quotient(self.value, polynomial_of(other)))

    def __rfloordiv__(self, other: Number) -> Number:
        return self._make(self.path.quotient(polynomial_of(other), self.value))

    def __mod__(self, other: Number) -> Number:
        return self - self // other * other

    def __rmod__(self, other: Number) -> Number:
        return other - other // self * self

    def _compare(self, difference: Polynomial, relation: str) -> SymBool:
        return SymBool(self.path, Fact(difference, relation))

    def __ge__(self, other: Number) -> SymBool:
        if not isinstance(other, int | SymInt):
            return NotImplemented
        return self._compare(self.value - polynomial_of(other), AT_LEAST)

    def __le__(self, other: Number) -> SymBool:
        if not isinstance(other, int | SymInt):
            return NotImplemented
        return self._compare(polynomial_of(other) - self.value, AT_LEAST)

    def __gt__(self, other: Number) -> SymBool:
        if not isinstance(other, int | SymInt):
            return NotImplemented
        return self._compare(self.value - polynomial_of(other) - constant(1), AT_LEAST)

    def __lt__(self, other: Number) -> SymBool:
        if not isinstance(other, int | SymInt):
            return NotImplemented
        return self._compare(polynomial_of(other) - self.value - constant(1), AT_LEAST)

    def __eq__(self, other: object) -> SymBool:  # type: ignore[override]
        if not isinstance(other, int | SymInt):
            return NotImplemented
        return self._compare(self.value - polynomial_of(other), EQUAL)

    def __ne__(self, other: object) -> SymBool:  # type: ignore[override]
        if not isinstance(other, int | SymInt):
            return NotImplemented
        return self._compare(self.value - polynomial_of(other), DIFFERENT)


Ratio = Union[Number, "SymRatio"]


class SymRatio:
    """A fraction of two such integers, the lower one positive: what a `Fraction` turns into on its way through."""

    __slots__ = ("denominator", "numerator")

    def __init__(self, numerator: Number, denominator: Number) -> None:
        self.numerator, self.denominator = numerator, denominator

    def __repr__(self) -> str:
        return f"({self.numerator!r}) / ({self.denominator!r})"

    def __bool__(self) -> bool:
        return bool(self.numerator != 0)

    def __hash__(self) -> int:
        return hash((self.numerator, self.denominator))

    def __neg__(self) -> "SymRatio":
        return SymRatio(-self.numerator, self.denominator)

    def __add__(self, other: Ratio) -> "SymRatio":
        upper, lower = parts(other)
        if same(lower, self.denominator):
            return SymRatio(self.numerator + upper, lower)
        return SymRatio(self.numerator * lower + upper * self.denominator, self.denominator * lower)

    __radd__ = __add__

    def __sub__(self, other: Ratio) -> "SymRatio":
        return self + -other

    def __rsub__(self, other: Ratio) -> "SymRatio":
        return -self + other

    def __mul__(self, other: Ratio) -> "SymRatio":
        upper, lower = parts(other)
        return SymRatio(self.numerator * upper, self.denominator * lower)

    __rmul__ = __mul__

    def __floor__(self) -> Number:
        return self.numerator // self.denominator

    def __ceil__(self) -> Number:
        return -(-self.numerator // self.denominator)

    def __floordiv__(self, other: Ratio) -> Number:
        upper, lower = parts(other)
        return self.numerator * lower // (self.denominator * upper)

    def __rfloordiv__(self, other: Number) -> Number:
        return other * self.denominator // self.numerator

    def _over(self, other: object) -> Number:
        upper, lower = parts(other)
        if same(lower, self.denominator):
            return self.numerator - upper
        return self.numerator * lower - upper * self.denominator

    def __ge__(self, other: Ratio) -> SymBool | bool:
        return self._over(other) >= 0

    def __le__(self, other: Ratio) -> SymBool | bool:
        return self._over(other) <= 0

    def __gt__(self, other: Ratio) -> SymBool | bool:
        return self._over(other) > 0

    def __lt__(self, other: Ratio) -> SymBool | bool:
        return self._over(other) < 0

    def __eq__(self, other: object) -> SymBool | bool:  # type: ignore[override]
        return self._over(other) == 0

    def __ne__(self, other: object) -> SymBool | bool:  # type: ignore[override]
        return self._over(other) != 0


def parts(number: object) -> tuple[Number, Number]:
    """The two halves of a ratio, or of an integer."""
    if isinstance(number, int | SymInt):
        return number, 1
    if hasattr(number, "numerator") and hasattr(number, "denominator"):
        return number.numerator, number.denominator
    raise TypeError(f"{number!r} is no ratio")


def same(left: Number, right: Number) -> bool:
    """Whether two numbers are the same polynomial."""
    return polynomial_of(left) == polynomial_of(right)
