"""The spec itself behind the implementation interface, so that the laws can judge it too."""

from impl.resolve import resolve_draft
from impl.startup import StartUp
from impl.torch_pools import allocated_bytes
from spec.laws.base import DraftResolution
from spec.model import PoolSizes, Refusal, Scenario
from spec.pools import size_pools, size_pools_from_max_tokens
from spec.startup.world import World


class Reference:
    """`--kv-impl spec`."""

    name = "spec"
    version = "0.1"

    def supports(self, scenario: Scenario) -> str | None:
        """Everything: what the spec does not know it refuses."""
        return None

    def size_pools(self, scenario: Scenario) -> PoolSizes | Refusal:
        """Bytes to tokens, by `spec/pools.py`."""
        return size_pools(scenario)

    def size_pools_from_max_tokens(self, scenario: Scenario, tokens: int) -> PoolSizes | Refusal:
        """Tokens to pools, by `spec/pools.py`."""
        return size_pools_from_max_tokens(scenario, tokens)

    def resolve_draft(self, scenario: Scenario) -> DraftResolution | None:
        """The spec has no start-up of its own: that of `impl/resolve.py`."""
        return resolve_draft(scenario)

    def allocated_bytes(self, scenario: Scenario, sizes: PoolSizes) -> tuple[int, ...]:
        """Nor has it tensors: those of `impl/torch_pools.py`."""
        return allocated_bytes(scenario, sizes)

    def start_up(self, world: World) -> StartUp:
        """Its transition system is judged as it is; this one runs over tensors on `meta`, sized by the spec."""
        return StartUp(world, size_pools)
