"""The lines of a log that speak of pools: which pool it is, its bytes, its rows."""

from spec.accounting import Buffer, stage_buffers
from spec.dtypes import STORAGE_BITS, draft_kv_dtype, target_kv_dtype
from spec.explain.log_lines import STORED, Line
from spec.explain.log_state import ADDS_UP, OFF, OPEN, Judged, Reader, printed
from spec.explain.wording import number_text
from spec.layers import ALL_WINDOW_POOL, HYBRID_POOL, pool_kind
from spec.model import MTP, PoolSizes, Scenario, active_draft
from spec.pools import hybrid_swa_rows

PARTS = {
    "K": ("k", "k_scale"),
    "V": ("v", "v_scale"),
    "KV": ("k", "k_scale", "v", "v_scale", "latent", "latent_scale", "rope", "index_k", "index_v", "index_scale"),
}
"""What a printed size counts -> the buffers of `spec/accounting.py`."""

NO_STAGE = "there are several stages, and the line does not say which one it is of, as PP0 does"


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
    """A pool is one that was not met yet and whose sizes print alike, before others one whose rows are those sold."""
    if reader.stage is None:
        reader.takes(None)
        return Judged(line, OPEN, NO_STAGE)
    tokens = int(line.fields["tokens"])
    pools = pool_buffers(reader.scenario, reader.stage, tokens, tokens)
    told = {name: sizes_told(buffers, line.fields) for name, buffers in pools.items() if name not in reader.met}
    alike = {name: wrong_rows(reader, name, tokens) for name, (is_alike, _) in told.items() if is_alike}
    if alike:
        name = next((name for name, wrong in alike.items() if not wrong), next(iter(alike)))
        reader.met.add(name)
        reader.takes(size_of(pools[name], "KV"))
        return Judged(line, OFF if alike[name] else ADDS_UP, f"{name}, {told[name][1]}{alike[name]}")
    reader.takes(None)
    options = "; ".join(f"the {name} would be {words}" for name, (_, words) in told.items())
    held = f"stage {reader.stage} has no other pool than {', '.join(pools) or 'none'}"
    return Judged(line, OFF, f"{options or held}{wrong_dtype(reader.scenario, line)}")


def wrong_rows(reader: Reader, name: str, tokens: int) -> str:
    """What is wrong with the rows of a pool: whole pages, and as many as are sold; "" where nothing is, or nobody says
    how many are. Under DCP a log's tokens are not looked at."""
    scenario, log = reader.scenario, reader.log
    if tokens % scenario.page_size:
        return f"; {tokens:,} rows are no whole pages of {scenario.page_size:,}"
    if log.sold is None or log.tokens is None or scenario.deployment.attn_dcp_size > 1:
        return ""
    swa_rows = log.swa_rows
    if swa_rows is None and pool_kind(scenario) == HYBRID_POOL:
        swa_rows = hybrid_swa_rows(log.tokens, scenario.swa_full_tokens_ratio, scenario.page_size)
    if swa_rows is None:
        swa_rows = log.tokens if pool_kind(scenario) == ALL_WINDOW_POOL else 0
    expected = pool_buffers(scenario, reader.stage or 0, log.tokens, swa_rows)
    rows = expected[name][0].rows
    if rows == tokens or not rows:
        return ""
    return f"; line {log.sold.number} sells {log.tokens:,} tokens, for which it should have {rows:,} rows"


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
        reader.takes(None)
        return Judged(line, OPEN, NO_STAGE)
    pools = pool_buffers(reader.scenario, reader.stage, int(line.fields["full"]), int(line.fields["swa"]))
    held = {name: buffers for name, buffers in pools.items() if name.startswith("target")}
    reader.takes(sum(size_of(buffers, "KV") for name, buffers in held.items() if name not in reader.met))
    reader.met |= held.keys()
    buffers = [one for of_pool in held.values() for one in of_pool]
    is_alike, _ = sizes_told(buffers, line.fields)
    wrong = wrong_sale(reader, int(line.fields["full"]))
    words = f"full and SWA pool together {printed(size_of(buffers, 'KV'))} GiB{wrong}"
    return Judged(line, ADDS_UP if is_alike and not wrong else OFF, words)


def judge_window(reader: Reader, line: Line) -> Judged:
    """The SWA rows are the ratio of the full rows, and these are what is sold."""
    scenario, full, swa = reader.scenario, int(line.fields["full"]), int(line.fields["swa"])
    if pool_kind(scenario) != HYBRID_POOL:
        return Judged(line, OPEN, f"this set-up has {pool_kind(scenario)} pools, whose rows are no ratio")
    rows = hybrid_swa_rows(full, scenario.swa_full_tokens_ratio, scenario.page_size)
    ratio = number_text(scenario.swa_full_tokens_ratio)
    words = f"align_down(floor({ratio} * {full:,}), {scenario.page_size}) = {rows:,}{wrong_sale(reader, full)}"
    return Judged(line, ADDS_UP if rows == swa and not wrong_sale(reader, full) else OFF, words)


def judge_all_window(reader: Reader, line: Line) -> Judged:
    """The SWA rows are what is sold."""
    if pool_kind(reader.scenario) != ALL_WINDOW_POOL:
        return Judged(line, OFF, f"this set-up has {pool_kind(reader.scenario)} pools")
    swa = int(line.fields["swa"])
    wrong = wrong_sale(reader, swa)
    return Judged(line, OFF if wrong else ADDS_UP, f"{swa:,} SWA rows, a token each{wrong}")


def wrong_sale(reader: Reader, rows: int) -> str:
    """What is wrong with rows of which each is a token sold, "" where nothing is."""
    log = reader.log
    if log.sold is None or log.tokens == rows:
        return ""
    return f"; line {log.sold.number} sells {log.tokens:,} tokens"


def judge_bound(reader: Reader, line: Line) -> Judged:
    """Addresses that are reserved before graphs are captured; memory comes later."""
    reader.takes(None)
    return Judged(line, OPEN, "an upper bound of addresses, not of memory: the pools are sized after the capture")


def judge_other(reader: Reader, line: Line) -> Judged:
    """A line that nobody here knows."""
    reader.takes(None)
    return Judged(line, OPEN, "it speaks of pools in words that are not known here")
