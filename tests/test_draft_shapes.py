"""`config.json` -> a draft: how deep, of which layers, and its refusals."""

from collections.abc import Callable
from typing import Any

import pytest

from spec.draft_shapes import draft_depth, draft_from_config, mtp_draft_from_target_config
from spec.model import DFLASH, DSPARK, EAGLE, FROZEN_KV_MTP, FULL, MTP, STANDALONE, SWA, Heads, Index, Refused
from tests.configs import EXCERPTS, MLA_512_64, llama, mla, model


@pytest.mark.parametrize("algorithm", [EAGLE, STANDALONE])
@pytest.mark.parametrize(("next_layers", "depth"), [(..., 4), (None, 4), (0, 4), (1, 1), (3, 3)])
def test_eagle_and_standalone_take_the_next_n_layers_or_all(algorithm: str, next_layers: object, depth: int) -> None:
    config = model("MiMoForCausalLM", num_nextn_predict_layers=next_layers)
    assert draft_depth(config, algorithm) == depth
    assert draft_from_config(config, algorithm).shape.layers == (FULL,) * depth


@pytest.mark.parametrize("algorithm", [DFLASH, DSPARK])
def test_dflash_and_dspark_take_their_own_layers(algorithm: str) -> None:
    config = model("DFlashDraftModel", num_nextn_predict_layers=1)
    assert draft_depth(config, algorithm) == 4
    assert draft_from_config(config, algorithm).shape.full == Heads(2, 64, 64)


def test_mtp_runs_one_layer_a_step() -> None:
    config = mla("DeepseekV3ForCausalLM", num_nextn_predict_layers=1)
    assert draft_depth(config, MTP, num_steps=3) == 3
    assert draft_from_config(config, MTP, num_steps=3).shape.layers == (FULL,) * 3


@pytest.mark.parametrize("name", ["LlamaForCausalLMEagle3", "Qwen2ForCausalLMEagle", "MistralForCausalLMEagle"])
def test_an_eagle_draft_is_a_small_dense_model(name: str) -> None:
    draft = draft_from_config(model(name, num_hidden_layers=1), EAGLE, num_steps=3, topk=2, num_draft_tokens=5)
    assert draft.shape.layers == (FULL,)
    assert (draft.num_steps, draft.topk, draft.num_draft_tokens) == (3, 2, 5)
    assert (draft.kv_cache_dtype, draft.attention_backend, draft.swa_at_full_rows) == (None, None, False)


def test_an_mla_eagle_draft_with_no_next_n_layers_keeps_its_own() -> None:
    draft = draft_from_config(mla("Eagle3DeepseekV2ForCausalLM", num_nextn_predict_layers=0), EAGLE)
    assert (draft.shape.layers, draft.shape.full) == ((FULL,) * 4, MLA_512_64)


def test_a_dflash_draft_may_slide_and_a_dspark_draft_may_be_mla() -> None:
    types = ["sliding_attention"] * 3 + ["full_attention"]
    windowed = draft_from_config(model("DFlash2DraftModel", layer_types=types, sliding_window=2048), DFLASH)
    assert (windowed.shape.layers, windowed.shape.sliding_window_size) == ((SWA, SWA, SWA, FULL), 2047)
    assert draft_from_config(mla("DSparkDraftModel"), DSPARK).shape.full == MLA_512_64
    assert draft_from_config(model("DSparkDraftModel"), DSPARK).shape.full == Heads(2, 64, 64)


BUILT_IN = [
    (mla("DeepseekV3ForCausalLM", num_nextn_predict_layers=1), 1),
    (model("MiniMaxM2ForCausalLM", num_mtp_modules=3), 3),
    (model("Glm4MoeForCausalLM", num_nextn_predict_layers=0, mtp_num_hidden_layers=2), 2),
    (model("Qwen3_5ForCausalLM", mtp_num_hidden_layers=1), 1),
    (model("Qwen3NextForCausalLM"), 1),
]


@pytest.mark.parametrize(("config", "depth"), BUILT_IN)
def test_built_in_mtp_layers_are_full_target_layers(config: dict[str, Any], depth: int) -> None:
    draft = mtp_draft_from_target_config(config, num_steps=2, topk=3, num_draft_tokens=5)
    shape = draft.shape
    assert (draft.num_steps, draft.topk, draft.num_draft_tokens) == (2, 3, 5)
    assert (shape.layers, shape.index, shape.sliding_window_size) == ((FULL,) * depth, None, None)
    assert shape.full == (MLA_512_64 if "kv_lora_rank" in config else Heads(2, 64, 64))


