"""Polynomials with integer coefficients over named integers, in one normal form: two that are equal look alike."""

import operator
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, reduce

Monomial = tuple[str, ...]
"""The names multiplied, in order; () is 1."""
ONE: Monomial = ()


class Polynomial:
    """A sum of monomials, none of them times 0."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = {monomial: factor for monomial, factor in terms.items() if factor}
        self._hash = hash(frozenset(self.terms.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: "Polynomial") -> "Polynomial":
        terms = dict(self.terms)
        for monomial, factor in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return Polynomial(terms)

    def __neg__(self) -> "Polynomial":
        return Polynomial({monomial: -factor for monomial, factor in self.terms.items()})

    def __sub__(self, other: "Polynomial") -> "Polynomial":
        return self + -other

    def __mul__(self, other: "Polynomial") -> "Polynomial":
        terms: dict[Monomial, int] = {}
        for left, left_factor in self.terms.items():
            for right, right_factor in other.terms.items():
                monomial = tuple(sorted(left + right))
                terms[monomial] = terms.get(monomial, 0) + left_factor * right_factor
        return Polynomial(terms)

    def __repr__(self) -> str:
        return " + ".join(f"{factor}*{'*'.join(m) or '1'}" for m, factor in sorted(self.terms.items())) or "0"

    @property
    def constant(self) -> int | None:
        """Its value where it has no names in it."""
        if not self.terms:
            return 0
        return self.terms.get(ONE) if len(self.terms) == 1 else None

    @property
    def degree(self) -> int:
        """Names in its longest monomial."""
        return max(map(len, self.terms), default=0)

    def value(self, numbers: Mapping[str, int]) -> int:
        """What it is when the names are these numbers."""
        total = 0
        for monomial, factor in self.terms.items():
            for name in monomial:
                factor *= numbers[name]
            total += factor
        return total


def constant(value: int) -> Polynomial:
    """A number."""
    return Polynomial({ONE: value})


@cache
def variable(name: str) -> Polynomial:
    """A name."""
    return Polynomial({(name,): 1})


def without(monomial: Monomial, names: Iterable[str]) -> Monomial | None:
    """The monomial with each of `names` taken out once, None where one is not in it."""
    left = list(monomial)
    for name in names:
        if name not in left:
            return None
        left.remove(name)
    return tuple(left)


def shared_names(polynomials: Iterable[Polynomial]) -> Monomial:
    """The names that every monomial of them has."""
    monomials = [Counter(monomial) for polynomial in polynomials for monomial in polynomial.terms]
    return tuple(sorted(reduce(operator.and_, monomials).elements())) if monomials else ()


def over(dividend: Polynomial, names: Monomial) -> Polynomial:
    """A polynomial divided by names that all its monomials have."""
    return Polynomial({without(monomial, names) or ONE: factor for monomial, factor in dividend.terms.items()})


def split_by(dividend: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
    """(exact, rest) with `dividend == exact * divisor + rest`: whole multiples of the divisor taken off as long as its
    first monomial divides one of the rest."""
    lead = max(divisor.terms, key=lambda monomial: (len(monomial), monomial))
    exact, rest, stuck = Polynomial({}), dividend, set[Monomial]()
    while True:
        found = [m for m in rest.terms if m not in stuck and without(m, lead) is not None]
        if not found:
            break
        monomial = max(found, key=lambda m: (len(m), m))
        factor, left = divmod(rest.terms[monomial], divisor.terms[lead])
        quotient = without(monomial, lead)
        if left or quotient is None:
            stuck.add(monomial)
            continue
        part = Polynomial({quotient: factor})
        exact, rest = exact + part, rest - part * divisor
        stuck.add(monomial)
    if len(divisor.terms) > 1 and rest.terms:
        return Polynomial({}), dividend
    return exact, rest
