"""The configurator's names and choices: its class, what it can be asked again, how it prices a draft."""

from dataclasses import replace
from typing import Any

import pytest

from impl import load
from impl.configurator import (
    AllSWAPoolConfigurator,
    DefaultPoolConfigurator,
    HybridSWAPoolConfigurator,
    MemoryPoolConfigurator,
    SWARequestCapPoolConfigurator,
    create_memory_pool_configurator,
)
from impl.optimized import Configurator
from properties.invalid_values import with_field
from spec.model import DFLASH, EAGLE, FROZEN_KV_MTP, MTP, Deployment, PoolSizes, Refusal, Refused
from spec.pools import size_pools, size_pools_from_max_tokens
from tests.configurator_scenarios import DRAFTS, GIB, POOLS, SOUND, SOUND_WINDOW, deployed


def test_is_registered() -> None:
    """`--kv-impl configurator` finds it, and it judges everything."""
    implementation = load("configurator")
    assert isinstance(implementation, Configurator)
    assert (implementation.name, implementation.version) == ("configurator", "0.1")
    assert implementation.supports(SOUND) is None


@pytest.mark.parametrize("pool", POOLS)
def test_factory_chooses_the_class_of_the_pool(pool: str) -> None:
    """One class a pool kind, default for default and mla; the two entry points carry upstream's names."""
    expected, scenario = POOLS[pool]
    configurator = create_memory_pool_configurator(scenario)
    assert type(configurator) is expected
    assert isinstance(scenario.budget, tuple)
    sizes = configurator.calculate_pool_sizes(scenario.budget, scenario.page_size)
    assert sizes == size_pools(scenario)
    again = configurator.calculate_pool_sizes_from_max_tokens(sizes.max_total_num_tokens, scenario.page_size)
    assert again.max_total_num_tokens == sizes.max_total_num_tokens


@pytest.mark.parametrize("pool", POOLS)
def test_a_built_configurator_answers_many_budgets(pool: str) -> None:
    """Other bytes, other page sizes and a page size or bytes that mean nothing: as the spec says of that scenario."""
    scenario = POOLS[pool][1]
    configurator = create_memory_pool_configurator(scenario)
    bad: Any
    page_size: Any
    for bad in ((10**10,), (10**9 + 1,), (5,), (0,), (-1,), (True,), (1.5,), (), (GIB, GIB), [GIB]):
        for page_size in (scenario.page_size, 1, 3, 256, 0, True, 16.0):
            asked = replace(scenario, budget=bad, page_size=page_size)
            try:
                answer: PoolSizes | Refusal = configurator.calculate_pool_sizes(bad, page_size)
            except Refused as refused:
                answer = refused.refusal
            assert answer == size_pools(asked)
    for tokens in (5000, 1, 0, -1, True, 1.5):
        for page_size in (scenario.page_size, 1, 3, 256, 0, True, 16.0):
            try:
                answer = configurator.calculate_pool_sizes_from_max_tokens(tokens, page_size)  # type: ignore[arg-type]
            except Refused as refused:
                answer = refused.refusal
            assert answer == size_pools_from_max_tokens(replace(scenario, page_size=page_size), tokens)  # type: ignore[arg-type]


def test_the_factory_refuses_what_the_spec_refuses() -> None:
    """A fault is named before anything is built."""
    with pytest.raises(Refused) as caught:
        create_memory_pool_configurator(with_field(SOUND, "target.full.num_kv_heads", 0))
    assert caught.value.refusal.field == "target.full.num_kv_heads"