def test_built_in_mtp_layers_of_the_excerpts() -> None:
    def layers(name: str, algorithm: str = EAGLE, num_steps: int = 1) -> tuple[str, ...]:
        return mtp_draft_from_target_config(EXCERPTS[name], algorithm, num_steps=num_steps).shape.layers

    assert layers("XiaomiMiMo--MiMo-7B-Base") == (FULL,)
    assert layers("Qwen--Qwen3.5-27B") == (FULL,)
    assert layers("XiaomiMiMo--MiMo-V2-Flash") == (SWA,)
    assert layers("XiaomiMiMo--MiMo-V2-Flash", MTP, 3) == (SWA,) * 3
    assert layers("stepfun-ai--Step-3.7-Flash", MTP, 3) == (SWA,) * 3


def test_a_built_in_mtp_layer_always_owns_an_index() -> None:
    config = EXCERPTS["zai-org--GLM-5.2"]
    assert mtp_draft_from_target_config(config).shape.index == Index(128, (0,))
    assert mtp_draft_from_target_config(config, MTP, num_steps=2).shape.index == Index(128, (0, 1))


def test_inkling_bands_some_depths_at_full_rows() -> None:
    trunk = model(
        "InklingForConditionalGeneration", sliding_window_size=64, local_layer_ids=[0], swa_num_key_value_heads=4
    )
    mtp_config = {"n_layers": 4, "local_layer_ids": [0, 2], "local_extent": 32}
    draft = mtp_draft_from_target_config({**trunk, "mtp_config": mtp_config}, MTP, num_steps=3)
    assert (draft.shape.layers, draft.shape.sliding_window_size) == ((SWA, FULL, SWA), 31)
    assert (draft.shape.swa, draft.swa_at_full_rows) == (Heads(4, 64, 64), True)
    inner = draft_from_config({**trunk, "num_nextn_predict_layers": 2, "mtp_local_layer_ids": [1]}, MTP, num_steps=2)
    assert (inner.shape.layers, inner.shape.sliding_window_size) == ((FULL, SWA), 63)
    full = mtp_draft_from_target_config({**trunk, "num_nextn_predict_layers": 2}, MTP, num_steps=2)
    assert (full.shape.layers, full.swa_at_full_rows) == ((FULL, FULL), False)


def test_only_the_mtp_of_a_target_is_run_in_part() -> None:
    """A whole model drafts with all its layers, but a runner a step under multi-layer EAGLE, and one layer of the
    classes that are always rewritten."""
    assert draft_from_config(llama(), EAGLE, num_steps=2).shape.layers == (FULL,) * 4
    assert draft_from_config(llama(), MTP, num_steps=2).shape.layers == (FULL,) * 2
    rewritten = model("Qwen3NextForCausalLM", full_attention_interval=2)
    assert draft_from_config(rewritten, EAGLE, num_steps=2).shape.layers == (FULL,)


def test_a_depth_of_none_is_no_depth() -> None:
    """Wherever it is spelled, 0 means that the next spelling counts; 4096 is a depth, one more a typing error."""
    for config in (
        {"mtp_config": {"n_layers": 0}, **mla("DeepseekV3ForCausalLM", num_nextn_predict_layers=3)},
        {"mtp_config": {"n_layers": 3}, **mla("DeepseekV3ForCausalLM", num_nextn_predict_layers=1)},
    ):
        assert mtp_draft_from_target_config(config).shape.layers == (FULL,) * 3
    deep = mla("DeepseekV3ForCausalLM", num_nextn_predict_layers=4096)
    assert len(mtp_draft_from_target_config(deep).shape.layers) == 4096
    assert draft_depth(llama(), MTP, num_steps=4096) == 4096


INKLING = model(
    "InklingForConditionalGeneration", sliding_window_size=64, local_layer_ids=[0], swa_num_key_value_heads=4
)


@pytest.mark.parametrize(
    ("mtp_config", "steps", "layers", "window"),
    [
        ({"n_layers": 4, "local_layer_ids": [3], "local_extent": 32}, 1, (FULL,), None),
        ({"n_layers": 4, "local_layer_ids": [0, 3]}, 1, (SWA,), 63),
        ({"n_layers": 2, "local_layer_ids": [4]}, 5, (FULL,) * 4 + (SWA,), 63),
        ({"local_layer_ids": [1]}, 2, (FULL, SWA), 63),
    ],
)
def test_bands_may_name_depths_that_are_not_run(
    mtp_config: dict[str, Any], steps: int, layers: tuple[str, ...], window: int | None
) -> None:
    """As many as the config declares or as steps are run, whichever is more; a window only where one slides."""
    shape = mtp_draft_from_target_config({**INKLING, "mtp_config": mtp_config}, MTP, num_steps=steps).shape
    assert (shape.layers, shape.sliding_window_size) == (layers, window)


