"""The adapter to SGLang with one slip each, for `tests/check_gate.py`, where SGLang is: `tests.wrong_adapters:Name`."""

from impl.sglang import SGLang
from spec.model import Scenario


class WrongDraftWidth(SGLang):
    """Splits a draft's heads over every tensor-parallel rank, which under DP attention are too many."""

    name = "wrong-draft-width"

    def __init__(self) -> None:
        super().__init__()
        self.records.draft_width = lambda scenario: scenario.deployment.tp_size


class LacksAField(SGLang):
    """Hands over a record without its KV dtype, as an adapter does to a release that reads one field more."""

    name = "lacks-a-field"

    def __init__(self) -> None:
        super().__init__()
        records = self.records
        set_all = records.set

        def set_all_but_one(scenario: Scenario) -> None:
            set_all(scenario)
            del records.x.__dict__["kv_cache_dtype"]

        records.set = set_all_but_one
