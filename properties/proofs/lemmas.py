"""What the linear view of `paths.py` is told of products and quotients, each proved once on products as they are."""

from dataclasses import dataclass
from typing import Any

import z3  # type: ignore[import-untyped]

RESOURCES = 20_000_000
"""The most the solver may spend on a lemma, in its own units; running out is a failure."""


@dataclass(frozen=True)
class Lemma:
    """A statement about all integers, and the same without a premise, which is false."""

    name: str
    statement: Any
    wrong: Any

    def __str__(self) -> str:
        return self.name


def is_valid(statement: Any) -> bool:
    """Whether no integers make a statement false. Raises where the solver cannot say."""
    solver = z3.Solver()
    solver.set("rlimit", RESOURCES)
    solver.add(z3.Not(statement))
    answer = solver.check()
    if answer == z3.unknown:
        raise RuntimeError(f"the solver gives up: {solver.reason_unknown()}")
    return bool(answer == z3.unsat)


def divided(dividend: Any, divisor: Any, quotient: Any) -> Any:
    """`quotient` is `dividend // divisor`."""
    return z3.And(quotient * divisor <= dividend, dividend < quotient * divisor + divisor)


def lemmas() -> tuple[Lemma, ...]:
    """The four."""
    x, y, u, v, a, b, k, q, s = z3.Ints("x y u v a b k q s")
    product = x * y >= 0
    quotient = (k * b <= a) == (k <= q)
    monotone = u * y <= v * y
    scale = q == s
    halves = z3.And(divided(a, b, q), divided(y * a, y * b, s))
    return (
        Lemma("PRODUCT", z3.Implies(z3.And(x >= 0, y >= 0), product), z3.Implies(x >= 0, product)),
        Lemma("QUOTIENT", z3.Implies(z3.And(b > 0, divided(a, b, q)), quotient), z3.Implies(b > 0, quotient)),
        Lemma("MONOTONE", z3.Implies(z3.And(y >= 0, u <= v), monotone), z3.Implies(u <= v, monotone)),
        Lemma("SCALE", z3.Implies(z3.And(y > 0, b > 0, halves), scale), z3.Implies(b > 0, scale)),
    )


LEMMAS = lemmas()