def test_the_extent_of_the_bands_may_be_in_the_text() -> None:
    config = {**INKLING, "mtp_local_layer_ids": [0], "mtp_local_extent": 17}
    assert mtp_draft_from_target_config(config, MTP).shape.sliding_window_size == 16


def test_only_inkling_has_bands_and_full_rows() -> None:
    """Band fields of another class are not looked at; its sliding MTP layers follow the SWA rows."""
    bands = {"mtp_config": {"n_layers": 1, "local_layer_ids": [0], "local_extent": 8}}
    plain = mtp_draft_from_target_config({**mla("DeepseekV3ForCausalLM"), **bands})
    assert (plain.shape.layers, plain.shape.sliding_window_size, plain.swa_at_full_rows) == ((FULL,), None, False)
    sliding = EXCERPTS["XiaomiMiMo--MiMo-V2-Flash"]
    trunk = mtp_draft_from_target_config(sliding)
    assert mtp_draft_from_target_config({**sliding, **bands}).shape == trunk.shape
    assert (trunk.shape.layers, trunk.swa_at_full_rows) == ((SWA,), False)
    assert draft_from_config(sliding, MTP).swa_at_full_rows is False
    assert draft_from_config({**INKLING, "mtp_local_layer_ids": [0]}, MTP).swa_at_full_rows is True
    assert draft_from_config(INKLING, MTP).swa_at_full_rows is False


SWITCHES = ("num_steps", "topk", "num_draft_tokens")
SPELLED = "num_nextn_predict_layers"
DRAFT_REFUSED: list[tuple[Callable[[], object], str, str, object]] = [
    (lambda: draft_from_config(llama(), "MEDUSA"), "invalid_input", "speculative_algorithm", "MEDUSA"),
    *(
        (lambda derive=derive, name=name: derive({name: 0}), "invalid_input", name, 0)
        for name in SWITCHES
        for derive in (
            lambda switches: draft_from_config(llama(), EAGLE, **switches),
            lambda switches: mtp_draft_from_target_config(model("Qwen3NextForCausalLM"), **switches),
        )
    ),
    (
        lambda: mtp_draft_from_target_config(mla("DeepseekV3ForCausalLM", num_nextn_predict_layers=-1)),
        "invalid_input",
        SPELLED,
        -1,
    ),
    (lambda: draft_from_config(llama(num_nextn_predict_layers=-1), EAGLE), "invalid_input", SPELLED, -1),
    (lambda: draft_from_config(llama(num_nextn_predict_layers=-1), MTP), "invalid_input", SPELLED, -1),
    (
        lambda: mtp_draft_from_target_config({**mla("DeepseekV3ForCausalLM"), "mtp_config": {"n_layers": -1}}),
        "invalid_input",
        "n_layers",
        -1,
    ),
    (
        lambda: mtp_draft_from_target_config(mla("DeepseekV3ForCausalLM", num_nextn_predict_layers=4097)),
        "invalid_input",
        SPELLED,
        4097,
    ),
    (lambda: draft_depth(llama(), MTP, num_steps=4097), "invalid_input", "num_steps", 4097),
    (lambda: draft_from_config(llama(), MTP, num_steps=10**9), "invalid_input", "num_steps", 10**9),
    (lambda: draft_depth(llama(), EAGLE, num_steps=0), "invalid_input", "num_steps", 0),
    (lambda: mtp_draft_from_target_config(llama()), "invalid_input", "num_nextn_predict_layers", None),
    (
        lambda: mtp_draft_from_target_config(llama(), FROZEN_KV_MTP),
        "unsupported",
        "speculative_algorithm",
        FROZEN_KV_MTP,
    ),
    (
        lambda: mtp_draft_from_target_config(model("MiniMaxM3ForCausalLM", num_mtp_modules=7)),
        "unsupported",
        "architectures",
        "MiniMaxM3ForCausalLM",
    ),
    (
        lambda: draft_from_config(model("DeepseekV4ForCausalLMDSpark"), DSPARK),
        "unsupported",
        "architectures",
        "DeepseekV4ForCausalLMDSpark",
    ),
]


@pytest.mark.parametrize(("derive", "kind", "field", "value"), DRAFT_REFUSED)
def test_a_draft_refusal_names_the_field_and_its_value(
    derive: Callable[[], object], kind: str, field: str, value: object
) -> None:
    with pytest.raises(Refused) as refused:
        derive()
    refusal = refused.value.refusal
    assert (refusal.kind, refusal.field, refusal.value) == (kind, field, value)
