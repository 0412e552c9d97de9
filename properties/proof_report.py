"""The proofs in a run: which are asked for, and what is said of them at the end. Nothing here needs the solver."""

from pathlib import Path
from typing import Any

import pytest

from properties.options import is_chosen
from properties.plugin import CONTEXT
from spec.laws import BY_ID

PROOF, MUTANT, WORDING = "kv-proof", "kv-mutant", "kv-wording"
"""The properties under which a test records a proof (law, pool kind, implementation, seconds, paths), a refuted mutant
(law, pool kind, implementation, what is wrong) and a refuted wording (law, name, counterexample)."""
PROVED_OF = ("spec", "configurator")
"""The implementations whose functions are proved, each in a run that judges it."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Proofs are about functions of this repository, in all cells at once: a run of another implementation or of some
    cells does without them, and so does a glance."""
    if collection_path.name != "test_proofs.py":
        return None
    context = config.stash[CONTEXT]
    proves = context.implementation_name in PROVED_OF and config.getoption("--kv-cell") == "*"
    return None if proves and context.profile_name != "dev" else True


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The proofs of the implementation that is judged: nightly has the long ones too."""
    if "proof" in metafunc.fixturenames:
        from properties.proofs.table import PROOFS

        context = metafunc.config.stash[CONTEXT]
        own = [proof for proof in PROOFS if proof.implementation == context.implementation_name]
        nightly = context.profile_name == "nightly"
        metafunc.parametrize("proof", [proof for proof in own if nightly or not proof.is_long], ids=str)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`--kv-law` leaves the proofs of these laws, and those that they go by."""
    proofs = [proof for proof in map(proof_of, items) if proof is not None]
    chosen = [proof for proof in proofs if (law := proof.law.split()[0]) in BY_ID and is_chosen(config, law)]
    lemmas = {lemma for proof in chosen for lemma in proof.lemmas}
    left_out = [
        item
        for item in items
        if (proof := proof_of(item)) is not None and proof not in chosen and proof.law not in lemmas
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def proof_of(item: Any) -> Any:
    """The proof or the wording a test is about, if any."""
    call = getattr(item, "callspec", None)
    return call and (call.params.get("proof") or call.params.get("wording"))


def rows_of(terminalreporter: Any, name: str) -> list[list[Any]]:
    """What passed tests reported under a name."""
    reports = terminalreporter.stats.get("passed", [])
    return sorted(row for report in reports for key, row in report.user_properties if key == name)


def proof_table(proofs: list[list[Any]], mutants: list[list[Any]]) -> list[str]:
    """One line a proof: seconds of processor time, paths, and the mutant it refutes."""
    wrong = {tuple(row[:3]): row[3] for row in mutants}
    lines = [f"{'proof':15} {'pool kind':10} {'of':13} {'seconds':>7} {'paths':>6}  refuted when it"]
    for law, kind, implementation, seconds, paths in proofs:
        refuted_when = wrong.get((law, kind, implementation), "")
        lines.append(f"{law:15} {kind:10} {implementation:13} {seconds:7.2f} {paths:6}  {refuted_when}".rstrip())
    total = sum(row[3] for row in proofs)
    return [*lines, f"{len(proofs)} proofs in {total:.1f} s, {len(mutants)} mutants refuted"]


def left_out_lines() -> list[str]:
    """What the gate profile leaves to the nightly one."""
    from properties.proofs.table import PROOFS

    long = list(dict.fromkeys(proof.law for proof in PROOFS if proof.is_long))
    return [f"long, so of the nightly profile only: {', '.join(long)} of hybrid pools"]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The proofs and what they refute, then what is left out, then the wordings that are false, with where."""
    proofs, mutants, wordings = (rows_of(terminalreporter, name) for name in (PROOF, MUTANT, WORDING))
    lines = proof_table(proofs, mutants) if proofs else []
    lines += left_out_lines() if proofs and config.stash[CONTEXT].profile_name != "nightly" else []
    lines += [f"false: {law}, {wording}: {counterexample}" for law, wording, counterexample in wordings]
    for line in ("", *lines) if lines else ():
        terminalreporter.write_line(line)