@pytest.mark.parametrize("stage_of_draft", ["last", "every"])
@pytest.mark.parametrize("pool", POOLS)
def test_every_kind_prices_its_draft_through_the_one_accessor(
    pool: str, stage_of_draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the accessor says of a stage is in that stage's price, on every class."""
    deployment = Deployment(pp_size=2, draft_on_every_stage=stage_of_draft == "every")
    scenario = deployed(replace(POOLS[pool][1], draft=DRAFTS["same"], speculative_algorithm=EAGLE), deployment)
    asked: list[int] = []

    def dear(_: MemoryPoolConfigurator, stage: int) -> tuple[int, int]:
        asked.append(stage)
        return 10**6, 0

    configurator = create_memory_pool_configurator(scenario)
    plain = create_memory_pool_configurator(replace(scenario, speculative_algorithm=None))
    assert configurator.draft_cell_size_per_token(1) != (0, 0) == plain.draft_cell_size_per_token(1)
    assert (configurator.draft_cell_size_per_token(0) != (0, 0)) is (stage_of_draft == "every")
    assert isinstance(scenario.budget, tuple)
    sold = configurator.calculate_pool_sizes(scenario.budget, scenario.page_size).max_total_num_tokens
    assert sold < plain.calculate_pool_sizes(scenario.budget, scenario.page_size).max_total_num_tokens
    monkeypatch.setattr(MemoryPoolConfigurator, "draft_cell_size_per_token", dear)
    dearer = create_memory_pool_configurator(scenario)
    assert asked == [0, 1]
    assert dearer.calculate_pool_sizes(scenario.budget, scenario.page_size).max_total_num_tokens < sold


def test_no_class_overrides_the_draft_accessor() -> None:
    """A sibling that prices its own draft is how the fault comes back."""
    for kind in (
        DefaultPoolConfigurator,
        HybridSWAPoolConfigurator,
        AllSWAPoolConfigurator,
        SWARequestCapPoolConfigurator,
    ):
        assert kind.draft_cell_size_per_token is MemoryPoolConfigurator.draft_cell_size_per_token
        for base in kind.__mro__[:-1]:
            assert "__slots__" in vars(base)


def test_inactive_drafts_cost_nothing() -> None:
    """Plain decoding, the draft worker itself and frozen-KV MTP add nothing to the price."""
    for scenario in (
        replace(SOUND, speculative_algorithm=None),
        replace(SOUND, is_draft_worker=True),
        replace(SOUND, speculative_algorithm=FROZEN_KV_MTP),
    ):
        assert create_memory_pool_configurator(scenario).draft_cell_size_per_token(0) == (0, 0)


def test_draft_rows_are_priced_apart() -> None:
    """Two SWA layers and a full one of 4 heads x 128 elements x 2 bytes: EAGLE follows SWA rows, DFLASH holds full
    rows, MTP too where banded; an nvfp4 draft pays its workspace once a pool."""
    row = 4 * 128 * 2
    asked = {EAGLE: (row, 2 * row), MTP: (row, 2 * row), DFLASH: (3 * row, 0)}
    for algorithm, expected in asked.items():
        scenario = replace(SOUND_WINDOW, speculative_algorithm=algorithm)
        assert create_memory_pool_configurator(scenario).draft_cell_size_per_token(0) == expected
    banded = replace(SOUND_WINDOW, draft=DRAFTS["banded"], speculative_algorithm=MTP)
    assert create_memory_pool_configurator(banded).draft_cell_size_per_token(0) == (3 * row, 0)
    quarter = replace(SOUND, kv_cache_dtype="nvfp4")
    elements = 8 * 256
    assert create_memory_pool_configurator(quarter).draft_cell_size_per_token(0) == (
        5 * elements * 9 // 16 + elements,
        0,
    )


@pytest.mark.parametrize(("tokens", "context_len", "requests"), [(4099, 1025, 2048), (8194, 1024, 4096)])
def test_the_estimate_of_running_requests_stays_in_bounds(tokens: int, context_len: int, requests: int) -> None:
    """2047 and 4097 by the estimate: 512 a context."""
    scenario = replace(SOUND, page_size=1, context_len=context_len)
    answer = Configurator().size_pools_from_max_tokens(scenario, tokens)
    assert isinstance(answer, PoolSizes) and answer.max_running_requests == requests
    assert answer == size_pools_from_max_tokens(scenario, tokens)


@pytest.mark.parametrize(("chunk", "is_capped"), [(None, False), (-1, False), (0, False), (1, True)])
def test_requests_fix_the_swa_rows_only_where_prefill_is_chunked(chunk: int | None, is_capped: bool) -> None:
    """A chunk of nothing is no chunk."""
    configurator = create_memory_pool_configurator(replace(POOLS["capped"][1], chunked_prefill_size=chunk))
    assert isinstance(configurator, SWARequestCapPoolConfigurator) is is_capped
