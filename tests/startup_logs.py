"""The start-up logs of `data/startup_logs.json`: the deployment behind each, and the bytes of each printed size."""

import json
from dataclasses import replace
from pathlib import Path

from spec.accounting import stage_buffers
from spec.catalog import draft_record, target
from spec.model import FULL, AttentionShape, Deployment, Heads, PoolSizes, Scenario
from spec.units import GiB

DATA = Path(__file__).parent / "data" / "startup_logs.json"
DATAPOINTS = json.loads(DATA.read_text(encoding="utf-8"))["datapoints"]
BY_ID = {entry["id"]: entry for entry in DATAPOINTS}

SIZES = [(entry, size) for entry in DATAPOINTS for size in entry["printed"]]
"""Every printed size with its datapoint."""

COMPUTE_DTYPES = ("fp16", "bf16", "fp32")
"""A pool stores these through `auto`, the dtype its model computes in."""

PARTS = {
    "K": ("k", "k_scale"),
    "V": ("v", "v_scale"),
    "KV": ("k", "k_scale", "v", "v_scale", "latent", "latent_scale", "rope", "index_k", "index_scale"),
}
"""What a printed number counts -> the buffers of `spec.accounting`."""


def identifiers(pairs):
    """One test id for each datapoint, pool and printed number."""
    names = []
    for entry, size in pairs:
        runs = {other["tokens"]["full"] for other in entry["printed"]}
        run = f"-{size['tokens']['full']}" if len(runs) > 1 else ""
        names.append(f"{entry['id']}-{size['pool']}-{size['part']}{run}")
    return names


def target_shape(entry):
    """The target's geometry: from the catalog, or spelled out."""
    if "target" in entry:
        return target(entry["target"]).shape
    spelled = entry["target_geometry"]
    heads = Heads(spelled["num_kv_heads"], spelled["head_dim"], spelled["v_head_dim"])
    return AttentionShape((FULL,) * spelled["layers"], heads)


def scenario_of(entry, budget=(GiB,)):
    """The deployment of a datapoint. Its draft, where it has one, stores what the target stores."""
    shape, dtype = target_shape(entry), entry["kv_dtype"]
    draft = draft_record(entry["draft"]).draft if "draft" in entry else None
    if dtype in COMPUTE_DTYPES:
        shape = replace(shape, model_dtype=dtype)
        draft = draft and replace(draft, shape=replace(draft.shape, model_dtype=dtype))
    return Scenario(
        shape,
        budget,
        draft=draft,
        speculative_algorithm=entry.get("speculative_algorithm"),
        deployment=Deployment(tp_size=entry["tp_size"]),
        page_size=entry["page_size"],
        kv_cache_dtype="auto" if dtype in COMPUTE_DTYPES else dtype,
    )


def pool_sizes(size):
    """The token counts the log prints; the request limits play no part here."""
    full, swa = size["tokens"]["full"], size["tokens"].get("swa", 0)
    return PoolSizes(full, full, swa, max_running_requests=1, max_req_len=1)


def printed_buffers(scenario, size):
    """The buffers one printed number counts."""
    wanted_pools = size["pool"].split("+")
    for buffer in stage_buffers(scenario, pool_sizes(size), stage=0):
        pool = "draft" if buffer.owner == "draft" else "full" if buffer.pool == "index" else buffer.pool
        if pool in wanted_pools and buffer.row.name in PARTS[size["part"]]:
            yield buffer


def row_bytes(scenario, size):
    """Bytes of one row over all buffers one printed number counts."""
    return sum(buffer.row.elements * buffer.row.element_bits // 8 for buffer in printed_buffers(scenario, size))


def printed_size(scenario, size, spare_rows=None):
    """The number the server prints: GiB of the rows that are sold and the spare ones, to two decimals. `spare_rows`
    replaces the page each buffer really has to spare."""
    total = 0
    for buffer in printed_buffers(scenario, size):
        if spare_rows is not None:
            buffer = replace(buffer, spare_rows=spare_rows)
        total += buffer.sold_bytes + buffer.spare_bytes
    return f"{total / GiB:.2f}"
