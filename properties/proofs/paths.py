"""Every way through a function: which branches can be taken together, what holds on each, and where a claim fails."""

from collections.abc import Iterator
from typing import Any

import z3  # type: ignore[import-untyped]

from properties.proofs.instances import RESOURCES, Division, Known, in_units_of_divisors, is_refuted, natural_products
from properties.proofs.linear import (
    add,
    least_of,
    linear,
    name_of,
    product_of,
    related,
    relation_of,
    times,
)
from properties.proofs.polynomials import ONE, Monomial, Polynomial, constant, over, shared_names, split_by, variable
from properties.proofs.symbolic import AT_LEAST, DIFFERENT, EQUAL, Fact

MOST_BRANCHES = 200
"""Branches of one path before it is given up: no function here loops on a symbolic condition."""


class Impossible(Exception):
    """The path is not there: an assumption is false on it."""


class Unproved(Exception):
    """A divisor that could not be shown to be positive, or a path without an end."""


class Path(Known):
    """One way through a function: `chosen` says how its first branches go, `alternatives` where it could have gone;
    `answers` are what other paths of the same claim have asked."""

    def __init__(self, chosen: tuple[bool, ...], answers: dict[Any, bool] | None = None) -> None:
        super().__init__()
        self.chosen = chosen
        self.answers = {} if answers is None else answers
        self.taken: list[bool] = []
        self.alternatives: list[tuple[bool, ...]] = []
        self.facts: list[Fact] = []
        self.decided: dict[Fact, bool] = {}
        self.seen: set[Monomial] = set()
        self.solver = z3.SimpleSolver()
        self.solver.set("rlimit", RESOURCES)

    # What the symbolic numbers ask.

    def decide(self, fact: Fact) -> bool:
        """Goes a way that is possible, and keeps the other for another run."""
        if fact in self.decided:
            return self.decided[fact]
        if len(self.taken) >= MOST_BRANCHES:
            raise Unproved("a path without an end")
        if len(self.taken) < len(self.chosen):
            way = self.chosen[len(self.taken)]
        else:
            way = self.possible(fact)
            if way and self.possible(fact.opposite()):
                self.alternatives.append((*self.taken, False))
        self.taken.append(way)
        self.decided[fact], self.decided[fact.opposite()] = way, not way
        self.know(fact if way else fact.opposite())
        return way

    def quotient(self, dividend: Polynomial, divisor: Polynomial) -> Polynomial:
        """A new name, or what it is where the division comes out even."""
        if not self.proves(Fact(divisor - constant(1), AT_LEAST)):
            raise Unproved(f"{divisor!r} is not shown to be positive")
        common = tuple(name for name in shared_names((dividend, divisor)) if name in self.positives)
        dividend, divisor = over(dividend, common), over(divisor, common)
        exact, rest = split_by(dividend, divisor)
        if rest.constant == 0:
            return exact
        key = rest, divisor
        if key not in self.divisions:
            name = f"q{len(self.divisions)}"
            found = Division(rest, divisor, name)
            self.divisions[key] = found
            for least in (constant(0), constant(1), *self.known_factors(divisor)):
                if not self.possible(Fact(rest - least * divisor, AT_LEAST).opposite()):
                    self.know(Fact(found.quotient - least, AT_LEAST))
            remainder = rest - found.quotient * divisor
            self.know(Fact(remainder, AT_LEAST))
            self.know(Fact(divisor - remainder - constant(1), AT_LEAST))
        return exact + self.divisions[key].quotient

    # What is known.

    def name(self, name: str, least: int) -> Polynomial:
        """An input, at least `least`, which is at least 0."""
        self.inputs[name] = None
        self.know(Fact(variable(name) - constant(least), AT_LEAST))
        return variable(name)

    def known_factors(self, divisor: Polynomial) -> list[Polynomial]:
        """Names whose products with a divisor are spoken of: the quotient may be no less."""
        products = {name: times(variable(name), divisor).terms for name in self.positives}
        return [variable(name) for name in sorted(products) if self.seen.issuperset(products[name])]

    def know(self, fact: Fact) -> None:
        """Adds a fact; of an inequation, the one side that is possible."""
        if fact.relation == DIFFERENT:
            sides = [Fact(side - constant(1), AT_LEAST) for side in (fact.left, -fact.left)]
            possible = [side for side in sides if self.possible(side)]
            fact = possible[0] if len(possible) == 1 else fact
        fact = self.cancelled(fact)
        self.facts.append(fact)
        for known in (fact, *in_units_of_divisors(fact, self)):
            add(self.solver, [relation_of(known)])
            self.meet(known.left)
        least = least_of(fact)
        if least is not None and least[1] >= 0:
            self.naturals[least[0]] = None
            if least[1] > 0:
                self.positives.add(least[0])
        self.zeros.update(self.zeros_of(fact))

    def zeros_of(self, fact: Fact) -> Iterator[str]:
        """Names that are 0 because a sum of products of names that are at least 0 is: of each product, the one name
        that is not at least 1."""
        terms = fact.left.terms
        if fact.relation != EQUAL or ONE in terms or min(terms.values(), default=0) <= 0:
            return
        for monomial in terms:
            rest = [name for name in monomial if name not in self.positives]
            if len(rest) == 1 and self.naturals.keys() >= {name for other in terms for name in other}:
                yield rest[0]

    def cancelled(self, fact: Fact) -> Fact:
        """A fact without the positive names that all its products have, where it is about their sign: at least 0, above
        0, equal to 0 or not (PRODUCT, of what would be left otherwise)."""
        least = fact.left.terms.get(ONE, 0)
        rest = fact.left - constant(least)
        names = tuple(name for name in shared_names([rest]) if name in self.positives)
        left = over(rest, names)
        about_sign = least == 0 or (least == -1 and fact.relation == AT_LEAST)
        return Fact(left + constant(least), fact.relation) if names and left.degree and about_sign else fact

    def meet(self, value: Polynomial) -> None:
        """PRODUCT of names that are at least 0, for products not met before."""
        for monomial in value.terms:
            if len(monomial) > 1 and monomial not in self.seen:
                self.seen.add(monomial)
                add(self.solver, natural_products([monomial], self))

    def possible(self, fact: Fact) -> bool:
        """Whether a fact can be true beside all others, as far as the linear view goes. Paths that began alike share
        the answer."""
        question = tuple(self.taken), len(self.facts), fact
        if question not in self.answers:
            self.meet(fact.left)
            self.answers[question] = self.solver.check(relation_of(fact)) != z3.unsat
        return self.answers[question]

    def proves(self, fact: Fact) -> bool:
        """Whether a fact follows."""
        if fact.known is not None:
            return fact.known
        return not self.possible(fact.opposite()) or is_refuted([*self.facts, fact.opposite()], self)

    def is_impossible(self) -> bool:
        """Whether the facts contradict each other, by instances of the lemmas where need be."""
        return is_refuted(self.facts, self)

    def model(self, most: int) -> dict[str, int] | None:
        """Inputs up to `most` that lead down this path, products taken as they are; None where none were found."""
        solver = z3.Tactic("qfnia").solver()
        solver.set("rlimit", RESOURCES)
        products = set[Monomial]()
        for fact in self.facts:
            solver.add(related(linear(fact.left), fact.relation))
            products.update(monomial for monomial in fact.left.terms if len(monomial) > 1)
        solver.add([name_of(monomial) == product_of(monomial) for monomial in sorted(products)])
        solver.add([z3.Int(name) <= most for name in self.inputs])
        if solver.check() != z3.sat:
            return None
        found = solver.model()
        return {name: found.eval(z3.Int(name), model_completion=True).as_long() for name in self.inputs}
