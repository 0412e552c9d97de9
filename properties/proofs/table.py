"""What is proved: each law, for each pool kind it claims, of the spec and of the configurator."""

from collections.abc import Iterator
from dataclasses import dataclass

import spec.pools
from impl import configurator_prices
from impl.configurator import MemoryPoolConfigurator
from properties.proof_report import PROVED_OF
from properties.proofs.claims import (
    A_BYTE_LESS,
    ALLOCATED,
    THE_PRICE,
    fallback_below_the_price_oversells,
    hybrid_inverting_claim,
    law_claim,
)
from properties.proofs.explore import Claim, Inputs
from properties.proofs.mutants import Mutant, inverting_mutant_of, mutant_of
from properties.proofs.price_mutants import price_mutant_of
from properties.proofs.prices import PRICE_CLAIMS, PriceClaim
from properties.proofs.supports import fixed_swa_rows_are_whole_pages, limits_follow_the_rows
from spec import capped
from spec.laws.base import Verdict
from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, HYBRID_POOL, POOL_KINDS

SIZING_LAWS = ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "C1", "D1", "D3", "D4")
"""Laws of sizing that claim every pool kind."""
LIMITS, SWA_ROWS, NO_LAYERS, SWAPPED = "limits", "SWA rows", "D1 rows", "D4 rows"
"""Names of the proofs that others go by."""
OVERSELLS = "D5 oversells"
"""The layer ratio below the exact price implies a budget that oversells."""
LONG = ("B3", A_BYTE_LESS, ALLOCATED, "B5", "B6", "C1", "D3", "D4")
"""Laws whose proofs for hybrid pools take 4 to 50 seconds each: those of the nightly profile. A ratio makes products of
four and five numbers, of which the solver has to be told a lot."""


@dataclass(frozen=True)
class Proof:
    """A claim about all integers, a function made wrong on which it must be refuted, and the proofs it goes by."""

    law: str
    kind: str
    implementation: str
    claim: Claim
    mutant: Mutant
    lemmas: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.law}-{self.kind}-{self.implementation}".replace(" ", "_")

    @property
    def is_long(self) -> bool:
        """Whether only the nightly profile has the time."""
        return self.kind == HYBRID_POOL and self.law in LONG

    @property
    def names(self) -> tuple[str, str, str]:
        """The law, the pool kind, the implementation."""
        return self.law, self.kind, self.implementation

    def mutated(self, inputs: Inputs) -> Verdict:
        """The claim with the function made wrong."""
        with self.mutant.applied():
            return self.claim(inputs)


def lemmas_of(law: str, kind: str) -> tuple[str, ...]:
    """The proofs that a proof of sizing goes by."""
    found = [LIMITS]
    if kind == CAPPED_POOL:
        found.append(SWA_ROWS)
    return (*found, *{"D1": (NO_LAYERS,), "D4": (SWAPPED,)}.get(law, ()))


def sizing_proofs() -> Iterator[Proof]:
    """The laws whose predicates judge an answer."""
    laws = [(law, kind) for law in SIZING_LAWS for kind in POOL_KINDS]
    for law, kind in (*laws, ("W1", ALL_WINDOW_POOL), ("W3", CAPPED_POOL)):
        for implementation in PROVED_OF:
            if (law, kind) == ("B3", HYBRID_POOL):
                yield from hybrid_inverting_proofs(implementation)
                continue
            claim, mutant = law_claim(law, kind, implementation), mutant_of(law, kind, implementation)
            yield Proof(law, kind, implementation, claim, mutant, lemmas_of(law, kind))
    for kind in POOL_KINDS:
        for implementation in PROVED_OF:
            claim = fallback_below_the_price_oversells(kind, implementation)
            yield Proof(OVERSELLS, kind, implementation, claim, mutant_of("B2", kind, implementation))


def hybrid_inverting_proofs(implementation: str) -> Iterator[Proof]:
    """B3 of hybrid pools, clause by clause."""
    for clause in (THE_PRICE, A_BYTE_LESS, ALLOCATED):
        claim, mutant = hybrid_inverting_claim(clause, implementation), inverting_mutant_of(clause, implementation)
        lemmas = (LIMITS,) if clause == THE_PRICE else (LIMITS, THE_PRICE)
        yield Proof(clause, HYBRID_POOL, implementation, claim, mutant, lemmas)


def on(claim: PriceClaim, kind: str, implementation: str) -> Claim:
    """A claim on prices of a pool kind and an implementation."""
    return lambda inputs: claim(inputs, kind, implementation)


def price_proofs() -> Iterator[Proof]:
    """The laws of the bytes of a row."""
    for law, (claim, kinds) in PRICE_CLAIMS.items():
        for kind in kinds:
            for implementation in PROVED_OF:
                mutant = price_mutant_of(law, kind, implementation)
                yield Proof(law, kind, implementation, on(claim, kind, implementation), mutant)


def no_more_than_one(scenario: object, rows: int) -> int:
    """More rows, fewer requests."""
    return max(1, 100 - rows)


def any_number(tokens: int, page_size: int) -> int:
    """Not rounded at all."""
    return tokens


def supporting_proofs() -> Iterator[Proof]:
    """What the proofs of sizing leave out."""
    wrong = "allows fewer requests with more rows"
    right = MemoryPoolConfigurator._finished_sizes

    def fewer(configurator: object, rows: int, below_cap: bool) -> object:
        return right(configurator, max(2, 100 - rows), below_cap)  # type: ignore[arg-type]

    limits = {
        "spec": Mutant(wrong, spec.pools, "running_requests", no_more_than_one),
        "configurator": Mutant(wrong, MemoryPoolConfigurator, "_finished_sizes", fewer),
    }
    swa_rows = {
        "spec": Mutant("rounds nothing", capped, "align_up", any_number),
        "configurator": Mutant("rounds nothing", configurator_prices, "ceil_to", any_number),
    }
    for implementation in PROVED_OF:
        yield Proof(
            LIMITS, "window", implementation, on(limits_follow_the_rows, "", implementation), limits[implementation]
        )
        claim = on(fixed_swa_rows_are_whole_pages, "", implementation)
        yield Proof(SWA_ROWS, CAPPED_POOL, implementation, claim, swa_rows[implementation])


PROOFS = (*supporting_proofs(), *price_proofs(), *sizing_proofs())
