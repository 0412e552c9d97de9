"""The start-up laws in a run: one test for each law, protocol, and who is judged.

They have no cells, so a run of some cells of the budget leaves them out; so does one of an implementation that has no
start-up. The sweep is left out in the same way.
"""

from collections.abc import Callable
from typing import Any

import pytest

from properties.options import chosen_start_up_laws
from properties.plugin import CONTEXT
from properties.startup import Findings, claimed, implementation_findings, offers_start_up, spec_findings
from properties.sweep.share import is_swept
from spec.laws.startup import START_UP_BY_ID
from spec.startup.protocols import Protocol

FINDINGS = pytest.StashKey[dict[tuple[str, str], Findings]]()
"""Findings of a run so far, by protocol and who was judged: all laws of a protocol share them."""


def pytest_configure(config: pytest.Config) -> None:
    """The mark of a start-up law's test."""
    config.addinivalue_line("markers", "start_up_law(id): the law of spec/laws/startup.py this test judges")
    config.addinivalue_line("markers", "sweep: judges every point of a space, in a run of all laws and cells")
    config.stash[FINDINGS] = {}


def judged_law(item: Any) -> str | None:
    """The start-up law a test judges."""
    mark = next((mark for mark in getattr(item.function, "pytestmark", []) if mark.name == "start_up_law"), None)
    return None if mark is None else mark.args[0]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each protocol a law claims: of the spec, and of the implementation where it offers a start-up."""
    law_id = judged_law(metafunc)
    if law_id is None:
        return
    implementation = metafunc.config.stash[CONTEXT].implementation
    cases = []
    for protocol in claimed(START_UP_BY_ID[law_id]):
        offers = offers_start_up(implementation) and not protocol.historical
        for judged in ("spec", "implementation") if offers else ("spec",):
            group = pytest.mark.xdist_group(f"start-up {protocol.name}")
            cases.append(pytest.param((protocol, judged), id=f"{protocol.name}-{judged}", marks=group))
    metafunc.parametrize("protocol", cases)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A run of some cells does without them, and one of an implementation without a start-up."""
    chosen = chosen_start_up_laws(config) if offers_start_up(config.stash[CONTEXT].implementation) else []
    left_out = [item for item in items if judged_law(item) not in (None, *chosen)]
    left_out += [item for item in items if item.get_closest_marker("sweep") and not sweeps(config)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def sweeps(config: pytest.Config) -> bool:
    """Whether this run sweeps the default space."""
    context = config.stash[CONTEXT]
    whole = config.getoption("--kv-law") is None and config.getoption("--kv-cell") == "*"
    return is_swept(context.implementation_name, context.profile_name, whole=whole)


def findings(config: pytest.Config, protocol: Protocol, judged: str) -> Findings:
    """What was found of a protocol, looked for once."""
    known = config.stash[FINDINGS]
    if (protocol.name, judged) not in known:
        implementation = config.stash[CONTEXT].implementation
        found = spec_findings(protocol) if judged == "spec" else implementation_findings(protocol, implementation)
        known[protocol.name, judged] = found
    return known[protocol.name, judged]


@pytest.fixture
def judge_start_up(request: pytest.FixtureRequest) -> Callable[[tuple[Protocol, str]], None]:
    """Judges the test's law on one protocol."""
    law_id = judged_law(request)
    assert law_id is not None

    def judge(case: tuple[Protocol, str]) -> None:
        found = findings(request.config, *case)
        if law_id in found.broken:
            pytest.fail(f"{law_id} of {case[0].name}, {case[1]}\n{found.broken[law_id]}", pytrace=False)
        assert found.judged[law_id], f"{law_id} claims {case[0].name} and judged nothing"

    return judge
