"""`explain log FILE`: each number of an SGLang start-up log worked out again, or the line that does not add up.

A printed number is known to its last digit and no further: sizes must print alike, tokens must lie between those of
the lowest and of the highest readings that print alike. Every rank goes by the least reading of all.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

from spec.accounting import Buffer, stage_buffers
from spec.dtypes import STORAGE_BITS, draft_kv_dtype, target_kv_dtype
from spec.explain.log_lines import STORED, Line
from spec.explain.wording import number_text
from spec.layers import HYBRID_POOL, pool_kind
from spec.model import MTP, MemoryFigures, PoolSizes, Refused, Scenario, active_draft, refuse
from spec.pools import hybrid_swa_rows, running_requests, size_pools
from spec.units import GiB
from spec.validity import check_scenario

ADDS_UP, OFF, READ, OPEN = "adds up", "DOES NOT ADD UP", "read", "not derived"
"""What may be said of a line: worked out again, not so, an input of the others, or nothing to work it out from."""

PARTS = {
    "K": ("k", "k_scale"),
    "V": ("v", "v_scale"),
    "KV": ("k", "k_scale", "v", "v_scale", "latent", "latent_scale", "rope", "index_k", "index_v", "index_scale"),
}
"""What a printed size counts -> the buffers of `spec/accounting.py`."""

NO_STAGE = "there are several stages, and the line does not say which one it is of, as PP0 does"

HALF_A_DIGIT = Fraction(1, 200)
"""A reading of two decimals lies this close to what was measured, in GiB."""


@dataclass(frozen=True)
class Judged:
    """One line and what is said of it."""

    line: Line
    verdict: str
    told: str


Readings = dict[str, tuple[Fraction, Fraction]]
"""Rank -> GiB free before its first weights and after its last, of the ranks that print both."""


@dataclass
class Reader:
    """What has been read of one rank so far. stage: the one it holds, None where no line says; readings: of every rank
    of the log; before, after: free GiB around each model's weights; free: the last free GiB printed; taken: bytes of
    the pools since then; met: all pools."""

    scenario: Scenario
    fraction: Fraction | None
    stage: int | None
    readings: Readings
    before: list[Fraction] = field(default_factory=list)
    after: list[Fraction] = field(default_factory=list)
    free: Fraction | None = None
    taken: dict[str, int] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)


def printed(count: int) -> str:
    """Bytes as a log prints them: GiB to two decimals, halves to the even digit."""
    return two_decimals(Fraction(count, GiB))


def two_decimals(number: Fraction) -> str:
    """A number from 0 to two decimals."""
    hundredths = round(100 * max(number, Fraction(0)))
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def pool_buffers(scenario: Scenario, stage: int, full_rows: int, swa_rows: int) -> dict[str, list[Buffer]]:
    """The pools of a rank of `stage`, each with its buffers; several draft runners have a pool each."""
    sizes = PoolSizes(full_rows or swa_rows, full_rows, swa_rows, max_running_requests=1, max_req_len=1)
    pools: dict[str, list[Buffer]] = {}
    for buffer in stage_buffers(scenario, sizes, stage):
        name = "target SWA pool" if buffer.pool == "swa" else "target full pool"
        if buffer.owner == "draft":
            runner = f" of runner {buffer.layer}" if scenario.speculative_algorithm == MTP else ""
            name = f"draft pool{runner}"
        pools.setdefault(name, []).append(buffer)
    return pools


def size_of(buffers: list[Buffer], part: str) -> int:
    """Bytes of one part, spare rows included."""
    return sum(one.sold_bytes + one.spare_bytes for one in buffers if one.row.name in PARTS[part])


def sizes_told(buffers: list[Buffer], fields: dict[str, str]) -> tuple[bool, str]:
    """Whether every printed size is that of these buffers, and the sizes as they should print."""
    parts = [part for part in PARTS if part in fields]
    derived = {part: printed(size_of(buffers, part)) for part in parts}
    rows = f"{buffers[0].rows:,} + {buffers[0].spare_rows:,} rows"
    told = ", ".join(f"{part} {size} GiB" for part, size in derived.items())
    return all(derived[part] == fields[part] for part in parts), f"{rows}: {told}"


def judge_pool(reader: Reader, line: Line) -> Judged:
    """A pool is one that was not met yet and whose sizes print alike."""
    if reader.stage is None:
        return Judged(line, OPEN, NO_STAGE)
    tokens = int(line.fields["tokens"])
    pools = pool_buffers(reader.scenario, reader.stage, tokens, tokens)
    told = {name: sizes_told(buffers, line.fields) for name, buffers in pools.items() if name not in reader.met}
    for name, (is_alike, words) in told.items():
        if is_alike:
            reader.met.add(name)
            reader.taken[name] = size_of(pools[name], "KV")
            return Judged(line, ADDS_UP, f"{name}, {words}")
    options = "; ".join(f"the {name} would be {words}" for name, (_, words) in told.items())
    return Judged(line, OFF, f"{options or 'every pool was met before'}{wrong_dtype(reader.scenario, line)}")


def wrong_dtype(scenario: Scenario, line: Line) -> str:
    """A hint where the pool stores another width than the set-up does."""
    stored, draft = STORED.get(line.fields.get("dtype", "")), active_draft(scenario)
    dtypes = [target_kv_dtype(scenario)] + ([] if draft is None else [draft_kv_dtype(scenario, draft)])
    if stored is None or STORAGE_BITS[stored] in {STORAGE_BITS[dtype] for dtype in dtypes}:
        return ""
    return f" (the log stores {stored}, this set-up {' and '.join(dtypes)}: see --kv-cache-dtype)"


def judge_window_pools(reader: Reader, line: Line) -> Judged:
    """Both pools of a window model in one number."""
    if reader.stage is None:
        return Judged(line, OPEN, NO_STAGE)
    pools = pool_buffers(reader.scenario, reader.stage, int(line.fields["full"]), int(line.fields["swa"]))
    held = {name: buffers for name, buffers in pools.items() if name.startswith("target")}
    reader.taken |= {name: size_of(buffers, "KV") for name, buffers in held.items()}
    buffers = [one for of_pool in held.values() for one in of_pool]
    is_alike, _ = sizes_told(buffers, line.fields)
    words = f"full and SWA pool together {printed(size_of(buffers, 'KV'))} GiB"
    return Judged(line, ADDS_UP if is_alike else OFF, words)


def judge_window(reader: Reader, line: Line) -> Judged:
    """The SWA rows are the ratio of the full rows."""
    scenario, full, swa = reader.scenario, int(line.fields["full"]), int(line.fields["swa"])
    if pool_kind(scenario) != HYBRID_POOL:
        return Judged(line, OPEN, f"this set-up has {pool_kind(scenario)} pools, whose rows are no ratio")
    rows = hybrid_swa_rows(full, scenario.swa_full_tokens_ratio, scenario.page_size)
    ratio = number_text(scenario.swa_full_tokens_ratio)
    words = f"align_down(floor({ratio} * {full:,}), {scenario.page_size}) = {rows:,}"
    return Judged(line, ADDS_UP if rows == swa else OFF, words)


def judge_before(reader: Reader, line: Line) -> Judged:
    """What a model finds free."""
    reader.before.append(Fraction(line.fields["free"]))
    return Judged(line, READ, f"free before model {len(reader.before)} loads: {line.fields['free']} GiB")


def judge_after(reader: Reader, line: Line) -> Judged:
    """What it leaves free; its usage is the difference, each of the three known to half a digit."""
    reader.after.append(Fraction(line.fields["free"]))
    reader.free, reader.taken = reader.after[-1], {}
    free = f"free after its weights: {line.fields['free']} GiB"
    if "usage" not in line.fields or len(reader.before) != len(reader.after):
        return Judged(line, READ, free)
    used = reader.before[-1] - reader.after[-1]
    is_alike = abs(used - Fraction(line.fields["usage"])) <= 3 * HALF_A_DIGIT
    return Judged(line, ADDS_UP if is_alike else OFF, f"{free}; its weights take {number_text(used)} GiB")


def judge_end(reader: Reader, line: Line) -> Judged:
    """What the pools leave free at most: request tables and the allocator take some beside them."""
    free, taken, left = reader.free, sum(reader.taken.values()), Fraction(line.fields["free"])
    reader.free, reader.taken = left, {}
    if free is None or not taken:
        return Judged(line, OPEN, "a reading of free memory and the pools allocated since are needed")
    most = free - Fraction(taken, GiB)
    words = f"the pools take {printed(taken)} of {number_text(free)} GiB and leave {two_decimals(most)} at most"
    if left > most + 2 * HALF_A_DIGIT:
        return Judged(line, OFF, f"{words}, {two_decimals(left - most)} too much is left")
    return Judged(line, ADDS_UP, f"{words}; {two_decimals(most - left)} went to request tables and the allocator")


def readings_of(lines: list[Line]) -> Readings:
    """The readings of every rank that has both."""
    before: dict[str, Fraction] = {}
    after: dict[str, Fraction] = {}
    for line in lines:
        if line.kind == "before":
            before.setdefault(line.rank, Fraction(line.fields["free"]))
        elif line.kind == "after":
            after[line.rank] = Fraction(line.fields["free"])
    return {rank: (before[rank], after[rank]) for rank in before if rank in after}


def sold_for(reader: Reader, fraction: Fraction, off: Fraction) -> int:
    """Tokens of the least readings of all ranks, were memory `off` GiB more than printed. Raises the refusal."""
    least_before, least_after = (min(readings) for readings in zip(*reader.readings.values(), strict=True))
    before, after = math.floor((least_before - off) * GiB), math.floor((least_after + off) * GiB)
    stages = reader.scenario.deployment.pp_size
    answer = size_pools(
        replace(reader.scenario, budget=MemoryFigures(((before,),) * stages, ((after,),) * stages, fraction))
    )
    if not isinstance(answer, PoolSizes):
        raise Refused(answer)
    return answer.max_total_num_tokens


def tokens_told(reader: Reader, tokens: int) -> tuple[str, str]:
    """The verdict on the tokens sold, and why. A rank that prints no readings may have less than all others."""
    if not reader.readings or reader.fraction is None:
        return OPEN, "tokens: both readings of the weights and mem_fraction_static are needed"
    deployment = reader.scenario.deployment
    ranks, told = deployment.tp_size * deployment.pp_size, len(reader.readings)
    try:
        most = sold_for(reader, reader.fraction, HALF_A_DIGIT)
    except Refused as refused:
        return OFF, f"tokens: this start would be refused, {refused}"
    try:
        fewest = sold_for(reader, reader.fraction, -HALF_A_DIGIT)
    except Refused:
        fewest = 0
    words = (
        f"tokens: the readings {'' if told == ranks else f'of {told:,} of {ranks:,} ranks '}buy {fewest:,} to {most:,}"
    )
    if fewest <= tokens <= most:
        return ADDS_UP, words
    if tokens < fewest and told < ranks:
        return OPEN, f"{words}, another rank may have less"
    needed = tokens - most if tokens > most else fewest - tokens
    return OFF, f"{words}, {needed:,} {'too many' if tokens > most else 'too few'} are sold"


def judge_sold(reader: Reader, line: Line) -> Judged:
    """Tokens sold, and the running requests that follow from them."""
    tokens, requests = int(line.fields["tokens"]), int(line.fields["requests"])
    scenario = replace(reader.scenario, context_len=int(line.fields["context"]))
    verdict, words = tokens_told(replace(reader, scenario=scenario), tokens)
    derived = running_requests(scenario, tokens)
    if derived != requests:
        return Judged(line, OFF, f"{words}; running requests should be {derived:,}")
    return Judged(line, verdict, f"{words}; running requests {derived:,}")


JUDGES = {
    "before": judge_before,
    "after": judge_after,
    "window": judge_window,
    "pool": judge_pool,
    "window pools": judge_window_pools,
    "end": judge_end,
    "sold": judge_sold,
}
"""Kind of a line -> who judges it."""


def stage_of(line: Line, stages: int) -> int | None:
    """The pipeline stage of a rank, None where there are several and its lines do not say. Refuses one that the set-up
    does not have."""
    found = re.search(r"PP(\d+)", line.rank)
    if found is None:
        return 0 if stages == 1 else None
    if int(found[1]) >= stages:
        raise refuse("invalid_input", "pp", stages, f"line {line.number} is of stage {found[1]}, counted from 0")
    return int(found[1])


def judged(lines: list[Line], scenario: Scenario, fraction: Fraction | None) -> tuple[Judged, ...]:
    """Every line, each rank by itself but for the readings that all go by. Refuses a log without such lines."""
    check_scenario(scenario)
    if not lines:
        raise refuse("invalid_input", "log", None, "no line of it speaks of memory as SGLang does")
    readers: dict[str, Reader] = {}
    found, readings = [], readings_of(lines)
    for line in lines:
        if line.rank not in readers:
            stage = stage_of(line, scenario.deployment.pp_size)
            readers[line.rank] = Reader(scenario, fraction, stage, readings)
        found.append(JUDGES[line.kind](readers[line.rank], line))
    return tuple(found)


def told_lines(found: tuple[Judged, ...]) -> Iterator[str]:
    """Each line and what is said of it, then the sum."""
    for one in found:
        rank = f" {one.line.rank}" if one.line.rank else ""
        yield f"line {one.line.number}{rank}: {one.line.text}"
        yield f"    {one.verdict}: {one.told}"
    counts = {verdict: sum(one.verdict == verdict for one in found) for verdict in (ADDS_UP, OFF, READ, OPEN)}
    yield ""
    yield ", ".join(f"{count} {verdict.lower()}" for verdict, count in counts.items())
    first = next((one for one in found if one.verdict == OFF), None)
    if first is not None:
        yield f"the first that does not add up is line {first.line.number}"
