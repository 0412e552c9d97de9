"""What a broken law means: in an operator's words, pool by pool, on a real model, and beside bugs that are known.

The facts are worked out once for the smallest case of a finding; the block on the terminal and `report.json` say the
same ones.
"""

import re
import traceback
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache
from inspect import getdoc
from typing import Any

from impl import Implementation
from impl.faults import FAULTS
from impl.optimized import Configurator
from properties.cells import Cell, cell_of
from properties.judge import Finding, UnlistedAnswer, Unsupported, listed_answer, told, verdict
from properties.pairs import BUDGET_BYTES, pair_scenarios
from properties.prices import PoolPrice, StageBytes, pool_prices, worst_bytes
from properties.show import answer_text, figure, paste_able, row_text, table
from properties.smallest import Shown, shown
from properties.words import budget_text, scenario_words
from spec.laws.base import Answer, Broken, Law
from spec.layers import CAPPED_POOL
from spec.model import PoolSizes, Scenario
from spec.pools import size_pools

SIMILAR_SHOWN = 3
"""Known bugs named for a case."""
CAPPED_REQUESTS = 16
"""`--max-running-requests` under which a real pair with window pools is sized as a capped one."""
ISSUE = re.compile(r"sglang#\d+|PR \d+")


@dataclass(frozen=True)
class RealPair:
    """A pair of the catalog with 80 GiB for KV: what is sold, or said in place of an answer, beside the spec's tokens;
    the bytes of its worst rank; whether the law is broken there, too."""

    name: str
    deployment: str
    scenario: Scenario
    answer: Answer | str
    spec_tokens: int
    bytes: StageBytes | None
    breaks: bool

    @property
    def tokens(self) -> int | None:
        """Tokens sold, None where none are."""
        return self.answer.max_total_num_tokens if isinstance(self.answer, PoolSizes) else None

    @property
    def effect(self) -> Fraction:
        """How far the tokens are from the spec's, as a share; all of them where none are sold."""
        if self.tokens is None:
            return Fraction(1)
        return Fraction(abs(self.tokens - self.spec_tokens), self.spec_tokens)

    def text(self) -> str:
        """The effect on it."""
        who = f"{self.name}, {self.deployment}, 80 GiB for KV{'' if self.breaks else ', where the law holds'}: "
        if self.tokens is None or self.bytes is None:
            return f"{who}{answer_text(self.answer)}, the spec sells {self.spec_tokens:,}"
        change = 100 * Fraction(self.tokens - self.spec_tokens, self.spec_tokens)
        share = f"{float(change):+.1f} %" if change else "the same"
        return f"{who}{self.tokens:,} tokens, the spec {self.spec_tokens:,} ({share})\n{self.bytes.text()}"


@dataclass(frozen=True)
class Counterexample:
    """All that is said of the smallest case of a finding."""

    case: Shown
    worst: StageBytes | None
    pools: tuple[PoolPrice, ...]
    where: str | None
    real: RealPair | None
    similar: tuple[tuple[str, str], ...] | None

    def off_terms(self) -> list[str]:
        """The pools whose rows are charged at anything but what they take, or how many rows too many or too few."""
        return [off_text(price) for price in self.pools if price.is_off]


def per(value: Fraction | None) -> str:
    """Bytes of a row, `-` where nobody can be asked."""
    if value is None:
        return "-"
    return f"{value.numerator:,}" if value.denominator == 1 else f"{float(value):,.3f}"


def off_text(price: PoolPrice) -> str:
    """`draft pool: priced 0 B/token, allocated 4,096 B/token`."""
    unit = "token" if price.pool == "draft" else "row"
    spec = "" if price.spec_priced == price.allocated else f" (the spec charges {per(price.spec_priced)})"
    return f"{price.pool} pool: priced {per(price.priced)} B/{unit}, allocated {per(price.allocated)} B/{unit}{spec}"


def off_stage(implementation: Implementation, scenario: Scenario, sizes: PoolSizes, first: int) -> list[PoolPrice]:
    """The pools of the first stage with a price that is off, looked for from the worst one on; of that one else."""
    stages = [first, *(stage for stage in range(scenario.deployment.pp_size) if stage != first)]
    found = [pool_prices(implementation, scenario, sizes, stage) for stage in stages]
    return next((prices for prices in found if any(price.is_off for price in prices)), found[0])


