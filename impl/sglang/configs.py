"""A geometry as the model configuration a release reads: the Hugging Face part and the `ModelConfig` part.

The methods that count heads are the release's own, bound to the record, so that what they do with ranks is judged too.
"""

from typing import Any

from impl.sglang.drift import Record
from impl.sglang.world import World
from spec.model import FULL, LINEAR, SWA, AttentionShape, Heads, Latent

CONFIG_LACKS = (
    "new_decoder_architecture",
    "multi_query",
    "n_head_kv",
    "num_kv_heads",
    "multi_query_group_num",
    "num_attention_groups",
    "attention_other_setting",
    "text_config",
    "llm_config",
    "language_config",
    "thinker_config",
    "vision_config",
    "dtype",
    "rope_scaling",
    "rope_parameters",
    "use_kda",
    "index_topk_pattern",
    "index_topk_freq",
    "index_skip_topk_offset",
    "cli_factor",
    "index_kpool",
    "index_kpool_compress",
    "indexer_n_heads",
    "layer_types",
    "num_loops",
    "loop_num",
    "quantization_config",
)
"""Optional fields of a Hugging Face config that these models do not have; a release probes for them."""

PLAIN_ARCHITECTURE = "LlamaForCausalLM"
WINDOW_ARCHITECTURE = "GptOssForCausalLM"
BANDED_ARCHITECTURE = "InklingForConditionalGeneration"
SPARSE_LATENT_ARCHITECTURE = "DeepseekV32ForCausalLM"
SPARSE_HEADS_ARCHITECTURE = "MiniMaxM3SparseForCausalLM"
"""Model classes by which a release tells the layouts apart."""

TORCH_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def geometry_of(shape: AttentionShape) -> Heads:
    """The base head fields. A model without full layers has those of its window layers; latents have none."""
    if isinstance(shape.full, Heads):
        return shape.full
    if shape.swa is not None:
        return shape.swa
    return Heads(1, 1, 1)


def unreadable(*_: Any) -> int:
    """What a draft checkpoint with fields nobody knows ends in."""
    raise ValueError("the draft's geometry cannot be read")


class Config:
    """The configuration records of one model, used anew for every scenario."""

    def __init__(self, world: World, name: str, *, is_draft: bool) -> None:
        self.world = world
        torch = world.torch
        self.dtypes = {spec_name: getattr(torch, torch_name) for spec_name, torch_name in TORCH_DTYPES.items()}
        self.hf = Record(f"{name}.hf_config", CONFIG_LACKS, model_type="spec", sparse_attention_config=None)
        self.hf.update(hf_config=self.hf, get_text_config=lambda: self.hf)
        self.linear = Record(f"{name}.linear_config", mamba2_cache_params=None)
        self.model = Record(
            name,
            hf_config=self.hf,
            hf_text_config=self.hf,
            is_draft_model=is_draft,
            is_multimodal=False,
            is_deepseek_v4_arch=False,
            quantization=None,
            swa_kv_lora_rank=None,
            swa_qk_rope_head_dim=None,
        )
        world.bind(
            self.model,
            world.model_config.ModelConfig,
            "get_total_num_kv_heads",
            "get_num_kv_heads",
            "get_swa_num_kv_heads",
        )
        self._count_heads = self.model.get_total_num_kv_heads

    def set(self, shape: AttentionShape, *, window_pools: bool, banded: bool, context_len: int, readable: bool) -> None:
        """Fills the records from a geometry. `banded`: the draft's window layers sit at full capacity; `readable`:
        False makes the release's resolver fail as on a checkpoint it does not know."""
        base, layers = geometry_of(shape), shape.layers
        swa = shape.swa or base
        latent = shape.full if isinstance(shape.full, Latent) else None
        held_full = [position for position, kind in enumerate(layers) if kind == FULL]
        has_linear = LINEAR in layers
        self.hf.update(
            architectures=[self.architecture(shape, window_pools=window_pools, banded=banded)],
            num_key_value_heads=base.num_kv_heads,
            num_attention_heads=base.num_kv_heads,
            swa_num_key_value_heads=swa.num_kv_heads,
            num_hidden_layers=len(layers),
            index_topk=None,
            index_head_dim=None,
            mtp_local_layer_ids=None,
            sparse_attention_config=None,
        )
        if shape.index is not None:
            owners = set(shape.index.layers)
            if latent is not None:
                self.hf.update(
                    index_topk=64,
                    index_head_dim=shape.index.head_dim,
                    indexer_types=["full" if position in owners else "shared" for position in range(len(layers))],
                )
            else:
                sparse = [int(position in owners) for position in range(len(layers))]
                self.hf.update(
                    sparse_attention_config={
                        "sparse_attention_freq": sparse,
                        "sparse_index_dim": shape.index.head_dim,
                        "sparse_disable_index_value": None if shape.index.stores_values else sparse,
                    }
                )
        else:
            self.hf.update(indexer_types=None)
        arch = self.world.attention_arch
        self.linear.update(full_attention_layer_ids=held_full + [p for p, kind in enumerate(layers) if kind == SWA])
        self.model.update(
            attention_arch=arch.MLA if latent is not None else arch.MHA,
            head_dim=base.head_dim,
            v_head_dim=base.v_head_dim,
            swa_head_dim=swa.head_dim,
            swa_v_head_dim=swa.v_head_dim,
            kv_lora_rank=latent.kv_lora_rank if latent is not None else None,
            qk_rope_head_dim=latent.qk_rope_head_dim if latent is not None else None,
            context_len=context_len,
            dtype=self.dtypes[shape.model_dtype],
            num_hidden_layers=len(layers),
            full_attention_layer_ids=held_full,
            swa_attention_layer_ids=[position for position, kind in enumerate(layers) if kind == SWA],
            linear_attn_registry_result=(None, self.linear) if has_linear else None,
            get_total_num_kv_heads=self._count_heads if readable else unreadable,
        )

    @staticmethod
    def architecture(shape: AttentionShape, *, window_pools: bool, banded: bool) -> str:
        """The model class a release would meet in the checkpoint."""
        if shape.index is not None:
            return SPARSE_LATENT_ARCHITECTURE if isinstance(shape.full, Latent) else SPARSE_HEADS_ARCHITECTURE
        if banded:
            return BANDED_ARCHITECTURE
        return WINDOW_ARCHITECTURE if window_pools and SWA in shape.layers else PLAIN_ARCHITECTURE
