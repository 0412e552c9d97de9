"""Tiny wrong implementations, given to the gate as `tests.wrong_implementations:Name`: the spec with one slip each."""

import os
import random
from dataclasses import replace
from pathlib import Path

from impl import PATH_VARIABLE, CannotJudge, Exemption
from impl.optimized import Configurator
from impl.sglang.drift import AdapterDrift
from spec.laws.base import Answer
from spec.layers import CAPPED_POOL, pool_kind
from spec.model import Latent, PoolSizes, Refusal, Scenario
from spec.pools import size_pools, size_pools_from_max_tokens


class Sound:
    """The spec's sizes and no tensors, so that a run starts fast."""

    name = "sound"
    version = "0"

    def supports(self, scenario: Scenario) -> str | None:
        """Everything."""
        return None

    def size_pools(self, scenario: Scenario) -> Answer:
        """Bytes to tokens."""
        return size_pools(scenario)

    def size_pools_from_max_tokens(self, scenario: Scenario, tokens: int) -> Answer:
        """Tokens to pools."""
        return size_pools_from_max_tokens(scenario, tokens)


class OnePageTooMany(Sound):
    """Sells a page that does not fit."""

    name = "one-page-too-many"

    def size_pools(self, scenario: Scenario) -> Answer:
        """The spec's answer and a page."""
        answer = super().size_pools(scenario)
        if isinstance(answer, Refusal):
            return answer
        more = answer.max_total_num_tokens + scenario.page_size
        return replace(answer, max_total_num_tokens=more, full_max_total_num_tokens=more)


class DividesByZero(Sound):
    """Raises what no refusal is."""

    name = "divides-by-zero"

    def size_pools(self, scenario: Scenario) -> Answer:
        """Never an answer."""
        raise ZeroDivisionError("cell size is 0")


class ReturnsATuple(Sound):
    """Answers with something that is neither PoolSizes nor a Refusal."""

    name = "returns-a-tuple"

    def size_pools(self, scenario: Scenario) -> Answer:
        """Two bare numbers."""
        return (4096, 4096)  # type: ignore[return-value]


class RefusesInItsOwnWords(Sound):
    """Refuses with a kind that is not on the list."""

    name = "refuses-in-its-own-words"

    def size_pools(self, scenario: Scenario) -> Answer:
        """A refusal nobody knows."""
        return Refusal("out_of_memory", "budget", scenario.budget)


class SellsFloats(Sound):
    """Answers in floats, which are never whole rows."""

    name = "sells-floats"

    def size_pools(self, scenario: Scenario) -> Answer:
        """The spec's tokens as a float."""
        answer = super().size_pools(scenario)
        if isinstance(answer, PoolSizes):
            return replace(answer, max_total_num_tokens=float(answer.max_total_num_tokens))  # type: ignore[arg-type]
        return answer


class SellsNothing(Sound):
    """Answers with zeros instead of a refusal."""

    name = "sells-nothing"

    def size_pools(self, scenario: Scenario) -> Answer:
        """All zeros."""
        return PoolSizes(0, 0, 0, 0, 0)


class SellsADebt(Sound):
    """Negative tokens."""

    name = "sells-a-debt"

    def size_pools(self, scenario: Scenario) -> Answer:
        """All below zero."""
        return PoolSizes(-64, -64, -64, -1, -1)


class ChangesItsMind(Sound):
    """Oversells now and then: a shrunk case may hold when it is judged again."""

    name = "changes-its-mind"

    def __init__(self) -> None:
        self.random = random.Random(0)

    def size_pools(self, scenario: Scenario) -> Answer:
        """The right answer or a page more."""
        wrong = self.random.random() < 0.5
        return OnePageTooMany().size_pools(scenario) if wrong else super().size_pools(scenario)


class SupportsNothing(Sound):
    """Judges no scenario at all."""

    name = "supports-nothing"

    def supports(self, scenario: Scenario) -> str | None:
        """Always a reason."""
        return "no GPU here"


class SupportsNoCappedPool(Sound):
    """Leaves one pool kind out."""

    name = "supports-no-capped-pool"

    def supports(self, scenario: Scenario) -> str | None:
        """A reason for one pool kind."""
        return "capped pools are not written yet" if pool_kind(scenario) == CAPPED_POOL else None


class SupportsRaises(Sound):
    """Cannot even say what it supports."""

    name = "supports-raises"

    def supports(self, scenario: Scenario) -> str | None:
        """Never an answer."""
        raise KeyError("attention_backend")


