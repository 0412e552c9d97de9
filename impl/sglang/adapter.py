"""A released SGLang behind the interface of `impl`: `--kv-impl sglang`."""

from pathlib import Path

from impl import Exemption
from impl.places import place_of
from impl.sglang.coverage import coverage_of
from impl.sglang.exemptions import exemptions_of
from impl.sglang.pools import Pools
from impl.sglang.records import Records, parallel_widths
from impl.sglang.releases import told_version
from impl.sglang.script import script
from impl.sglang.sizing import Sizing
from impl.sglang.support import unsupported
from impl.sglang.world import World
from spec.laws.base import DraftResolution
from spec.model import PoolSizes, Refusal, Scenario, active_draft

KNOWN = Path(__file__).parent / "known"
"""One file a release; their faults are told in `faults.toml`."""


class SGLang:
    """One release a process; its modules are imported when the object is made (10 to 40 s)."""

    name = "sglang"
    exact = False

    any_number = False
    """What is known to fail is recorded cell by cell, on scenarios of usual numbers."""

    def __init__(self) -> None:
        self.world = World()
        self.version = told_version(self.world.version)
        self.path = self.world.path
        self.records = Records(self.world)
        self.sizing = Sizing(self.records)
        self.pools = Pools(self.records)
        self.spec_names = {self._torch_dtype(name): name for name in ("bf16", "fp16", "fp32", "fp8_e4m3", "fp8_e5m2")}

    def _torch_dtype(self, name: str) -> object:
        """The torch dtype of a plain KV dtype."""
        torch_names = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
        torch_names |= {"fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2"}
        return getattr(self.world.torch, torch_names[name])

    def exemptions(self) -> tuple[Exemption, ...]:
        """What is not judged of this release, from `exempt.toml`."""
        return exemptions_of(self.world.release)

    def coverage(self) -> tuple[str, list[str]]:
        """How much of the release is judged, from `coverage.toml`, and what is new or stale there."""
        coverage = coverage_of(Path(self.path), self.world.version, self.world.release)
        return coverage.line(), coverage.complaints()

    def known_failures(self) -> Path:
        """The failures that are expected of this release."""
        return KNOWN / f"{self.world.release.version}.toml"

    def supports(self, scenario: Scenario) -> str | None:
        """None, or why this release cannot be asked this on a CPU."""
        return unsupported(scenario, self.world.release)

    def size_pools(self, scenario: Scenario) -> PoolSizes | Refusal:
        """Bytes to tokens, as start-up does it."""
        return self.sizing.from_bytes(scenario)

    def size_pools_from_max_tokens(self, scenario: Scenario, tokens: int) -> PoolSizes | Refusal:
        """Tokens to pools, whatever the bytes."""
        return self.sizing.from_tokens(scenario, tokens)

    def resolve_draft(self, scenario: Scenario) -> DraftResolution | None:
        """The draft as start-up prices it: by the release's own resolver for the DFLASH family; every other draft is
        priced as layers of the target, in the target's dtype, without a word."""
        draft = active_draft(scenario)
        if draft is None:
            return None
        records = self.records
        records.set(scenario)
        stage = scenario.deployment.pp_size - 1
        self.world.enter(records.leaves(scenario), parallel_widths(scenario, stage))
        resolved, warnings = records.resolved_draft_bytes(scenario, draft)
        own = self.world.release.draft_resolver is not None and records.prices_by_own_geometry(scenario)
        shape = draft.shape if own else scenario.target
        name, dtype = records.kv_dtype(scenario, shape, draft if own else None, loaded=not own)
        return DraftResolution(resolved, self.spec_names.get(dtype) or self._spec_name(name), warnings)

    def allocated_bytes(self, scenario: Scenario, sizes: PoolSizes) -> tuple[int, ...]:
        """Bytes of the pools the release's own builders make for these sizes, on one rank of each stage."""
        return self.pools.allocated_bytes(scenario, sizes)

    def where(self, scenario: Scenario) -> str:
        """The configurator the release's factory chooses for the first stage."""
        records = self.records
        records.set(scenario)
        self.world.enter(records.leaves(scenario), parallel_widths(scenario, 0))
        records.stage(scenario, 0)
        return place_of(type(self.world.configurators.create_memory_pool_configurator(records.x)).__init__)

    def script(self, scenario: Scenario, stage: int, title: str) -> str:
        """A script that needs this release alone and shows what one rank of a stage sells."""
        return script(self.sizing, scenario, stage, title)

    def _spec_name(self, name: str) -> str:
        """The spec's name of a block-scaled KV dtype."""
        return next((spec for spec, there in self.records.dtype_names.items() if there == name), name)
