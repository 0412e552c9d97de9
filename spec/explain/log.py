"""`explain log FILE`: each number of an SGLang start-up log worked out again, or the line that does not add up.

A printed number is known to its last digit and no further: sizes must print alike, tokens must lie between those of
the lowest and of the highest readings that print alike. Every rank goes by the least reading of all.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from spec.explain.log_lines import Line
from spec.explain.log_pools import (
    judge_all_window,
    judge_bound,
    judge_other,
    judge_pool,
    judge_window,
    judge_window_pools,
    pool_buffers,
    wrong_sale,
)
from spec.explain.log_state import ADDS_UP, HALF_A_DIGIT, OFF, OPEN, READ, Judged, Log, Reader, printed, two_decimals
from spec.explain.wording import number_text
from spec.model import MemoryFigures, PoolSizes, Refused, Scenario, refuse
from spec.pools import running_requests, size_pools
from spec.startup.world import request_table_bytes
from spec.units import GiB
from spec.validity import check_scenario


def judge_before(reader: Reader, line: Line) -> Judged:
    """What a model finds free."""
    reader.before.append(Fraction(line.fields["free"]))
    return Judged(line, READ, f"free before model {len(reader.before)} loads: {line.fields['free']} GiB")


def judge_after(reader: Reader, line: Line) -> Judged:
    """What it leaves free; its usage is the difference, each of the three known to half a digit."""
    reader.after.append(Fraction(line.fields["free"]))
    reader.reads_free(reader.after[-1])
    free = f"free after its weights: {line.fields['free']} GiB"
    if "usage" not in line.fields or len(reader.before) != len(reader.after):
        return Judged(line, READ, free)
    used = reader.before[-1] - reader.after[-1]
    is_alike = abs(used - Fraction(line.fields["usage"])) <= 3 * HALF_A_DIGIT
    return Judged(line, ADDS_UP if is_alike else OFF, f"{free}; its weights take {number_text(used)} GiB")


def judge_end(reader: Reader, line: Line) -> Judged:
    """What the pools leave free at most; what else is taken is told, not worked out."""
    free, taken, left = reader.free, reader.taken, Fraction(line.fields["free"])
    reader.reads_free(left)
    if free is None or not taken:
        return Judged(line, OPEN, "a reading of free memory, and every pool allocated since, are needed")
    most = free - Fraction(taken, GiB)
    words = f"the pools take {printed(taken)} of {number_text(free)} GiB and leave {two_decimals(most)} at most"
    if left > most + 2 * HALF_A_DIGIT:
        return Judged(line, OFF, f"{words}, {two_decimals(left - most)} too much is left")
    return Judged(line, OPEN, f"{words}; {two_decimals(most - left)} GiB more is gone{table_told(reader)}")


def table_told(reader: Reader) -> str:
    """What the request table takes, which is allocated beside the first pools."""
    sold, has_told = reader.log.sold, reader.has_told_table
    if sold is None or has_told:
        return ""
    reader.has_told_table = True
    sizes = PoolSizes(1, 1, 0, max_running_requests=int(sold.fields["requests"]), max_req_len=1)
    scenario = replace(reader.scenario, context_len=int(sold.fields["context"]))
    return f", of which the request table takes {printed(request_table_bytes(scenario, sizes))}"


def readings_of(lines: list[Line]) -> dict[str, tuple[Fraction, Fraction]]:
    """The readings of every rank that has both."""
    before: dict[str, Fraction] = {}
    after: dict[str, Fraction] = {}
    for line in lines:
        if line.kind == "before":
            before.setdefault(line.rank, Fraction(line.fields["free"]))
        elif line.kind == "after":
            after[line.rank] = Fraction(line.fields["free"])
    return {rank: (before[rank], after[rank]) for rank in before if rank in after}


def sold_for(log: Log, scenario: Scenario, fraction: Fraction, off: Fraction) -> int:
    """Tokens of the least readings of all ranks, were memory `off` GiB more than printed. Raises the refusal."""
    least_before, least_after = (min(readings) for readings in zip(*log.readings.values(), strict=True))
    before, after = math.floor((least_before - off) * GiB), math.floor((least_after + off) * GiB)
    stages = scenario.deployment.pp_size
    answer = size_pools(replace(scenario, budget=MemoryFigures(((before,),) * stages, ((after,),) * stages, fraction)))
    if not isinstance(answer, PoolSizes):
        raise Refused(answer)
    return answer.max_total_num_tokens


def ranks_of(scenario: Scenario) -> int:
    """Ranks that read their memory."""
    return scenario.deployment.tp_size * scenario.deployment.pp_size


def tokens_told(log: Log, scenario: Scenario, tokens: int) -> tuple[str, str]:
    """The verdict on the tokens sold, and why. A rank that prints no readings may have less than all others."""
    if tokens % scenario.page_size:
        return OFF, f"tokens: {tokens:,} are no whole pages of {scenario.page_size:,}"
    if not log.readings or log.fraction is None:
        return OPEN, "tokens: both readings of the weights and mem_fraction_static are needed"
    ranks, told = ranks_of(scenario), len(log.readings)
    try:
        most = sold_for(log, scenario, log.fraction, HALF_A_DIGIT)
    except Refused as refused:
        return OFF, f"tokens: this start would be refused, {refused}"
    try:
        fewest = sold_for(log, scenario, log.fraction, -HALF_A_DIGIT)
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
    """Tokens sold, alike on all ranks, and the running requests that follow from them."""
    tokens, requests, context = (int(line.fields[name]) for name in ("tokens", "requests", "context"))
    if not tokens or not context:
        return Judged(line, OFF, "no token is sold" if not tokens else "a context of 0 tokens holds no request")
    if wrong := wrong_sale(reader, tokens):
        return Judged(line, OFF, f"every rank sells the same{wrong}")
    scenario = replace(reader.scenario, context_len=context)
    verdict, words = tokens_told(reader.log, scenario, tokens)
    derived = running_requests(scenario, tokens)
    if derived != requests:
        return Judged(line, OFF, f"{words}; running requests should be {derived:,}")
    return Judged(line, verdict, f"{words}; running requests {derived:,}{unseen(reader, tokens)}")


def unseen(reader: Reader, tokens: int) -> str:
    """The pools of this rank that no line spoke of, where one spoke of some."""
    if reader.stage is None or not reader.met:
        return ""
    left = [name for name in pool_buffers(reader.scenario, reader.stage, tokens, tokens) if name not in reader.met]
    return f"; no line speaks of the {', the '.join(left)}" if left else ""


JUDGES = {
    "before": judge_before,
    "after": judge_after,
    "all window": judge_all_window,
    "window": judge_window,
    "pool": judge_pool,
    "window pools": judge_window_pools,
    "end": judge_end,
    "sold": judge_sold,
    "bound": judge_bound,
    "other": judge_other,
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


def log_of(lines: list[Line], scenario: Scenario, fraction: Fraction | None) -> Log:
    """What the lines say together. Refuses more ranks than the set-up has."""
    readings = readings_of(lines)
    if len(readings) > ranks_of(scenario):
        ranks = ", ".join(rank or "one without a name" for rank in readings)
        raise refuse("invalid_input", "tp * pp", ranks_of(scenario), f"the log has {len(readings)} ranks: {ranks}")
    sold = next((line for line in lines if line.kind == "sold"), None)
    swa_rows = next((int(line.fields["swa"]) for line in lines if line.kind in ("window", "all window")), None)
    return Log(scenario, fraction, readings, sold, swa_rows)


def judged(lines: list[Line], scenario: Scenario, fraction: Fraction | None) -> tuple[Judged, ...]:
    """Every line, each rank by itself but for what all go by. Refuses a log without such lines."""
    check_scenario(scenario)
    if not lines:
        raise refuse("invalid_input", "log", None, "no line of it speaks of memory as SGLang does")
    readers: dict[str, Reader] = {}
    found, log = [], log_of(lines, scenario, fraction)
    for line in lines:
        if line.rank not in readers:
            readers[line.rank] = Reader(log, stage_of(line, scenario.deployment.pp_size))
        found.append(JUDGES[line.kind](readers[line.rank], line))
    return tuple(found)


def told_lines(found: tuple[Judged, ...]) -> Iterator[str]:
    """Each line and what is said of it, then the sum."""
    for one in found:
        rank = f" {one.line.rank}" if one.line.rank else ""
        yield f"line {one.line.number}{rank}: {one.line.text}"
        yield f"    {one.verdict}: {one.told}"
    counts = Counter(one.verdict for one in found)
    yield ""
    yield (
        f"{counts[ADDS_UP]} add up, {counts[OFF]} {'does' if counts[OFF] == 1 else 'do'} not, {counts[READ]} read, "
        f"{counts[OPEN]} not derived"
    )
    first = next((one for one in found if one.verdict == OFF), None)
    if first is not None:
        yield f"the first that does not add up is line {first.line.number}"
