"""Whether `make gate` can fail: a released SGLang where it is right, and the same with an adapter that is wrong.

Run by `make gate-selftest` where SGLang is; `pytest tests` does not collect this file. Without SGLang every test fails.
"""

import re
from pathlib import Path

from impl.sglang.adapter import SGLang
from impl.sglang.coverage import coverage_of
from tests.made_by_release import made
from tests.test_gate import BROKEN, GREEN, WRONG_USE, Run, gate

CELLS = ("--kv-cell", "default-dflash_own-dp-*")
"""Where a release that has a resolver for the draft's price and its width is right."""
LAWS = ("--kv-law", "B1,B2,D3,D4,R2")


def judged(implementation: str) -> Run:
    """A run on the SGLang of KV_IMPL_PATH, or on the installed one."""
    return gate(*CELLS, *LAWS, "--kv-impl", implementation)


def test_the_release_holds_the_laws_there() -> None:
    run = judged("sglang")
    assert run.code == GREEN, run.text
    assert re.search(r"^kv: implementation sglang \d", run.text, re.M)


def test_a_wrong_draft_width_breaks_them() -> None:
    run = judged("tests.wrong_adapters:WrongDraftWidth")
    assert run.code == BROKEN, run.text
    broken = {block.split()[1] for block in run.blocks}
    assert {"B1", "D4"} <= broken, run.text


def test_a_release_that_asks_for_more_ends_the_run() -> None:
    run = judged("tests.wrong_adapters:LacksAField")
    assert run.code == WRONG_USE, run.text
    assert re.search(r"SGLang \S+ asks for kv_cache_configurator\.kv_cache_dtype in \S+\.py:\d+", run.text), run.text


def test_what_is_listed_as_judged_is_made() -> None:
    """And nothing the release has is in neither list of `coverage.toml`."""
    release = SGLang()
    coverage = coverage_of(Path(release.path), release.world.version, release.world.release)
    configurators, pools = made(release)
    assert coverage.complaints() == []
    assert coverage.listed("configurator", judged=True) == configurators
    assert coverage.listed("pool", judged=True) <= pools
