"""A scenario as what a release reads: the record handed to `create_memory_pool_configurator`, the server arguments,
the configuration leaves and the topology.

Everything is made once; `Records.set` fills it in for a scenario, `Records.stage` for one pipeline stage of it.
"""

from typing import Any

from impl.sglang.configs import Config
from impl.sglang.drift import Record
from impl.sglang.world import Ear, World
from spec.dtypes import draft_backend
from spec.layers import WINDOW_POOLS, attn_tp_size, is_latent, layers_of_stage, pool_kind
from spec.model import DFLASH_FAMILY, FULL, LINEAR, MTP, SWA, AttentionShape, Draft, Scenario, active_draft

AMPLE_STATE_SLOTS = 2**60
"""Recurrent states have a budget of their own, which the scenario does not give: it never binds here."""

SPARSE_BACKENDS = {"trtllm": "trtllm", "tilelang": "tilelang"}
"""Sparse MLA backends that read raw latents; the others read scaled ones, as `flashmla_sparse` does."""
SCALED_SPARSE_BACKEND = "flashmla_sparse"


class SilentFallback(RuntimeError):
    """A release's resolver gave up on a draft whose geometry it was given: the layer ratio prices it instead."""


def release_algorithm(scenario: Scenario) -> str | None:
    """The algorithm's name in a release: multi-layer EAGLE is EAGLE with a switch."""
    algorithm = scenario.speculative_algorithm
    return "EAGLE" if algorithm == MTP else algorithm


NO_GRAPHS = Record(
    "cuda_graph_config", prefill=Record("cuda_graph_config.prefill", full_prefill_max_req=None, backend=None)
)
"""No CUDA graphs are captured: sizes do not depend on them but for recurrent states."""

WORLD_GROUP = Record("world_group", world_size=1, cpu_group=None)
"""No process group: what the ranks would agree on, the adapter has already taken the minimum of."""


def parallel_widths(scenario: Scenario, stage: int) -> dict[str, Any]:
    """The topology of one rank: a release may check that it factors, so every width is given."""
    deployment = scenario.deployment
    return {
        "tp_size": deployment.tp_size,
        "tp_rank": 0,
        "pp_size": deployment.pp_size,
        "pp_rank": stage,
        "attn_tp_size": attn_tp_size(deployment),
        "attn_tp_rank": 0,
        "attn_dp_size": deployment.attn_dp_size,
        "attn_dp_rank": 0,
        "attn_cp_size": 1,
        "attn_cp_rank": 0,
        "moe_ep_size": 1,
        "moe_ep_rank": 0,
        "moe_dp_size": 1,
        "moe_tp_size": deployment.tp_size,
        "dcp_size": deployment.attn_dcp_size,
        "dcp_enabled": deployment.attn_dcp_size > 1,
        "attn_dcp_size": deployment.attn_dcp_size,
        "world_group": WORLD_GROUP,
    }


