"""Published `config.json` excerpts, and short ways to write a small one."""

import json
from pathlib import Path
from typing import Any

from spec.model import Latent

CONFIGS = Path(__file__).parent / "data" / "configs"
EXCERPTS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(CONFIGS.glob("*.json"))}
MLA_512_64 = Latent(kv_lora_rank=512, qk_rope_head_dim=64)


def llama(**changes: object) -> dict[str, Any]:
    """A small MHA config; `...` takes a field away."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "hidden_size": 512,
        "torch_dtype": "bfloat16",
    }
    return {field: value for field, value in (config | changes).items() if value is not ...}


def model(architecture: str, **changes: object) -> dict[str, Any]:
    """The small config under another class."""
    return llama(architectures=[architecture], **changes)


def mla(architecture: str, **changes: object) -> dict[str, Any]:
    """A small MLA config."""
    return model(architecture, **{"kv_lora_rank": 512, "qk_rope_head_dim": 64} | changes)


SPARSE = {"sparse_attention_freq": [0, 1, 1, 1], "sparse_index_dim": 128}
