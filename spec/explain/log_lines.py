"""The lines of an SGLang start-up log that speak of memory, and what the log says of the deployment."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from spec.dtypes import ATTENTION_BACKENDS, KV_CACHE_DTYPES
from spec.model import ALGORITHMS

PATTERNS = (
    ("before", r"Load weight begin\. avail mem=(?P<free>\d+\.\d+) GB"),
    ("after", r"Load weight end\..* avail mem=(?P<free>\d+\.\d+) GB(?:, mem usage=(?P<usage>\d+\.\d+) GB)?"),
    ("all window", r"Use sliding window memory pool \(all SWA\)\. swa_layer_tokens=(?P<swa>\d+)"),
    ("window", r"Use sliding window memory pool\. full_layer_tokens=(?P<full>\d+), swa_layer_tokens=(?P<swa>\d+)"),
    (
        "pool",
        r"KV Cache is allocated\.(?: dtype: (?P<dtype>[\w.]+),)? #tokens: (?P<tokens>\d+), "
        r"(?:K size: (?P<K>\d+\.\d+) GB, V size: (?P<V>\d+\.\d+) GB|KV size: (?P<KV>\d+\.\d+) GB)",
    ),
    ("window pools", r"SWAKVPool mem usage: (?P<KV>\d+\.\d+) GB, swa size: (?P<swa>\d+), full size: (?P<full>\d+)"),
    ("end", r"Memory pool end\. avail mem=(?P<free>\d+\.\d+) GB"),
    (
        "sold",
        r"max_total_num_tokens=(?P<tokens>\d{1,18}), .*max_running_requests=(?P<requests>\d{1,18}), "
        r"context_len=(?P<context>\d{1,18})\b",
    ),
    ("bound", r"(?:KV Cache|SWAKVPool) VA upper bound.*"),
    ("other", r"(?i:kv cache|kvpool|kv sizing|memory pool).*"),
)
"""Kind of a line -> what it looks like, the first that fits; `other` speaks of pools in words not known here. GB are
GiB. Upstream: `memory_pool.py: _finalize_allocation_log`,
`swa_memory_pool.py`, `model_runner.py: load_model`, `pool_configurator.py`, `managers/scheduler.py`."""

RANK = re.compile(r"^\[[^]]*?((?: (?:DP|PP|TP|EP|ATTN_\w+)\d+)+)\]")
"""The ranks a line names after its time."""

STORED = {
    "torch.bfloat16": "bf16",
    "torch.float16": "fp16",
    "torch.float32": "fp32",
    "torch.float8_e4m3fn": "fp8_e4m3",
    "torch.float8_e5m2": "fp8_e5m2",
}
"""How a log spells the dtype of a pool, where it is one this specification has."""


@dataclass(frozen=True)
class Line:
    """One line that was understood. number: counted from 1; rank: as the log names it, "" without a name."""

    number: int
    rank: str
    kind: str
    text: str
    fields: dict[str, str]


def lines_of(log: str) -> Iterator[Line]:
    """The lines that speak of memory, in order."""
    for number, text in enumerate(log.splitlines(), start=1):
        for kind, pattern in PATTERNS:
            found = re.search(pattern, text)
            if found:
                rank = RANK.match(text)
                fields = {name: value for name, value in found.groupdict().items() if value is not None}
                yield Line(number, rank[1].strip() if rank else "", kind, found[0], fields)
                break


def server_args(log: str) -> dict[str, str]:
    """The fields of the line `server_args=ServerArgs(...)`, as they are written; none without that line."""
    found = re.search(r"server_args=ServerArgs\((.*)\)", log)
    fields = re.findall(r"(\w+)=('[^']*'|[\w.+-]+)", found[1]) if found else []
    return {name: value.strip("'") for name, value in fields if value != "None"}


SIZES = ("tp_size", "pp_size", "dcp_size")
"""Ranks of a server."""
PLAIN_OPTIONS = (
    "page_size",
    "mem_fraction_static",
    "max_total_tokens",
    "max_running_requests",
    "chunked_prefill_size",
    "swa_full_tokens_ratio",
    "speculative_num_steps",
    "speculative_eagle_topk",
    "speculative_num_draft_tokens",
)
"""Fields that are options of `explain` under their own names."""
SWITCHES = ("disable_radix_cache", "disable_overlap_schedule", "disable_hybrid_swa_memory")
CHOICES = {
    "kv_cache_dtype": KV_CACHE_DTYPES,
    "speculative_draft_kv_cache_dtype": KV_CACHE_DTYPES,
    "attention_backend": ATTENTION_BACKENDS,
    "speculative_draft_attention_backend": ATTENTION_BACKENDS,
    "speculative_algorithm": ALGORITHMS,
}
"""Fields with a list of values; any other value is left to the reader."""
SPELLINGS = {"bfloat16": "bf16", "EAGLE3": "EAGLE", "NEXTN": "EAGLE"}


def option(name: str) -> str:
    """`page_size` -> `--page-size`."""
    return f"--{name.replace('_', '-')}"


def options_of(fields: dict[str, str]) -> list[str]:
    """The deployment a log names, as options of `explain`."""
    found = [word for size in SIZES if size in fields for word in (option(size), fields[size])]
    if fields.get("enable_dp_attention") == "True" and "dp_size" in fields:
        found += ["--dp", fields["dp_size"]]
    for name in PLAIN_OPTIONS:
        if name in fields:
            found += [option(name), fields[name]]
    found += [option(name) for name in SWITCHES if fields.get(name) == "True"]
    for name, known in CHOICES.items():
        value = SPELLINGS.get(fields.get(name, ""), fields.get(name))
        if value in known:
            found += [option(name), value]
    return found


def ignored(fields: dict[str, str]) -> list[str]:
    """`attention_backend='wave'` of each field whose value is none of its list, which is left to the reader."""
    values = {name: fields[name] for name in CHOICES if name in fields}
    return [f"{name}={value!r}" for name, value in values.items() if SPELLINGS.get(value, value) not in CHOICES[name]]


def models_of(fields: dict[str, str]) -> list[str]:
    """The models a log names, target and draft."""
    named = (fields.get("model_path"), fields.get("speculative_draft_model_path"))
    return [name for name in named if name is not None]
