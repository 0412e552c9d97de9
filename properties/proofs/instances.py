"""Contradictions, by what the linear view is told of products and quotients: instances of four lemmas on integers, each
proved once by the solver on products as they are (`lemmas.py`).

    PRODUCT    x >= 0 and y >= 0  =>  x * y >= 0
    QUOTIENT   b > 0  =>  (k * b <= a  <=>  k <= a // b)
    SCALE      y > 0 and b > 0  =>  (y * a) // (y * b) == a // b
    MONOTONE   y >= 0 and u <= v  =>  u * y <= v * y
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import Any

import z3  # type: ignore[import-untyped]

from properties.proofs.linear import add, name_of, relation_of, relevant, says_only_at_least_0, times
from properties.proofs.polynomials import ONE, Monomial, Polynomial, constant, variable, without
from properties.proofs.symbolic import AT_LEAST, DIFFERENT, EQUAL, Fact

RESOURCES = 10_000_000
"""The most the solver may spend on one question, in its own units, so that its answers do not depend on the machine;
without an answer nothing is proved."""


@dataclass(frozen=True)
class Division:
    """`dividend // divisor` and the name of its quotient."""

    dividend: Polynomial
    divisor: Polynomial
    name: str

    @property
    def quotient(self) -> Polynomial:
        """The name as a polynomial."""
        return variable(self.name)


class Known:
    """What a path knows of its names: inputs, those that are at least 0, at least 1, and 0, and divisions."""

    def __init__(self) -> None:
        self.inputs: dict[str, None] = {}
        self.naturals: dict[str, None] = {}
        self.positives: set[str] = set()
        self.zeros: set[str] = set()
        self.divisions: dict[tuple[Polynomial, Polynomial], Division] = {}


def in_units_of_divisors(fact: Fact, path: Known) -> Iterator[Fact]:
    """PRODUCT of a fact that speaks of a quotient and of its divisor, where that is a name."""
    if fact.relation == DIFFERENT or says_only_at_least_0(fact):
        return
    for division in path.divisions.values():
        if (division.name,) in fact.left.terms and division.divisor.degree == len(division.divisor.terms) == 1:
            yield Fact(times(fact.left, division.divisor), fact.relation)


def multipliers(path: Known) -> list[Polynomial]:
    """What is at least 0: names and divisors."""
    names = [variable(name) for name in path.naturals]
    return list(dict.fromkeys([*names, *(division.divisor for division in path.divisions.values())]))


def pairs_of_names(path: Known) -> list[Polynomial]:
    """Products of an input that something is divided by and an input."""
    divisors = dict.fromkeys(division.divisor for division in path.divisions.values() if division.divisor.degree == 1)
    names = [left for left in divisors if len(left.terms) == 1]
    return list(dict.fromkeys(times(left, variable(right)) for left in names for right in path.inputs))


def pairs_of_multipliers(path: Known) -> list[Polynomial]:
    """Products of a divisor and a multiplier."""
    divisors = dict.fromkeys(division.divisor for division in path.divisions.values())
    return list(dict.fromkeys(times(left, right) for left in divisors for right in multipliers(path)))


@cache
def natural_instance(monomial: Monomial, positives: frozenset[str]) -> Any:
    """PRODUCT of names that are at least 0: at least 0, and no less than without a name that is at least 1."""
    fewer = [without(monomial, [name]) or ONE for name in sorted(positives)]
    return z3.And([name_of(monomial) >= 0, *(name_of(monomial) >= name_of(rest) for rest in fewer)])


def natural_products(monomials: Iterable[Monomial], path: Known) -> Iterator[Any]:
    """PRODUCT of the names of products, and of what is left of them without names that are at least 1. A product with a
    name that is 0 is 0."""
    pending, done = sorted(monomials), set[Monomial]()
    while pending:
        monomial = pending.pop()
        if len(monomial) < 2 or monomial in done or not path.naturals.keys() >= set(monomial):
            continue
        done.add(monomial)
        if not path.zeros.isdisjoint(monomial):
            yield name_of(monomial) == 0
            continue
        positives = frozenset(path.positives.intersection(monomial))
        yield natural_instance(monomial, positives)
        pending += [without(monomial, [name]) or ONE for name in positives]


def quotient_products(path: Known) -> set[Monomial]:
    """The products that `quotients` speak of."""
    pairs = permutations(path.divisions.values(), 2)
    found = (times(other.quotient, division.divisor) for division, other in pairs)
    return {monomial for product in found for monomial in product.terms if len(monomial) > 1}


@cache
def quotient_instance(division: Division, k: Polynomial) -> Any:
    """QUOTIENT of a division and k."""
    enough = relation_of(Fact(division.dividend - k * division.divisor, AT_LEAST))
    return enough == relation_of(Fact(division.quotient - k, AT_LEAST))


@cache
def monotone_instance(gap: Polynomial, factor: Polynomial) -> Any:
    """MONOTONE of two numbers so far apart."""
    return z3.Implies(relation_of(Fact(gap, AT_LEAST)), relation_of(Fact(times(gap, factor), AT_LEAST)))


def quotients(path: Known, known: set[Monomial]) -> Iterator[Any]:
    """QUOTIENT of each division with each other quotient as k; MONOTONE of each two quotients by each divisor, and by
    each name that both are multiplied with."""
    beside: dict[str, set[str]] = defaultdict(set)
    for monomial in known:
        if len(monomial) == 2:
            for name, other_name in permutations(monomial):
                beside[name].add(other_name)
    for division, other in permutations(path.divisions.values(), 2):
        yield quotient_instance(division, other.quotient)
        shared = sorted(beside[division.name] & beside[other.name] & path.naturals.keys())
        for factor in dict.fromkeys((division.divisor, other.divisor, *map(variable, shared))):
            yield monotone_instance(division.quotient - other.quotient, factor)


def nested_quotients(path: Known) -> Iterator[tuple[Division, Polynomial]]:
    """Each division with what another quotient, or one more or less, is worth in rows: a k for QUOTIENT."""
    pages = dict.fromkeys(division.divisor for division in path.divisions.values() if division.divisor.degree == 1)
    for division, other in permutations(path.divisions.values(), 2):
        for rows in (constant(1), *(page for page in pages if len(page.terms) == 1)):
            for more in (-1, 0, 1):
                yield division, times(other.quotient + constant(more), rows)


def says_nothing_new(division: Division, k: Polynomial, known: set[Monomial]) -> bool:
    """Whether an instance of QUOTIENT speaks of known products only."""
    return all(len(monomial) < 2 or monomial in known for monomial in (*times(k, division.divisor).terms, *k.terms))


def products(facts: list[Fact], factors: list[Polynomial]) -> list[Fact]:
    """PRODUCT of each fact and each factor; that of names alone is in `natural_products`."""
    multiplied = [fact for fact in facts if fact.left.degree and not says_only_at_least_0(fact)]
    return [Fact(times(fact.left, factor), fact.relation) for factor in factors for fact in multiplied]


def useful(instances: list[Fact], known: set[Monomial]) -> list[Fact]:
    """Those that can contradict anything: a product that only ever adds, or only ever takes away, can be as large as
    makes its inequalities true, so they say nothing; and so on, without them."""
    signs: dict[Monomial, Counter[bool]] = defaultdict(Counter)
    for fact in instances:
        for monomial, sign in signs_of(fact):
            signs[monomial][sign] += 1
    kept = dict.fromkeys(instances)
    changed = True
    while changed:
        changed = False
        for fact in list(kept):
            if any(monomial not in known and not signs[monomial][not sign] for monomial, sign in signs_of(fact)):
                del kept[fact]
                changed = True
                for monomial, sign in signs_of(fact):
                    signs[monomial][sign] -= 1
    return list(kept)


@cache
def signs_of(fact: Fact) -> tuple[tuple[Monomial, bool], ...]:
    """Its products and whether they add; those of an equation do both."""
    if fact.relation == EQUAL:
        return tuple((monomial, sign) for monomial in fact.left.terms if len(monomial) > 1 for sign in (True, False))
    return tuple((monomial, factor > 0) for monomial, factor in fact.left.terms.items() if len(monomial) > 1)


def is_refuted(facts: list[Fact], path: Known) -> bool:
    """Whether facts contradict each other. The last inequation is split into its two sides, which is what PRODUCT can
    be applied to."""
    unequal = [at for at, fact in enumerate(facts) if fact.relation == DIFFERENT]
    if unequal:
        at = unequal[-1]
        sides = (facts[at].left - constant(1), -facts[at].left - constant(1))
        return all(is_refuted([*facts[:at], *facts[at + 1 :], Fact(side, AT_LEAST)], path) for side in sides)
    solver = z3.SimpleSolver()
    solver.set("rlimit", RESOURCES)
    facts = list(dict.fromkeys([*facts, *(more for fact in facts for more in in_units_of_divisors(fact, path))]))
    add(solver, map(relation_of, facts))
    return any(follows(solver, instances) for instances in levels(facts, path))


def follows(solver: Any, instances: Iterable[Any]) -> bool:
    """Whether a contradiction follows once these are added."""
    add(solver, instances)
    return bool(solver.check() == z3.unsat)


def levels(facts: list[Fact], path: Known) -> Iterator[Iterable[Any]]:
    """Instances of the lemmas, those that help most often first."""
    known = relevant(facts) | quotient_products(path)
    yield [*natural_products(known, path), *quotients(path, known)]
    nested = list(nested_quotients(path))
    yield [quotient_instance(*instance) for instance in nested if says_nothing_new(*instance, known)]
    singles = multipliers(path)
    for factors in (singles, [*singles, *pairs_of_names(path)], [*singles, *pairs_of_multipliers(path)]):
        if len(factors) > len(singles):
            yield [quotient_instance(*instance) for instance in nested]
        instances = useful(list(dict.fromkeys(products(facts, factors))), known)
        yield [*natural_products(relevant(instances) - known, path), *map(relation_of, instances)]