@cache
def real_scenarios() -> tuple[tuple[str, str, Cell, Scenario], ...]:
    """(name, ranks, cell, scenario) of every pair of the catalog, those with window pools capped too."""
    found = []
    for name, ranks, scenario in pair_scenarios():
        found.append((name, ranks, cell_of(scenario), scenario))
        capped = replace(scenario, user_max_running_requests=CAPPED_REQUESTS, disable_radix_cache=True)
        cell = cell_of(capped)
        if cell.pool == CAPPED_POOL and isinstance(size_pools(capped), PoolSizes):
            found.append((f"{name}, {CAPPED_REQUESTS} requests", ranks, cell, capped))
    return tuple(found)


def likeness(cell: Cell, other: Cell) -> tuple[bool, ...]:
    """Which parts two cells of one pool kind share, the draft before the ranks."""
    return (
        cell.draft == other.draft,
        cell.geometry == other.geometry,
        cell.deployment == other.deployment,
        cell.draft_dtype == other.draft_dtype,
    )


def breaks_there(law: Law, implementation: Implementation, scenario: Scenario) -> bool:
    """Whether an implementation breaks a law."""
    try:
        return isinstance(verdict(law, implementation, scenario)[0], Broken)
    except Unsupported:
        return False


def real_pair(implementation: Implementation, law: Law, name: str, ranks: str, scenario: Scenario) -> RealPair:
    """What an implementation does with one pair that the spec sizes."""
    expected = size_pools(scenario)
    assert isinstance(expected, PoolSizes)
    try:
        answer: Answer | str = listed_answer(implementation, scenario)
    except (UnlistedAnswer, Unsupported) as said:
        answer = str(said)
    worst = worst_bytes(scenario, answer) if isinstance(answer, PoolSizes) else None
    breaks = breaks_there(law, implementation, scenario)
    return RealPair(name, ranks, scenario, answer, expected.max_total_num_tokens, worst, breaks)


@cache
def nearest_pair(implementation: Implementation, law: Law, cell: Cell) -> RealPair | None:
    """The real pair whose cell is nearest, among equals one that breaks the law, with the greatest effect, then the
    first of the catalog; None where the catalog has no pair of the pool kind. Without a draft pairs are served without
    theirs."""
    candidates = [entry for entry in real_scenarios() if entry[2].pool == cell.pool]
    nearest = max((likeness(cell, entry[2]) for entry in candidates), default=None)
    pairs = []
    for name, ranks, other, scenario in candidates:
        if likeness(cell, other) == nearest:
            if cell.draft == "none":
                name, scenario = name.partition(" + ")[0], replace(scenario, draft=None, speculative_algorithm=None)
            pairs.append(real_pair(implementation, law, name, ranks, scenario))
    return max(pairs, key=lambda pair: (pair.breaks, pair.effect), default=None)


def similar_bugs(
    implementation: Implementation, case: Shown, real: RealPair | None
) -> tuple[tuple[str, str], ...] | None:
    """(name, what it is) of the known-bad implementations that give the very answers to this case and to the real
    pair, those first that the law is said to catch. Each is the configurator with one thing wrong: where the
    configurator answers the same without it, the answer says nothing of that thing."""
    scenario, law = case.finding.scenario, case.finding.law.id
    if isinstance(case.answer, str) or case.answer == size_pools(scenario):
        return ()
    asked: list[tuple[Finding, Answer | str]] = [(case.finding, case.answer)]
    if real is not None:
        asked.append((replace(case.finding, scenario=real.scenario), real.answer))
    if all(shown(one, Configurator()).answer == answer for one, answer in asked):
        return None
    found = []
    for fault in FAULTS:
        if fault.name != implementation.name and all(shown(one, fault()).answer == answer for one, answer in asked):
            found.append((law not in fault.caught_by, fault.name, getdoc(fault) or ""))
    found.sort(key=lambda entry: entry[0])
    return tuple((name, known_bug_text(doc)) for _, name, doc in found)


def known_bug_text(doc: str) -> str:
    """The sentence of a fault, and the reports it names."""
    issues = dict.fromkeys(ISSUE.findall(doc))
    return doc.splitlines()[0] + (f" ({', '.join(issues)})" if issues else "")


def place(implementation: Implementation, scenario: Scenario) -> str | None:
    """File, line and name of the code that sizes it, None where the implementation does not say."""
    if not hasattr(implementation, "where"):
        return None
    try:
        return str(told(implementation, "where", scenario))
    except (UnlistedAnswer, Unsupported):
        return None


