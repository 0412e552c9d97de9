"""What `explain log` keeps while it reads: the log as a whole, what one rank has said so far, and verdicts."""

from dataclasses import dataclass, field
from fractions import Fraction

from spec.explain.log_lines import Line
from spec.model import Scenario
from spec.units import GiB

ADDS_UP, OFF, READ, OPEN = "adds up", "DOES NOT ADD UP", "read", "not derived"
"""What may be said of a line: worked out again, not so, an input of the others, or nothing to work it out from."""

HALF_A_DIGIT = Fraction(1, 200)
"""A reading of two decimals lies this close to what was measured, in GiB."""


@dataclass(frozen=True)
class Judged:
    """One line and what is said of it."""

    line: Line
    verdict: str
    told: str


@dataclass(frozen=True)
class Log:
    """What the log says as a whole, beside the set-up. readings: rank -> GiB free before its first weights and after
    its last, of the ranks that print both; sold: the first line of what is sold; swa_rows: the first SWA rows that are
    printed; None without such a line."""

    scenario: Scenario
    fraction: Fraction | None
    readings: dict[str, tuple[Fraction, Fraction]]
    sold: Line | None
    swa_rows: int | None

    @property
    def tokens(self) -> int | None:
        """Tokens that are sold."""
        return int(self.sold.fields["tokens"]) if self.sold else None


@dataclass
class Reader:
    """What has been read of one rank so far. stage: the one it holds, None where no line says; before, after: free GiB
    around each model's weights; free: the last free GiB printed; taken: bytes of the pools since then, None once one of
    them is not known; met: all pools; has_told_table: whether the request table was spoken of."""

    log: Log
    stage: int | None
    before: list[Fraction] = field(default_factory=list)
    after: list[Fraction] = field(default_factory=list)
    free: Fraction | None = None
    taken: int | None = 0
    met: set[str] = field(default_factory=set)
    has_told_table: bool = False

    @property
    def scenario(self) -> Scenario:
        """The set-up."""
        return self.log.scenario

    def takes(self, count: int | None) -> None:
        """A pool of so many bytes, None where it is not known."""
        self.taken = None if count is None or self.taken is None else self.taken + count

    def reads_free(self, free: Fraction) -> None:
        """Free GiB, from which what comes next is taken."""
        self.free, self.taken = free, 0


def printed(count: int) -> str:
    """Bytes as a log prints them: GiB to two decimals, halves to the even digit."""
    return two_decimals(Fraction(count, GiB))


def two_decimals(number: Fraction) -> str:
    """A number from 0 to two decimals."""
    hundredths = round(100 * max(number, Fraction(0)))
    return f"{hundredths // 100}.{hundredths % 100:02d}"
