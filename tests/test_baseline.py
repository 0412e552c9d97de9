"""Benchmarks beside their baselines, from run to run."""

import json

from tests.benchmarks.baseline import comparison, main, ratios_of


def saved(storage, number, ratios):
    """A run as pytest-benchmark keeps it."""
    folder = storage / "Linux-CPython-3.11-64bit"
    folder.mkdir(exist_ok=True)
    benchmarks = [
        {"name": name, "extra_info": {"baseline": baseline, "times_faster": ratio}}
        for name, (baseline, ratio) in ratios.items()
    ]
    benchmarks.append({"name": "without", "extra_info": {}})
    (folder / f"{number:04}_run.json").write_text(json.dumps({"benchmarks": benchmarks}))


def test_the_last_run_is_told_beside_the_one_before(tmp_path, capsys):
    saved(tmp_path, 9, {"size": ("spec", 99.0)})
    saved(tmp_path, 10, {"size": ("spec", 20.0), "sweep": ("NumPy", 5000.0)})
    saved(tmp_path, 11, {"size": ("spec", 21.0), "sweep": ("NumPy", 2500.0), "draw": ("spec", 0.00123)})
    assert main(tmp_path) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["size", "spec", "21", "20"],
        ["sweep", "NumPy", "2,500", "5,000", "0.50x"],
        ["draw", "spec", "0.00123", "-"],
    ]


def test_another_baseline_is_no_comparison():
    now, before = {"size": ("spec", 2.0)}, {"size": ("an empty process", 8.0)}
    assert comparison(now, before).splitlines()[1].split() == ["size", "spec", "2", "-"]


def test_without_a_run_there_is_nothing_to_tell(tmp_path, capsys):
    assert main(tmp_path) == 1
    assert "no saved run" in capsys.readouterr().err
    assert ratios_of({"benchmarks": []}) == {}
