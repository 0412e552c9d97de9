"""Published numbers, recomputed."""

from dataclasses import replace
from fractions import Fraction

import pytest

from spec.catalog import pairs, target
from spec.cell import latent_row_bytes, sparse_index_row_bytes, sparse_row_bytes
from spec.layers import HYBRID_POOL, pool_kind
from spec.model import DFLASH, FULL, AttentionShape, Deployment, Draft, Heads, Scenario
from spec.pools import bytes_per_token, size_pools, stage_row_bytes
from spec.units import GiB

BUDGET = (40 * GiB,)


def row_bytes(scenario):
    """F, S, D of the only stage."""
    return stage_row_bytes(scenario, 0)


@pytest.mark.parametrize(
    ("draft_heads", "draft_bytes", "error_per_mille"), [(4, 10240, 0), (8, 20480, -119), (2, 5120, 72)]
)
def test_the_layer_ratio_misprices_a_dflash_draft(draft_heads, draft_bytes, error_per_mille):
    """The table of PR 34234: the ratio prices every draft of five layers at 75776 bytes a token in all."""
    shape = AttentionShape((FULL,) * 32, Heads(4, 128, 128))
    draft = Draft(AttentionShape((FULL,) * 5, Heads(draft_heads, 128, 128)))
    exact = Scenario(shape, BUDGET, draft=draft, speculative_algorithm=DFLASH)
    by_ratio = replace(exact, draft=replace(draft, geometry_resolved=False))
    assert row_bytes(exact).full == 65536
    assert row_bytes(exact).draft == draft_bytes
    assert row_bytes(by_ratio).full + row_bytes(by_ratio).draft == 75776
    error = Fraction(75776, 65536 + draft_bytes) - 1
    assert int(error * 1000) == error_per_mille


@pytest.mark.parametrize(("name", "total"), [("Qwen3-8B", 147456), ("gpt-oss-20b", 49152), ("DeepSeek-V3", 70272)])
def test_bytes_per_token_of_real_models(name, total):
    """Every layer at full length, two bytes an element, tp 1."""
    scenario = Scenario(target(name).shape, BUDGET, window_pools=False, kv_cache_dtype="bf16")
    assert row_bytes(scenario).full == total


def test_deepseek_v32_in_fp8_keeps_scales_rope_and_an_index():
    """61 layers of 656 + 132 bytes; raw latents for backends that read no scales, and in fp8_e5m2."""
    scenario = Scenario(target("DeepSeek-V3.2").shape, BUDGET, kv_cache_dtype="fp8_e4m3", attention_backend="flashmla")
    assert row_bytes(scenario).full == 61 * (656 + 132)
    assert row_bytes(replace(scenario, attention_backend="trtllm")).full == 61 * (576 + 132)
    assert row_bytes(replace(scenario, kv_cache_dtype="fp8_e5m2")).full == 61 * (576 + 132)
    assert row_bytes(replace(scenario, kv_cache_dtype="bf16")).full == 61 * (1152 + 132)


def test_the_table_of_row_formats():
    """The rows of the dtype table that have a number of their own."""
    assert sparse_row_bytes(512, 64, "fp8_e4m3", "flashmla") == 656
    assert sparse_row_bytes(512, 64, "bf16", "flashmla") == 1152
    assert sparse_index_row_bytes(128) == 132
    assert latent_row_bytes(512, 64, "nvfp4") == 288 + 36
    assert latent_row_bytes(512, 64, "mxfp8") == 576


PAIR_ROWS = [
    pytest.param(pair, row, id=f"{pair.target.name}+{pair.draft_name}-tp{row.tp_size}")
    for pair in pairs()
    for row in pair.rows
]


@pytest.mark.parametrize(("pair", "row"), PAIR_ROWS)
def test_published_pairs_cost_what_was_published(pair, row):
    """The draft's exact bytes, and the target's (hybrid targets: F + r*S, rounded by the source).

    The GLM-5.2 rows count an index row on every layer; its config gives 21 of 78 layers one. They are compared after
    that difference.
    """
    scenario = Scenario(
        target=pair.target.shape,
        budget=BUDGET,
        draft=pair.draft,
        speculative_algorithm=pair.speculative_algorithm,
        deployment=Deployment(tp_size=row.tp_size),
        kv_cache_dtype=pair.kv_cache_dtype,
        attention_backend="flashmla" if pair.target.shape.index else "flashinfer",
        window_pools=pair.target.window_pools,
        swa_full_tokens_ratio=pair.swa_full_tokens_ratio,
    )
    priced = row_bytes(scenario)
    index = pair.target.shape.index
    unowned = len(pair.target.shape.layers) - len(index.layers) if index else 0
    target_bytes = bytes_per_token(pool_kind(scenario), replace(priced, draft=0), scenario.swa_full_tokens_ratio)
    assert priced.draft == row.draft_bytes
    assert round(target_bytes) + unowned * sparse_index_row_bytes(128) == row.target_bytes


def test_a_hybrid_pair_pays_for_its_draft():
    """gpt-oss-20b beside its DFLASH draft at ratio 0.8: 16384 of 60620.8 bytes a full token were nobody's before
    PR 32508 and PR 34234, 37 % oversold."""
    pair = next(pair for pair in pairs() if pair.target.name == "gpt-oss-20b")
    scenario = Scenario(pair.target.shape, BUDGET, draft=pair.draft, speculative_algorithm=DFLASH)
    assert pool_kind(scenario) == HYBRID_POOL
    priced = row_bytes(scenario)
    cell = bytes_per_token(HYBRID_POOL, priced, Fraction(4, 5))
    assert (priced.draft, cell) == (16384, Fraction(303104, 5))
    assert int(100 * (cell / (cell - priced.draft) - 1)) == 37


def test_the_worked_example_of_the_readme():
    """Qwen3-8B with its DFLASH draft, 60 GiB left for KV on an 80 GiB card."""
    pair = next(pair for pair in pairs() if pair.target.name == "Qwen3-8B")
    drafted = Scenario(
        pair.target.shape, (60 * GiB,), draft=pair.draft, speculative_algorithm=DFLASH, context_len=40960
    )
    alone = replace(drafted, speculative_algorithm=None)
    assert size_pools(alone).max_total_num_tokens == 436906
    assert size_pools(drafted).max_total_num_tokens == 383625
    assert row_bytes(drafted).full + row_bytes(drafted).draft == 167936
