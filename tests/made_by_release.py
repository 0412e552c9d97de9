"""Which configurators and pool classes a release makes for scenarios of every kind of pool in every KV dtype."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from impl import CannotJudge
from impl.sglang import pools as pools_module
from impl.sglang.adapter import SGLang
from spec.dtypes import KV_CACHE_DTYPES
from spec.model import EAGLE, AttentionShape, Draft, Heads, Index, Latent, PoolSizes, Scenario
from spec.units import GiB

HEADS, LATENT = Heads(2, 128, 128), Latent(512, 64)
SHAPES = (
    AttentionShape(("full",) * 2, HEADS),
    AttentionShape(("full",) * 2, LATENT),
    AttentionShape(("full",) * 2, LATENT, index=Index(128, (0,))),
    AttentionShape(("full",) * 2, HEADS, index=Index(128, (0,))),
    AttentionShape(("full",) * 2, HEADS, index=Index(128, (0,), stores_values=True)),
    AttentionShape(("full", "swa"), HEADS, HEADS, sliding_window_size=128),
    AttentionShape(("full", "linear"), HEADS),
)


def scenarios() -> Iterator[Scenario]:
    """Every shape in every dtype, windows as a hybrid and as a capped pool, with a draft and without."""
    for shape in SHAPES:
        for dtype in KV_CACHE_DTYPES:
            plain = Scenario(shape, (GiB,), page_size=64, kv_cache_dtype=dtype, swa_full_tokens_ratio=Fraction(1, 2))
            draft = Draft(AttentionShape(("full",), HEADS))
            yield plain
            yield replace(plain, draft=draft, speculative_algorithm=EAGLE)
            yield replace(plain, user_max_running_requests=2, disable_radix_cache=True, chunked_prefill_size=64)


def made(release: SGLang) -> tuple[set[str], set[str]]:
    """(configurators, pool classes and their bases) that the release's own factory and builders make."""
    configurators: set[str] = set()
    pools: set[str] = set()
    factory, buffers = release.world.configurators.create_memory_pool_configurator, pools_module.buffers

    def noted_factory(x: object) -> object:
        configurator = factory(x)
        configurators.add(type(configurator).__name__)
        return configurator

    def noted_buffers(pool: object, *rest: object) -> object:
        pools.update(base.__name__ for base in type(pool).__mro__ if base.__module__.startswith("sglang."))
        return buffers(pool, *rest)  # type: ignore[arg-type]

    release.world.configurators.create_memory_pool_configurator = noted_factory
    pools_module.buffers = noted_buffers  # type: ignore[assignment]
    for scenario in scenarios():
        if release.supports(scenario) is None:
            sizes = release.size_pools(scenario)
            assert isinstance(sizes, PoolSizes), (scenario, sizes)
            try:
                release.allocated_bytes(scenario, sizes)
            except CannotJudge:
                continue
    return configurators, pools