class ExitsThePythonProcess(Sound):
    """Leaves, as a launcher does when it has no memory."""

    name = "exits-the-process"

    def size_pools(self, scenario: Scenario) -> Answer:
        """Never an answer."""
        raise SystemExit(3)


class TripsOverNoDraftLayers(Sound):
    """Raises on a draft of no layers, which a law asks about and nobody serves."""

    name = "trips-over-no-draft-layers"

    def size_pools(self, scenario: Scenario) -> Answer:
        """The spec's answer where the draft has a first layer."""
        if scenario.draft is not None:
            scenario.draft.shape.layers[0]
        return super().size_pools(scenario)


class CannotBeBuilt(Sound):
    """Fails before the first question."""

    def __init__(self) -> None:
        raise RuntimeError("no engine here")


class CannotJudgeAfterAll(Sound):
    """Supports a scenario, and finds out on the way that it cannot answer."""

    name = "cannot-judge-after-all"

    def size_pools(self, scenario: Scenario) -> Answer:
        """No answer, without a fault."""
        raise CannotJudge("its builder needs a GPU")


class AsksForTooMuch(Sound):
    """An adapter whose engine asks for something it does not know."""

    name = "asks-for-too-much"

    def size_pools(self, scenario: Scenario) -> Answer:
        """The end of the run."""
        raise AdapterDrift("layer_info.end_layer", "0.5.99", "configurator.py:7")


class AsksForTooMuchAtOnce(AsksForTooMuch):
    """The same, before the first question."""

    def __init__(self) -> None:
        self.size_pools(Scenario(target=None, budget=()))  # type: ignore[arg-type]


class HasNoPages(Sound):
    """Leaves a law out in one pool kind, with a reason."""

    name = "has-no-pages"

    def exemptions(self) -> tuple[Exemption, ...]:
        """One entry."""
        return (Exemption("B4 B5", "default-*", "it has no pages"),)


class ComesFromAFolder(OnePageTooMany):
    """Imported from the folder of `--kv-impl-path`."""

    name = "comes-from-a-folder"

    def __init__(self) -> None:
        self.path = os.environ.get(PATH_VARIABLE)


class HalvesRequestsToo(OnePageTooMany):
    """Two faults: pages of one token are sold right, but for half the requests."""

    name = "halves-requests-too"

    def size_pools(self, scenario: Scenario) -> Answer:
        """One fault or the other."""
        if scenario.page_size > 1:
            return super().size_pools(scenario)
        answer = Sound.size_pools(self, scenario)
        if isinstance(answer, PoolSizes):
            return replace(answer, max_running_requests=answer.max_running_requests // 2)
        return answer


class IsStopped(OnePageTooMany):
    """Somebody presses Ctrl-C as soon as latents are asked about."""

    name = "is-stopped"

    def size_pools(self, scenario: Scenario) -> Answer:
        """A page too many, or the end."""
        if isinstance(scenario.target.full, Latent):
            raise KeyboardInterrupt
        return super().size_pools(scenario)


class NamesItsKnownFailures(ComesFromAFolder):
    """Says where the failures are listed that are expected of it."""

    name = "names-its-known-failures"

    def known_failures(self) -> Path | None:
        """A file of its folder."""
        return None if self.path is None else Path(self.path) / "known.toml"


class DropsTheDraftTerm(Configurator):
    """No draft is priced anywhere: a broad fault, broken in every cell with a draft."""

    name = "drops-the-draft-term"

    def size_pools(self, scenario: Scenario) -> Answer:
        """The plain answer."""
        return super().size_pools(replace(scenario, speculative_algorithm=None))


class HasGrown(Sound):
    """Right in all it is asked, with a configurator that nobody asks for, and an exemption of nothing."""

    name = "has-grown"

    def exemptions(self) -> tuple[Exemption, ...]:
        """Window pools have no DCP."""
        return (Exemption("B1", "hybrid-*-dcp-*", "it has no DCP"),)

    def coverage(self) -> tuple[str, list[str]]:
        """One of two."""
        return "1 of 2 configurators", ["engine 2 adds FooPoolConfigurator: no law judges it"]


class TripsTheSuite(Sound):
    """Right in all it is asked, but the suite cannot read it."""

    name = "trips-the-suite"

    @property
    def exact(self) -> bool:
        """Nothing a law asks for."""
        raise LookupError("nobody wrote this down")
