"""`config.json` -> geometry: 24 published excerpts against shapes checked by eye."""

from dataclasses import dataclass

import pytest

from spec.model import FULL, LINEAR, SWA, Heads, Index, Latent
from spec.shapes import runs_with_window_pools, shape_from_config
from tests.configs import EXCERPTS, MLA_512_64


@dataclass(frozen=True)
class Expected:
    """What a person read in the excerpt."""

    layers: tuple[str, ...]
    full: Heads | Latent
    swa: Heads | None = None
    window: int | None = None
    index: Index | None = None
    dtype: str = "bf16"
    window_pools: bool = False


EXPECTED = {
    "MiniMaxAI--MiniMax-M2.5": Expected((FULL,) * 62, Heads(8, 128, 128), dtype="fp16"),
    "Qwen--Qwen3-0.6B": Expected((FULL,) * 28, Heads(8, 128, 128)),
    "Qwen--Qwen3-235B-A22B": Expected((FULL,) * 94, Heads(4, 128, 128)),
    "Qwen--Qwen3-30B-A3B": Expected((FULL,) * 48, Heads(4, 128, 128)),
    "Qwen--Qwen3-8B": Expected((FULL,) * 36, Heads(8, 128, 128)),
    "Qwen--Qwen3-VL-8B-Instruct": Expected((FULL,) * 36, Heads(8, 128, 128)),
    "Qwen--Qwen3.5-27B": Expected((LINEAR, LINEAR, LINEAR, FULL) * 16, Heads(4, 256, 256)),
    "Qwen--Qwen3.5-397B-A17B": Expected((LINEAR, LINEAR, LINEAR, FULL) * 15, Heads(2, 256, 256)),
    "XiaomiMiMo--MiMo-7B-Base": Expected((FULL,) * 36, Heads(8, 128, 128)),
    "XiaomiMiMo--MiMo-V2-Flash": Expected(
        (FULL, *(SWA,) * 4, FULL, *((SWA,) * 5 + (FULL,)) * 7),
        Heads(4, 192, 128),
        Heads(8, 192, 128),
        window=128,
        window_pools=True,
    ),
    "deepseek-ai--DeepSeek-V3.2": Expected((FULL,) * 61, MLA_512_64, index=Index(128, tuple(range(61)))),
    "deepseek-ai--DeepSeek-V3": Expected((FULL,) * 61, MLA_512_64),
    "google--gemma-4-26B-A4B": Expected(
        ((SWA,) * 5 + (FULL,)) * 5, Heads(2, 512, 512), Heads(8, 256, 256), window=1023, window_pools=True
    ),
    "meta-llama--Llama-4-Scout-17B-16E-Instruct": Expected(
        (SWA, SWA, SWA, FULL) * 12, Heads(8, 128, 128), Heads(8, 128, 128), window=8192, window_pools=True
    ),
    "meta-llama--Meta-Llama-3.1-70B": Expected((FULL,) * 80, Heads(8, 128, 128)),
    "meta-llama--Meta-Llama-3.1-8B": Expected((FULL,) * 32, Heads(8, 128, 128)),
    "mistralai--Mixtral-8x7B-v0.1": Expected((FULL,) * 32, Heads(8, 128, 128)),
    "moonshotai--Kimi-K2.5": Expected((FULL,) * 61, MLA_512_64),
    "moonshotai--Kimi-K3": Expected((LINEAR, LINEAR, LINEAR, FULL) * 23 + (FULL,), MLA_512_64),
    "nvidia--Llama-3.1-70B-Instruct-FP8": Expected((FULL,) * 80, Heads(8, 128, 128)),
    "openai--gpt-oss-120b": Expected(
        (SWA, FULL) * 18, Heads(8, 64, 64), Heads(8, 64, 64), window=127, window_pools=True
    ),
    "openai--gpt-oss-20b": Expected(
        (SWA, FULL) * 12, Heads(8, 64, 64), Heads(8, 64, 64), window=127, window_pools=True
    ),
    "stepfun-ai--Step-3.7-Flash": Expected(
        (FULL, SWA, SWA, SWA) * 11 + (FULL,), Heads(8, 128, 128), Heads(8, 128, 128), window=512, window_pools=True
    ),
    "zai-org--GLM-5.2": Expected((FULL,) * 78, MLA_512_64, index=Index(128, (0, 1, 2, *range(6, 78, 4)))),
}


def test_every_excerpt_is_checked() -> None:
    assert set(EXPECTED) == set(EXCERPTS)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_excerpt_has_the_shape_that_was_read_in_it(name: str) -> None:
    expected, shape = EXPECTED[name], shape_from_config(EXCERPTS[name])
    assert shape.layers == expected.layers
    assert (shape.full, shape.swa) == (expected.full, expected.swa)
    assert shape.sliding_window_size == expected.window
    assert shape.index == expected.index
    assert (shape.model_dtype, shape.kv_checkpoint_dtype) == (expected.dtype, None)
    assert runs_with_window_pools(EXCERPTS[name]) == expected.window_pools
