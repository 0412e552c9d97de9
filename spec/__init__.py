"""The reference specification of the KV-cache budget: how many tokens a GPU's bytes buy.

Exact integers and Fractions, the standard library only, no caching. Read the files in the order of `READING_ORDER`:
each imports only those above it. `spec/guide/` teaches them in nine chapters; `spec/guide/names.md` leads from any name
in SGLang (flag, function, line of the log) to formula, function, law and chapter.

| formula | function | upstream (SGLang, `srt/`) |
|---|---|---|
| storage width of a KV dtype | `dtypes.STORAGE_BITS` | `mem_cache/kv_cache_dtype.py` |
| KV dtype of the target | `dtypes.target_kv_dtype` | `mem_cache/kv_cache_dtype.py: configure_kv_cache_dtype` |
| KV dtype of the draft, with and without its model | `dtypes.draft_kv_dtype` | same, `is_draft_worker=True` |
| `max(1, num_kv_heads // ranks)` | `layers.heads_per_rank` | `configs/model_config.py: get_num_kv_heads` |
| ranks that split the heads | `layers.target_head_ranks`, `layers.draft_head_ranks` | `runtime_context.py` |
| layers of a pipeline stage | `layers.layers_of_stage` | `distributed/utils.py: get_pp_indices` |
| which of the five pools | `layers.pool_kind` | `pool_configurator.py: create_memory_pool_configurator` |
| `heads * (head_dim + v_head_dim) * width`, scales | `cell.heads_row_bytes` | `memory_pool.py: MHATokenToKVPool` |
| `(kv_lora_rank + qk_rope_head_dim) * width` | `cell.latent_row_bytes` | `memory_pool.py: MLATokenToKVPool` |
| sparse row, 656 bytes in fp8 | `cell.sparse_row_bytes` | `memory_pool.py: DSATokenToKVPool` |
| index row, 132 bytes | `cell.sparse_index_row_bytes` | same, `index_k_with_scale_buffer` |
| nvfp4 workspace row | `cell.workspace_row_bytes` | `quantization/fp4_kv_cache_quant_method.py` |
| F of a stage | `cell.target_full_row_bytes` | `pool_configurator.py: _compute_cell_size` |
| the target's part of S | `cell.target_swa_row_bytes` | `pool_configurator.py: _swa_cell_bytes` |
| rows a draft layer holds | `draft.follows_swa_rows` | `mem_cache/kv_cache_configurator.py` |
| D, the draft's own geometry | `draft.exact_draft_price` | `dflash_utils.py: dflash_draft_cell_size_per_token` |
| D, `ceil(F * (L + dcp * n) / L) - F` | `draft.layer_ratio_bytes` | `dflash_utils.py` |
| `floor(free_after - free_before * (1 - fraction))` | `budget.static_bytes` | `mem_cache/kv_cache_configurator.py` |
| bytes per token of each pool kind | `pools.bytes_per_token` | `pool_configurator.py: _cell_size` |
| `align_down(floor(A / cell), P)` | `pools.rows_that_fit` | `pool_configurator.py: calculate_pool_sizes` |
| `align_down(floor(r * N), P)` | `pools.hybrid_swa_rows` | `pool_configurator.py: _solve_pool_sizes` |
| SWA rows of the capped pool | `capped.capped_swa_rows` | `pool_configurator.py: compute_swa_request_cap` |
| tokens allocated ahead | `capped.decode_alloc_tokens` | `mem_cache/allocation_sizing.py`, `utils/common.py` |
| smallest N of the ranks | `pools.agreed_rows` | `mem_cache/kv_cache_configurator.py` |
| user cap | `pools.capped_rows` | `--max-total-tokens` |
| admission, `swa - window - P >= P` | `pools.admission_floor` | `pool_configurator.py: validate_swa_pool_size` |
| running requests | `pools.running_requests` | `mem_cache/kv_cache_configurator.py` |
| longest request | `pools.request_length` | `mem_cache/kv_cache_configurator.py` |
| the fraction that would start | `advice.smallest_starting_fraction` | `MemoryPoolConfig`'s message |
| bytes really allocated | `accounting.sold_bytes`, `accounting.spare_bytes` | `memory_pool.py` |
| what waits for what at start-up | `startup.protocols.GUARDS` | `managers/scheduler.py: init_model_worker` |
| what a start-up step does to a rank | `startup.system.ACTIONS` | `managers/tp_worker.py: alloc_memory_pool` |
| what a rank reads as free | `startup.world.reading` | `kv_cache_configurator.py: _profile_available_bytes` |
| bytes of the request table | `startup.world.request_table_bytes` | `mem_cache/memory_pool.py: ReqToTokenPool` |
| config.json to geometry | `shapes.shape_from_config`, `draft_shapes.draft_from_config` | `configs/model_config.py` |
| draft depth | `draft_shapes.draft_depth` | `configs/model_config.py`, `speculative/` |
"""

READING_ORDER = (
    "spec.units",
    "spec.model",
    "spec.dtypes",
    "spec.architectures",
    "spec.config_fields",
    "spec.shapes",
    "spec.draft_shapes",
    "spec.catalog.records",
    "spec.catalog",
    "spec.layers",
    "spec.validity",
    "spec.cell",
    "spec.draft",
    "spec.budget",
    "spec.capped",
    "spec.advice",
    "spec.pools",
    "spec.accounting",
    "spec.terms",
    "spec.laws.base",
    "spec.laws.floats",
    "spec.laws.budget",
    "spec.laws.scale",
    "spec.laws.draft",
    "spec.laws.resolve",
    "spec.laws.ranks",
    "spec.laws.windows",
    "spec.laws.caps",
    "spec.laws.allocation",
    "spec.laws.answers",
    "spec.laws",
    "spec.startup",
    "spec.startup.protocols",
    "spec.startup.world",
    "spec.startup.system",
    "spec.startup.explorer",
    "spec.laws.startup",
    "spec.startup.worlds",
    "spec.startup.verdicts",
    "spec.startup.story",
    "spec.startup.checks",
    "spec.startup.__main__",
    "spec.explain",
    "spec.explain.wording",
    "spec.explain.models",
    "spec.explain.setup",
    "spec.explain.rows",
    "spec.explain.equations",
    "spec.explain.results",
    "spec.explain.findings",
    "spec.explain.report",
    "spec.explain.compare",
    "spec.explain.law_notes",
    "spec.explain.law",
    "spec.explain.log_lines",
    "spec.explain.log_state",
    "spec.explain.log_pools",
    "spec.explain.log",
    "spec.explain.charts",
    "spec.explain.pictures",
    "spec.explain.page",
    "spec.explain.figure_data",
    "spec.explain.figures",
    "spec.explain.command",
    "spec.__main__",
)
"""A file imports only files above it."""
