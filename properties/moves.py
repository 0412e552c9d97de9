"""What moved between two answers to the same scenario, and the term that moved it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from properties.asked import Call, NotSupported, Question, Raised, Said
from properties.cells import cell_of
from properties.observed import Prices
from properties.prices import worst_bytes
from spec.laws.base import draft_is_resolved, first_difference
from spec.layers import CAPPED_POOL, pool_kind
from spec.model import MemoryFigures, PoolSizes, Refusal


@dataclass(frozen=True)
class Term:
    """One number that differs: its name, what it was, what it is. `stage` None where there is one pipeline stage."""

    name: str
    base: str
    head: str
    stage: int | None = None


@dataclass(frozen=True)
class Move:
    """One scenario with two answers. `terms` are those that moved; `base_over` and `head_over` the bytes that each
    answer takes beyond the budget on the worst stage by the spec's accounting (below zero: left), None where it sells
    nothing or the draft is not resolved."""

    question: Question
    cell: str
    base: Said
    head: Said
    terms: tuple[Term, ...]
    base_over: int | None
    head_over: int | None

    @property
    def change(self) -> Fraction:
        """Of the tokens sold, as a share of the base's: -1 where nothing is left, 0 where there was nothing."""
        before, after = tokens_of(self.base), tokens_of(self.head)
        return Fraction(after - before, before) if before else Fraction(0)

    @property
    def newly_over(self) -> bool:
        """The head takes more bytes than there are, and the base did not."""
        return self.head_over is not None and self.head_over > 0 and not (self.base_over or 0) > 0

    @property
    def further_over(self) -> bool:
        """Both take more bytes than there are, and the head more of them."""
        return (self.base_over or 0) > 0 and (self.head_over or 0) > (self.base_over or 0)

    @property
    def mended(self) -> bool:
        """The base took more bytes than there are, and the head does not."""
        return self.base_over is not None and self.base_over > 0 and not (self.head_over or 0) > 0

    @property
    def newly_refused(self) -> bool:
        """The base sold tokens, and the head refuses."""
        return isinstance(self.base, PoolSizes) and isinstance(self.head, Refusal)

    @property
    def newly_raised(self) -> bool:
        """The base answered, and the head raises what is no refusal."""
        return isinstance(self.head, Raised)

    @property
    def first_terms(self) -> dict[str, Term]:
        """The terms by name, each on the first stage where it moved."""
        first: dict[str, Term] = {}
        for term in self.terms:
            first.setdefault(term.name, term)
        return first


def tokens_of(said: Said) -> int:
    """Tokens sold, 0 where none are."""
    return said.max_total_num_tokens if isinstance(said, PoolSizes) else 0


def differ(base: Said, head: Said) -> bool:
    """Whether two answers are not the same: refusals are compared by kind, what was raised not by its words."""
    if isinstance(base, Raised) or isinstance(head, Raised):
        return type(base) is not type(head)
    assert not isinstance(base, NotSupported) and not isinstance(head, NotSupported)
    return first_difference(base, head) is not None


def over_bytes(question: Question, said: Said) -> int | None:
    """Bytes beyond the budget on the worst stage, as law B1 counts them."""
    scenario = question.scenario
    if not isinstance(said, PoolSizes) or not draft_is_resolved(scenario):
        return None
    worst = worst_bytes(scenario, said)
    return None if worst is None else worst.over


def price_terms(base: Prices, head: Prices) -> list[Term]:
    """The prices of a row that differ, stage by stage. Where one of the two sells no row at any price there is nothing
    to compare."""
    staged = len(base) > 1
    return [
        Term(name, price_text(price), price_text(other), stage if staged else None)
        for stage, (here, there) in enumerate(zip(base, head, strict=True))
        for name, price in here.items()
        if price is not None and (other := there.get(name)) is not None and price != other
    ]


def price_text(price: str) -> str:
    """Bytes of a row with separators."""
    value = Fraction(price)
    return f"{value.numerator:,}" if value.denominator == 1 else f"{value.numerator:,}/{value.denominator:,}"


def kind_text(said: Said) -> str:
    """An answer in one word or two."""
    if isinstance(said, Refusal):
        return said.kind
    return "raised" if isinstance(said, Raised) else "tokens"


def other_terms(question: Question, base: Said, head: Said) -> list[Term]:
    """What moved where every row costs what it did: the kind of answer, else what the tokens follow from, else the
    first size that differs."""
    if not (isinstance(base, PoolSizes) and isinstance(head, PoolSizes)):
        return [Term("answer", kind_text(base), kind_text(head))]
    off = first_difference(base, head)
    assert off is not None and isinstance(off.expected, int) and isinstance(off.got, int)
    size = Term(off.term, f"{off.expected:,}", f"{off.got:,}")
    if off.term != "max_total_num_tokens":
        return [size]
    swa = (base.swa_max_total_num_tokens, head.swa_max_total_num_tokens)
    if pool_kind(question.scenario) == CAPPED_POOL and swa[0] != swa[1]:
        return [Term("SWA rows", f"{swa[0]:,}", f"{swa[1]:,}")]
    left = []
    if isinstance(question.scenario.budget, MemoryFigures):
        left.append("available bytes")
    if pool_kind(question.scenario) == CAPPED_POOL:
        left.append("bytes of the fixed SWA rows")
    if left:
        return [Term(f"{' or '.join(left)}, by the tokens", size.base, size.head)]
    return [Term("tokens at the same prices", size.base, size.head)]


def move_of(question: Question, base: tuple[Said, Prices], head: tuple[Said, Prices]) -> Move:
    """One scenario whose answers differ."""
    terms = price_terms(base[1], head[1]) or other_terms(question, base[0], head[0])
    return Move(
        question,
        str(cell_of(question.scenario)),
        base[0],
        head[0],
        tuple(terms),
        over_bytes(question, base[0]),
        over_bytes(question, head[0]),
    )


def first_change(base: Sequence[Call], head: Sequence[Call]) -> tuple[Call, str] | None:
    """The function of the head that made the difference, and what it returned in the base: of those that returned
    another number than there, the first whose code is another, else the first. Calls are in the order in which they
    return, so the innermost comes first. None where no call says so."""
    changes = list(changed_calls(base, head))
    codes = {call.code for call in base}
    return next((change for change in changes if change[0].code not in codes), changes[0] if changes else None)


def changed_calls(base: Sequence[Call], head: Sequence[Call]) -> Iterator[tuple[Call, str]]:
    """The head's calls that returned another number than in the base, and what they returned there. A function is known
    by its class and name, or, where the base has no such class, by its name. Its first call is compared with its first
    there, and so on; one that is called more often, or less, is called for other things and tells nothing."""
    before: dict[str, list[str]] = {}
    for call in base:
        for name in {call.name, short_name(call)}:
            before.setdefault(name, []).append(call.value)
    times = Counter(call.name for call in head)
    met: Counter[str] = Counter()
    for call in head:
        values = before.get(call.name) or before.get(short_name(call), [])
        if len(values) == times[call.name] and values[met[call.name]] != call.value:
            yield call, values[met[call.name]]
        met[call.name] += 1


def short_name(call: Call) -> str:
    """A function's own name: the class around it may have another in another implementation."""
    return call.name.rpartition(".")[2]