class Records:
    """All records of one process."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.release = world.release
        self.target = Config(world, "model_config", is_draft=False)
        self.draft = Config(world, "draft_model_config", is_draft=True)
        self.args = Record(
            "server_args",
            ("_resolved_overrides", "_raw_input"),
            enable_hisparse=False,
            enable_dsa_cache_layer_split=False,
            enable_unified_memory=False,
            kv_cache_dtype="auto",
            model_path="dummy",
            max_mamba_cache_size=AMPLE_STATE_SLOTS,
            prefill_attention_backend=None,
            decode_attention_backend=None,
            mm_feature_transport=None,
            enable_memory_saver=False,
            enable_page_major_kv_layout=False,
            enable_pdmux=False,
            prefill_only_disable_kv_cache=False,
            enable_mamba_extra_buffer=lambda: False,
            enable_mamba_extra_buffer_lazy=False,
        )
        self.layers = Record("layer_info", is_hybrid_swa_mtp_draft=False)
        self.parallel_state = Record("ps")
        self.aux = Record("spec_aux_config", draft_model_config=None, draft_kv_num_layers=None)
        self.x = Record(
            "kv_cache_configurator" if self.release.takes_configurator else "model_runner",
            model_config=self.target.model,
            server_args=self.args,
            device="cpu",
            gpu_id=0,
            post_capture_kv_active=False,
            draft_parallel_layout=None,
            draft_model_idx=None,
            token_to_kv_pool_allocator=None,
            is_hybrid_swa_mtp_draft=False,
            is_inkling_mtp_draft=False,
            dflash_draft_cell_size_per_token=None,
            is_hybrid_swa_compress=True,
        )
        if self.release.takes_configurator:
            self.x.update(layer_info=self.layers, ps=self.parallel_state, spec_aux_config=self.aux)
        limits = "resolve_max_num_reqs" if self.release.takes_configurator else "_resolve_max_num_reqs"
        world.bind(self.x, world.start_up, limits, "_profile_available_bytes", "_calculate_mamba_ratio")
        self.resolve_max_num_reqs = getattr(self.x, limits)
        if hasattr(world.start_up, "fused_entry_bytes"):
            world.bind(self.x, world.start_up, "fused_entry_bytes", "_fused_draft_decision")
        self.resolver = world.found(self.release.draft_resolver) if self.release.draft_resolver else None
        self.ear = Ear(self.resolver.__module__) if self.resolver is not None else None
        self.dtype_resolver = world.found(self.release.dtype_resolver) if self.release.dtype_resolver else None
        self.dtype_runner = Record("dtype_runner", ("model",))
        if self.dtype_resolver is None:
            runner = world.found("model_executor.model_runner:ModelRunner")
            world.bind(self.dtype_runner, runner, "configure_kv_cache_dtype")
            if hasattr(runner, "_record_kv_cache_dtype"):
                self.dtype_runner.update(_record_kv_cache_dtype=lambda resolved: None)
        self.algorithms: dict[str | None, Any] = {
            name: world.spec_info.SpeculativeAlgorithm.from_string(name)
            for name in (None, "EAGLE", "STANDALONE", "DFLASH", "DSPARK", "FROZEN_KV_MTP")
            if name is None or name in self.release.algorithms
        }
        self.dtype_names = dict(self.release.dtype_names)

    # Dtypes.

    def asked(self, dtype: str) -> str:
        """A KV dtype under the release's name."""
        return self.dtype_names.get(dtype, dtype)

    def kv_dtype(
        self, scenario: Scenario, shape: AttentionShape, draft: Draft | None, *, loaded: bool
    ) -> tuple[str, Any]:
        """(name, torch dtype) of a worker's KV cache by the release's own resolver. `draft` is None for the target;
        `loaded`: with the checkpoint, which alone knows what it was quantized to."""
        config = self.target if draft is None else self.draft
        model = Record("model", quant_config=Record("quant_config", kv_cache_quant_algo=None))
        if loaded and shape.kv_checkpoint_dtype == "fp8_e4m3":
            model.quant_config.update(kv_cache_quant_algo="FP8")
        asked = self.asked(scenario.kv_cache_dtype)
        if self.dtype_resolver is None:
            self.dtype_runner.update(server_args=self.args, dtype=config.dtypes[shape.model_dtype], model=model)
            self.args.update(kv_cache_dtype=asked)
            self.dtype_runner.configure_kv_cache_dtype()
            return self.args.kv_cache_dtype, self.dtype_runner.kv_cache_dtype
        more = {}
        if self.release.draft_dtype_flag:
            own = draft.kv_cache_dtype if draft is not None else None
            more["speculative_draft_kv_cache_dtype"] = None if own is None else self.asked(own)
        name, dtype = self.dtype_resolver(
            server_args_kv_cache_dtype=asked,
            model=model if loaded else None,
            model_dtype=config.dtypes[shape.model_dtype],
            is_draft_worker=draft is not None,
            is_dflash=scenario.speculative_algorithm in DFLASH_FAMILY,
            speculative_draft_attention_backend=None if draft is None else self.draft_backend(scenario, draft),
            **more,
        )
        return name or asked, dtype

    def draft_backend(self, scenario: Scenario, draft: Draft) -> str | None:
        """What `--speculative-draft-attention-backend` holds when sizes are made: argument checks fill it in for the
        DFLASH family (`speculative_hook.py: _resolve_dflash_draft_attention_backend`), for no other."""
        if scenario.speculative_algorithm in DFLASH_FAMILY:
            return draft_backend(scenario, draft)
        return draft.attention_backend

    # One scenario.

    def set(self, scenario: Scenario) -> None:
        """Fills everything in but the stage."""
        shape, draft = scenario.target, active_draft(scenario)
        kind = pool_kind(scenario)
        banded = draft is not None and draft.swa_at_full_rows and SWA in draft.shape.layers
        self.target.set(
            shape,
            window_pools=kind in WINDOW_POOLS,
            banded=banded and kind in WINDOW_POOLS,
            context_len=scenario.context_len,
            readable=True,
        )
        if banded and draft is not None:
            held = [position for position, layer in enumerate(draft.shape.layers) if layer == SWA]
            self.target.hf.update(mtp_local_layer_ids=held)
        self.set_arguments(scenario)
        dtype_name, dtype = self.kv_dtype(scenario, shape, None, loaded=True)
        self.x.update(
            kv_cache_dtype=dtype,
            kv_cache_dtype_str=dtype_name,
            model_dtype=self.target.dtypes[shape.model_dtype],
            dtype=self.target.dtypes[shape.model_dtype],
            page_size=scenario.page_size,
            sliding_window_size=shape.sliding_window_size,
            spec_algorithm=self.algorithms[release_algorithm(scenario)],
            is_draft_worker=scenario.is_draft_worker,
            is_hybrid_swa=kind in WINDOW_POOLS,
            use_mla_backend=is_latent(shape),
            dp_size=scenario.deployment.attn_dp_size,
            attn_dp_size=scenario.deployment.attn_dp_size,
            pp_size=scenario.deployment.pp_size,
            mambaish_config=self.target.linear if LINEAR in shape.layers else None,
        )
        self.args.update(kv_cache_dtype=dtype_name)
        self.parallel_state.update(attn_dp_size=scenario.deployment.attn_dp_size, pp_size=scenario.deployment.pp_size)
        self.set_draft(scenario, draft)

    def set_draft(self, scenario: Scenario, draft: Draft | None) -> None:
        """The draft as start-up knows it: its depth for every algorithm, its configuration for the DFLASH family.
        Reproduced from `spec_aux_hidden_state.py: resolve_spec_aux_hidden_state_config`, which reads checkpoints."""
        depth = None if draft is None else len(draft.shape.layers)
        family = scenario.speculative_algorithm in DFLASH_FAMILY
        swa_depth = None
        if draft is not None and not family and SWA in draft.shape.layers:
            swa_depth = draft.shape.layers.count(SWA)
        fields = {
            "eagle_draft_num_layers": None if family else depth,
            "eagle_draft_swa_num_layers": swa_depth,
            "dflash_draft_num_layers": depth if family else None,
            "dflash_draft_cell_size_per_token": None,
        }
        if draft is not None:
            self.draft.set(
                draft.shape,
                window_pools=True,
                banded=False,
                context_len=scenario.context_len,
                readable=draft.geometry_resolved,
            )
        self.aux.update(**fields)
        self.x.update(**(fields if not self.release.takes_configurator else {"dflash_draft_cell_size_per_token": None}))

    def prices_by_own_geometry(self, scenario: Scenario) -> bool:
        """Whether this release looks at the draft's own geometry for this algorithm."""
        return self.resolver is not None and scenario.speculative_algorithm in DFLASH_FAMILY

    def resolved_draft_bytes(self, scenario: Scenario, draft: Draft) -> tuple[int | None, tuple[str, ...]]:
        """(bytes per row, warnings) by the release's own resolver, (None, ()) where it has none."""
        if self.resolver is None or self.ear is None or not self.prices_by_own_geometry(scenario):
            return None, ()
        more: dict[str, Any] = {"server_args": self.args, "attn_tp_size": self.draft_width(scenario)}
        taken = {name: more[name] for name in self.release.draft_resolver_takes}
        self.ear.told()
        resolved = self.resolver(draft_model_config=self.draft.model, draft_num_layers=len(draft.shape.layers), **taken)
        warnings = self.ear.told()
        if resolved is None and draft.geometry_resolved:
            raise SilentFallback(f"the draft is priced by the layer ratio: {'; '.join(warnings)}")
        return resolved, warnings

    def draft_width(self, scenario: Scenario) -> int:
        """Ranks a draft's heads are split over, as 0.5.23 works it out (`draft_parallel.py`): attention ranks. Older
        releases read the width they use themselves."""
        return attn_tp_size(scenario.deployment)

    def hand_over_draft_bytes(self, resolved: int | None) -> None:
        """Puts the resolved bytes where this release's configurator looks for them."""
        if self.release.draft_bytes_on == "spec_aux_config":
            self.aux.update(dflash_draft_cell_size_per_token=resolved)
        elif self.release.draft_bytes_on == "configurator":
            self.x.update(dflash_draft_cell_size_per_token=resolved)

    # Arguments and leaves.

    def set_arguments(self, scenario: Scenario) -> None:
        """The server arguments a release before 0.5.18 still reads directly."""
        fields: dict[str, Any] = {}
        for values in self.leaves(scenario).values():
            fields |= {name.rpartition(".")[2]: value for name, value in values.items()}
        deployment = scenario.deployment
        self.args.update(
            **fields,
            tp_size=deployment.tp_size,
            pp_size=deployment.pp_size,
            dcp_size=deployment.attn_dcp_size,
            dp_size=deployment.attn_dp_size,
            max_speculative_num_draft_tokens=fields["speculative_num_draft_tokens"],
        )

    def leaves(self, scenario: Scenario) -> dict[str, dict[str, Any]]:
        """Every configuration leaf a scenario sets, by namespace. Left-over draft fields stay in, as they do in a
        process; a release must not price them."""
        draft = scenario.draft
        sparse = SPARSE_BACKENDS.get(scenario.attention_backend, SCALED_SPARSE_BACKEND)
        fraction = getattr(scenario.budget, "mem_fraction_static", None)
        spec = {
            "speculative_algorithm": release_algorithm(scenario),
            "speculative_num_steps": None if draft is None else draft.num_steps,
            "speculative_eagle_topk": None if draft is None else draft.topk,
            "speculative_num_draft_tokens": None if draft is None else draft.num_draft_tokens,
            "speculative_draft_attention_backend": None if draft is None else self.draft_backend(scenario, draft),
        }
        if self.release.draft_dtype_flag:
            own = None if draft is None or draft.kv_cache_dtype is None else self.asked(draft.kv_cache_dtype)
            spec["speculative_draft_kv_cache_dtype"] = own
        return {
            "schedule": {
                "page_size": scenario.page_size,
                "max_running_requests": scenario.user_max_running_requests,
                "max_total_tokens": scenario.max_total_tokens,
                "chunked_prefill_size": scenario.chunked_prefill_size,
                "disable_overlap_schedule": scenario.disable_overlap_schedule,
                "swa_full_tokens_ratio": float(scenario.swa_full_tokens_ratio),
                "mem_fraction_static": None if fraction is None else float(fraction),
                "max_mamba_cache_size": AMPLE_STATE_SLOTS,
            },
            "memory": {"disable_radix_cache": scenario.disable_radix_cache},
            "spec": spec,
            "disagg": {
                "disaggregation_mode": "decode" if scenario.is_decode_role else "null",
                "disaggregation_decode_extra_slots": scenario.decode_extra_slots,
            },
            "exec": {
                "kernel.attention_backend": scenario.attention_backend,
                "kernel.dsa_prefill_backend": sparse,
                "kernel.dsa_decode_backend": sparse,
                "graph.cuda_graph_config": NO_GRAPHS,
            },
            "model": {"kv_cache_dtype": self.asked(scenario.kv_cache_dtype)},
        }

    # One stage.

    def stage(self, scenario: Scenario, stage: int) -> None:
        """The layers of one pipeline stage, window layers cut as the release cuts them."""
        shape = scenario.target
        held = layers_of_stage(len(shape.layers), scenario.deployment.pp_size, stage)
        first, end = held.start, held.stop
        full = [position for position, kind in enumerate(shape.layers) if kind == FULL]
        swa = [position for position, kind in enumerate(shape.layers) if kind == SWA]
        self.target.model.update(full_attention_layer_ids=full, swa_attention_layer_ids=swa)
        fields = {"start_layer": first, "end_layer": end, "num_effective_layers": end - first}
        if self.x.is_hybrid_swa:
            self.cut(first, end)
        self.layers.update(
            **fields,
            full_attention_layer_ids=self.target.model.full_attention_layer_ids,
            swa_attention_layer_ids=self.target.model.swa_attention_layer_ids,
        )
        if not self.release.takes_configurator:
            self.x.update(**fields)

    def cut(self, first: int, end: int) -> None:
        """Leaves the stage its window and full layers, by the release's own function."""
        name = self.release.cuts_layers
        if name == "_resolve_local_hybrid_swa_layer_ids":
            swa, full = getattr(self.world.layer_setup, name)(
                model_config=self.target.model, owned_layers=range(first, end)
            )
            self.target.model.update(swa_attention_layer_ids=swa, full_attention_layer_ids=full)
        elif name == "adjust_hybrid_swa_layer_ids":
            getattr(self.world.layer_setup, name)(
                model_config=self.target.model, start_layer=first, end_layer=end, is_hybrid_swa=True
            )
        else:
            self.x.update(start_layer=first, end_layer=end)
            getattr(self.world.layer_setup.ModelRunner, name)(self.x)
