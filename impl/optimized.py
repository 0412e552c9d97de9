"""The optimized implementation behind the interface: `--kv-impl configurator`.

Sizing is `impl/configurator.py`, the draft at start-up `impl/resolve.py`, allocation `impl/torch_pools.py`, the whole
start-up `impl/startup.py`.
"""

from impl.configurator import POOL_CONFIGURATORS, create_memory_pool_configurator
from impl.configurator_prices import stage_budgets
from impl.places import place_of
from impl.resolve import resolve_draft
from impl.startup import StartUp
from impl.torch_pools import allocated_bytes
from spec.advice import advised
from spec.laws.base import DraftResolution
from spec.model import PoolSizes, Refusal, Refused, Scenario
from spec.startup.world import World


class Configurator:
    """`--kv-impl configurator`: builds a configurator for each question and returns refusals as values."""

    name = "configurator"
    version = "0.1"
    configurators = POOL_CONFIGURATORS

    def supports(self, scenario: Scenario) -> str | None:
        """Everything the spec knows."""
        return None

    def size_pools(self, scenario: Scenario) -> PoolSizes | Refusal:
        """Bytes to tokens; memory figures are turned into bytes first, and a refusal for want of memory says which
        fraction would start."""
        try:
            configurator = create_memory_pool_configurator(scenario, self.configurators)
            return configurator.calculate_pool_sizes(stage_budgets(scenario), scenario.page_size)
        except Refused as refused:
            return advised(scenario, refused.refusal, self.starts)

    def starts(self, scenario: Scenario) -> bool:
        """Whether a scenario is sized at all."""
        try:
            create_memory_pool_configurator(scenario, self.configurators).calculate_pool_sizes(
                stage_budgets(scenario), scenario.page_size
            )
        except Refused:
            return False
        return True

    def size_pools_from_max_tokens(self, scenario: Scenario, tokens: int) -> PoolSizes | Refusal:
        """Tokens to pools, whatever the bytes."""
        try:
            configurator = create_memory_pool_configurator(scenario, self.configurators)
            return configurator.calculate_pool_sizes_from_max_tokens(tokens, scenario.page_size)
        except Refused as refused:
            return refused.refusal

    def resolve_draft(self, scenario: Scenario) -> DraftResolution | None:
        """The draft as start-up resolves it."""
        return resolve_draft(scenario)

    def allocated_bytes(self, scenario: Scenario, sizes: PoolSizes) -> tuple[int, ...]:
        """Bytes of the tensors of all pools, on one rank of each pipeline stage."""
        return allocated_bytes(scenario, sizes)

    def where(self, scenario: Scenario) -> str:
        """The class that sizes a valid scenario; of a subclass that sizes by itself, its method."""
        if type(self).size_pools is not Configurator.size_pools:
            return place_of(type(self).size_pools)
        return place_of(type(create_memory_pool_configurator(scenario, self.configurators)))

    def start_up(self, world: World) -> StartUp:
        """A start-up over tensors on `meta`, sized by this configurator."""
        return StartUp(world, self.size_pools)
