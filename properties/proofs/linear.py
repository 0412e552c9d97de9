"""What the solver sees: each product of names is a name of its own, so that all is linear and always decided."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import z3  # type: ignore[import-untyped]

from properties.proofs.polynomials import ONE, Monomial, Polynomial
from properties.proofs.symbolic import AT_LEAST, EQUAL, Fact


@cache
def times(left: Polynomial, right: Polynomial) -> Polynomial:
    """Their product."""
    return left * right


@cache
def name_of(monomial: Monomial) -> Any:
    """The solver's name of a product."""
    return z3.Int("*".join(monomial))


@cache
def linear(value: Polynomial) -> Any:
    """A polynomial as the solver sees it, each product a name."""
    parts = [factor if monomial == ONE else factor * name_of(monomial) for monomial, factor in value.terms.items()]
    return z3.Sum(parts) if parts else z3.IntVal(0)


def add(solver: Any, statements: Iterable[Any]) -> None:
    """Statements added to a solver, without the casts of `Solver.add`: they are most of what it takes."""
    context, handle = solver.ctx.ref(), solver.solver
    for statement in statements:
        z3.Z3_solver_assert(context, handle, statement.as_ast())


def related(left: Any, relation: str) -> Any:
    """A relation to 0 in the solver's words."""
    return left >= 0 if relation == AT_LEAST else left == 0 if relation == EQUAL else left != 0


def product_of(monomial: Monomial) -> Any:
    """A product as it is."""
    result = z3.Int(monomial[0])
    for name in monomial[1:]:
        result = result * z3.Int(name)
    return result


@cache
def relation_of(fact: Fact) -> Any:
    """A fact in the solver's words."""
    return related(linear(fact.left), fact.relation)


def relevant(facts: Iterable[Fact]) -> set[Monomial]:
    """The products that facts speak of."""
    return {monomial for fact in facts for monomial in fact.left.terms if len(monomial) > 1}


def least_of(fact: Fact) -> tuple[str, int] | None:
    """A name and what it is at least, where that is all a fact says."""
    names = [monomial for monomial in fact.left.terms if monomial != ONE]
    if fact.relation != AT_LEAST or len(names) != 1 or len(names[0]) != 1 or fact.left.terms[names[0]] != 1:
        return None
    return names[0][0], -fact.left.terms.get(ONE, 0)


def says_only_at_least_0(fact: Fact) -> bool:
    """Whether a fact is that of a name or a product of names that are at least 0."""
    return fact.relation == AT_LEAST and len(fact.left.terms) == 1 and min(fact.left.terms.values()) > 0
