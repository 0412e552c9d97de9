"""Whether `make gate` can fail: a released SGLang where it is right, and the same with an adapter that is wrong.

Run by `make gate-selftest` where SGLang is; `pytest tests` does not collect this file. Without SGLang every test fails.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from impl.sglang.adapter import SGLang
from impl.sglang.coverage import coverage_of
from impl.sglang.inventory import CONFIGURATOR_BASE, CONFIGURATORS
from properties.case_files import RecordedCase
from properties.issue import broken_law, issue_text
from properties.witnesses import BROKEN as WITNESSED
from properties.witnesses import faults, witness_figures
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


def test_a_report_has_a_script_that_needs_the_release_alone(tmp_path: Path) -> None:
    """For every fault of the release that oversells: the script sells the same tokens, and shows them not to fit."""
    release = SGLang()
    context = SimpleNamespace(implementation=release)
    environment = {**os.environ, "PYTHONPATH": str(Path(release.path).parent)}
    shown = 0
    for fault in faults():
        if fault.law != "B1" or witness_figures(release, fault).verdict != WITNESSED:
            continue
        finding = broken_law(RecordedCase(fault.witness, "B1", None), context)
        assert finding is not None
        text = issue_text(finding, context)
        if "```python\n" not in text:
            assert "No script: the smallest of a user cap" in text, text
            continue
        script = tmp_path / f"{fault.id}.py"
        script.write_text(text.partition("```python\n")[2].removesuffix("```"), encoding="utf-8")
        done = subprocess.run(
            (sys.executable, str(script)), env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        tokens = release.size_pools(fault.witness).max_total_num_tokens
        assert done.returncode == 1 and f" sells {tokens} tokens\n" in done.stdout, done.stdout + done.stderr
        assert not re.search(r"^(from|import) (spec|impl|properties|tests)", script.read_text(encoding="utf-8"), re.M)
        shown += 1
    assert shown, "no fault of this release oversells: choose one that has one"


def test_a_configurator_that_no_law_judges_makes_the_gate_red(tmp_path: Path) -> None:
    """The same release with one more, where every law holds."""
    package = Path(SGLang().path)
    shutil.copytree(package, tmp_path / "sglang", copy_function=os.symlink)
    grown = tmp_path / "sglang" / CONFIGURATORS
    text = grown.read_text(encoding="utf-8")
    grown.unlink()
    grown.write_text(f"{text}\n\nclass FooPoolConfigurator({CONFIGURATOR_BASE}):\n    pass\n", encoding="utf-8")
    run = gate(*CELLS, *LAWS, "--kv-impl", "sglang", "--kv-impl-path", str(tmp_path))
    assert run.code == BROKEN and not run.blocks, run.text
    assert re.search(r"^UNCOVERED SGLang \S+ adds FooPoolConfigurator: no law judges it$", run.text, re.M), run.text