def counterexample(case: Shown, implementation: Implementation) -> Counterexample:
    """Every fact of the smallest case of a finding."""
    scenario = case.finding.scenario
    worst, pools = None, []
    if isinstance(case.answer, PoolSizes):
        worst = worst_bytes(scenario, case.answer)
        pools = off_stage(implementation, scenario, case.answer, worst.stage if worst else 0)
    real = nearest_pair(implementation, case.finding.law, case.finding.cell)  # type: ignore[arg-type]
    return Counterexample(
        case=case,
        worst=worst,
        pools=tuple(pools),
        where=place(implementation, scenario),
        real=real,
        similar=similar_bugs(implementation, case, real),
    )


def traceback_text(implementation: Implementation, scenario: Scenario) -> str:
    """Where an implementation raises what is no answer; "" where it raises nothing."""
    try:
        listed_answer(implementation, scenario)
    except UnlistedAnswer as error:
        return "".join(traceback.format_exception(error.__cause__)).rstrip() if error.__cause__ else ""
    except Unsupported:
        pass
    return ""


def pool_table(pools: tuple[PoolPrice, ...]) -> str:
    """A row a pool, the one that is off marked."""
    stages = f" of stage {pools[0].stage}" if pools[0].stage else ""
    rows = [
        [price.pool, per(price.priced), per(price.allocated), f"{price.rows:,}", f"{price.bytes:,}"]
        + ["<- off" if price.is_off else ""]
        for price in pools
    ]
    return table([f"pool{stages}", "priced B a row", "allocated", "rows", "bytes", ""], rows)


def said_rows(facts: Counterexample) -> list[tuple[str, str]]:
    """Name and text of every row of a block but the commands."""
    case, scenario, broken = facts.case, facts.case.finding.scenario, facts.case.finding.broken
    where = f" ({broken.where})" if broken.where else ""
    rows = [
        ("smallest case", scenario_words(scenario)),
        ("budget", budget_text(scenario)),
        ("answer", answer_text(case.answer)),
        ("the spec's", answer_text(size_pools(scenario))),
        ("term off", broken.term),
        ("expected", figure(broken.expected)),
        ("got", figure(broken.got) + where),
    ]
    if facts.worst is not None:
        rows.append(("allocated", facts.worst.text()))
    if facts.pools:
        rows.append(("", pool_table(facts.pools)))
    rows += [("off", text) for text in facts.off_terms()]
    if facts.where is not None:
        rows.append(("where", facts.where))
    rows.append(("real pair", "none of this pool kind in the catalog" if facts.real is None else facts.real.text()))
    return [*rows, ("like", similar_text(facts.similar)), ("to paste", paste_able(scenario))]


def similar_text(similar: tuple[tuple[str, str], ...] | None) -> str:
    """The known bugs that answer the same, a line each, so many at most."""
    if similar is None:
        return "the configurator itself, so the known bugs, each one thing changed in it, cannot be told apart"
    more = len(similar) - SIMILAR_SHOWN
    lines = [f"{name}: {text}" for name, text in similar[:SIMILAR_SHOWN]]
    return "\n".join([*lines, *([f"and {more} more"] if more > 0 else [])]) or "no other known bug answers the same"


def block_text(facts: Counterexample, commands: list[tuple[str, str]]) -> str:
    """The law's sentence, and a row a fact."""
    rows = [*said_rows(facts), *commands]
    return "\n".join([facts.case.finding.law.sentence, *(row_text(name, text) for name, text in rows)])


def number(value: Fraction | None) -> int | str | None:
    """A price as JSON has it: a whole number, a fraction as text."""
    return int(value) if value is not None and value.denominator == 1 else None if value is None else str(value)


def facts_document(facts: Counterexample) -> dict[str, Any]:
    """The same facts for `report.json`."""
    scenario, real = facts.case.finding.scenario, facts.real
    return {
        "sentence": facts.case.finding.law.sentence,
        "smallest_case": scenario_words(scenario).splitlines(),
        "budget": budget_text(scenario),
        "over_bytes": None if facts.worst is None else facts.worst.over,
        "pools": [
            {
                **asdict(price),
                "priced": number(price.priced),
                "spec_priced": number(price.spec_priced),
                "allocated": number(price.allocated),
                "off": price.is_off,
            }
            for price in facts.pools
        ],
        "off": facts.off_terms(),
        "where": facts.where,
        "real_pair": None
        if real is None
        else {
            "name": real.name,
            "ranks": real.deployment,
            "budget_bytes": BUDGET_BYTES,
            "tokens": real.tokens,
            "spec_tokens": real.spec_tokens,
            "over_bytes": None if real.bytes is None else real.bytes.over,
            "said": None if real.bytes is not None else answer_text(real.answer),
        },
        "similar": None if facts.similar is None else [name for name, _ in facts.similar],
    }
