"""What differs from release to release, in one table: a row a release, a field a difference.

Every entry was read in the wheel of that release and is met by the run; the module named in a field's docstring is
where it lives under `srt/`. A post-release, a candidate and a development version are driven like the row of their
release; a later release like the last row, and stops with `AdapterDrift` where it asks for more.
"""

import re
from dataclasses import dataclass, replace

from impl import UnknownImplementation


@dataclass(frozen=True)
class Release:
    """How one release is driven."""

    version: str
    start_up: str = "model_executor.model_runner_kv_cache_mixin:ModelRunnerKVCacheMixin"
    """Class that turns bytes into sizes, user cap and request limits; its methods are bound to the record `x`."""
    takes_configurator: bool = False
    """`create_memory_pool_configurator(x)`: x is a KV configurator (0.5.16), before that a model runner."""
    namespaces: tuple[str, ...] = ()
    """`runtime_context.get_<name>()` bags this release reads; before 0.5.17 it reads server arguments."""
    cuts_layers: str = "adjust_hybrid_swa_layers_for_pp"
    """Function that leaves a stage its window and full layers. `model_runner.py`, then `layer_setup.py`."""
    draft_resolver: str | None = None
    """Function that prices a DFLASH-family draft by its own geometry, None: only the layer ratio exists."""
    draft_resolver_takes: tuple[str, ...] = ()
    """Arguments of the resolver beside the draft's config and depth."""
    draft_bytes_on: str = "nothing"
    """Record on which the resolved bytes are handed over: the auxiliary config (0.5.18), the configurator (0.5.23)."""
    dtype_resolver: str | None = "mem_cache.kv_cache_dtype:configure_kv_cache_dtype"
    """Function that resolves a KV dtype; None: a method of the runner, bound to a record."""
    draft_dtype_flag: bool = False
    """`--speculative-draft-kv-cache-dtype` exists."""
    algorithms: frozenset[str] = frozenset({"EAGLE", "MTP", "STANDALONE", "DFLASH", "FROZEN_KV_MTP"})
    dtypes: frozenset[str] = frozenset({"auto", "bf16", "fp8_e4m3", "fp8_e5m2", "fp4_mx_block16"})
    dtype_names: tuple[tuple[str, str], ...] = ()
    """Spec name of a KV dtype and the release's, where they differ."""
    has_minimax_sparse: bool = True
    has_banded_drafts: bool = False
    """Window layers of a multi-layer EAGLE draft can sit at full capacity (Inkling, 0.5.16)."""
    has_dcp_sizing: bool = False
    """Decode context parallelism is sized for (0.5.17); before it exists on HIP only, or not at all."""
    heads_under_dcp: bool = False
    """Under DCP a rank holds every KV head of its group (0.5.18); before, a share of them. `model_config.py`."""
    index_under_dcp: bool = False
    """A sparse MLA pool keeps its index whole on every DCP rank, and prices it so (0.5.22). `memory_pool.py`."""
    scales_tilelang: bool = False
    """Sparse MLA rows in fp8_e4m3 carry scales for tilelang too (0.5.20, 0.5.21). `kv_cache_configurator.py`."""
    draft_on_last_stage_only: bool = False
    """The draft worker is hosted by the last pipeline stage (0.5.19); before, by every one. `eagle_worker_v2.py`."""
    unknown: bool = False
    """The release under test is later than every row: it is driven like this one, the last."""


R14 = Release("0.5.14", dtype_resolver=None, dtype_names=(("fp4_mx_block16", "fp4_e2m1"),), has_minimax_sparse=False)
R15 = replace(R14, version="0.5.15", has_minimax_sparse=True)
R16 = replace(
    R15,
    version="0.5.16",
    start_up="mem_cache.kv_cache_configurator:KVCacheConfigurator",
    takes_configurator=True,
    cuts_layers="adjust_hybrid_swa_layer_ids",
    dtype_resolver="mem_cache.kv_cache_dtype:configure_kv_cache_dtype",
    has_banded_drafts=True,
    algorithms=R15.algorithms | {"DSPARK"},
    dtypes=R15.dtypes | {"mxfp8", "nvfp4"},
    dtype_names=(),
)
R17 = replace(R16, version="0.5.17", namespaces=("schedule", "memory", "spec", "disagg", "exec"), has_dcp_sizing=True)
R18 = replace(
    R17,
    version="0.5.18",
    draft_resolver="model_executor.model_runner_components.spec_aux_hidden_state:_resolve_dflash_draft_cell_size",
    draft_resolver_takes=("server_args",),
    draft_bytes_on="spec_aux_config",
    draft_dtype_flag=True,
    heads_under_dcp=True,
)
R19 = replace(
    R18,
    version="0.5.19",
    namespaces=(*R18.namespaces, "model"),
    draft_resolver_takes=(),
    draft_on_last_stage_only=True,
)
R20 = replace(R19, version="0.5.20", scales_tilelang=True)
R21 = replace(R20, version="0.5.21", cuts_layers="_resolve_local_hybrid_swa_layer_ids")
R22 = replace(R21, version="0.5.22", index_under_dcp=True, scales_tilelang=False)
R23 = replace(
    R22,
    version="0.5.23",
    draft_resolver="mem_cache.draft_kv_budget:resolve_dflash_draft_cell_size",
    draft_resolver_takes=("attn_tp_size",),
    draft_bytes_on="configurator",
)

RELEASES = {row.version: row for row in (R14, R15, R16, R17, R18, R19, R20, R21, R22, R23)}
LAST = R23


NO_VERSION = "0.0.0"
"""What a checkout without tags calls itself: taken for a later release than the last row."""


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: `0.5.9` comes before `0.5.10`, and `0.5.23.post1` is `0.5.23`."""
    found = re.match(r"\d+(\.\d+)*", version)
    if found is None:
        raise UnknownImplementation(f"the version {version!r} of SGLang does not start with a number")
    return tuple(int(part) for part in found[0].split(".")[:3])


def release_of(version: str) -> Release:
    """The row of a version: that of its release, whatever follows the three numbers; of a later release the last row.
    Raises `UnknownImplementation` for a release before the first row."""
    release = ".".join(map(str, numbers(version)))
    if release in RELEASES:
        return RELEASES[release]
    if release != NO_VERSION and numbers(release) < numbers(LAST.version):
        raise UnknownImplementation(f"SGLang {version} is not driven: {R14.version} is the first release that is")
    return replace(LAST, unknown=True)


def told_version(version: str) -> str:
    """A version as the header of a run tells it: which row it is driven like, where that is not its own."""
    release = release_of(version)
    return f"{version}, driven like {release.version}" if release.unknown else version
