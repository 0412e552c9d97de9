"""`python -m properties sweep`: what it says, how it exits, its files, and a cluster that loses a worker."""

import importlib
import json
import os
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from properties.case_files import scenario_from_text
from properties.sweep import cluster, command, machine
from properties.sweep.axes import default_text
from properties.sweep.kernel import kernel_of
from properties.sweep.results import merged, read
from properties.sweep.run import Sweep, points_of, swept
from properties.verbs import main
from spec.model import PoolSizes
from spec.pools import size_pools
from tests.sweep_formulas import WRONG

SPACE = Path(__file__).parent / "data" / "small_space.toml"
SMALL = SPACE.read_text(encoding="utf-8")
POINTS = points_of(SMALL)
GREEN, BROKEN, STOPPED, WRONG_USE = 0, 1, 2, 4
"""Exit codes, which are pytest's."""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The machine is measured in no time, the spec is asked about few points."""
    monkeypatch.setattr(machine, "SECONDS", 0.01)
    monkeypatch.setattr(command, "swept", partial(swept, samples=200))
    monkeypatch.setattr(command, "SAMPLES", 200)


def sweep(*options, space=SPACE):
    """The verb on a space."""
    return main(["sweep", "--space", str(space), *map(str, options)])


def test_a_green_run_says_what_it_judged(capsys, tmp_path):
    summary = tmp_path / "summary.json"
    assert sweep("--summary", summary) == GREEN
    said = capsys.readouterr().out
    assert "13,056 of 13,056 points judged by 14 laws" in said and "200 of them by the spec, too" in said
    assert "32 geometries come down to 26 cells" in said
    assert "times slower" in said and "GB read a second" in said and "divisions" in said
    assert sum(line.endswith("holds") for line in said.splitlines()) == 15
    written = json.loads(summary.read_text())
    assert written["complete"] and written["broken"] == written["cases"] == {}
    assert written["machine"]["numpy_points_a_second"] > 0


def test_a_wrong_sizing_is_told_by_the_printer(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "Sweep", partial(Sweep, formulas=WRONG["W2"], is_compiled=False))
    summary = tmp_path / "summary.json"
    assert sweep("--summary", summary) == BROKEN
    said = capsys.readouterr().out
    index = json.loads(summary.read_text())["broken"]["W2"]
    assert f"broken, first at point {index:,}" in said
    block = said[said.index("W2 a window pool admits a request\n") :]
    assert "term off       swa_max_total_num_tokens" in block and f"point {index:,} of python -m properties" in block
    case = scenario_from_text(json.loads(summary.read_text())["cases"]["W2"])
    assert case == POINTS.scenario(index) and not isinstance(size_pools(case), PoolSizes)


def test_a_wrong_price_is_told_by_the_printer(capsys, monkeypatch):
    from tests.test_sweep import stage_price

    monkeypatch.setattr("properties.sweep.geometry.price_of", lambda geometry: stage_price(geometry, 1))
    assert sweep() == BROKEN
    assert "\nA1 price equals allocation\n" in capsys.readouterr().out


def test_shards_are_merged(capsys, tmp_path):
    parts = [tmp_path / f"{shard}.json" for shard in (1, 2)]
    for shard, path in enumerate(parts, 1):
        assert sweep("--shard", f"{shard}/2", "--summary", path) == GREEN
        assert not json.loads(path.read_text())["complete"]
    whole = tmp_path / "whole.json"
    assert sweep("--merge", *parts, "--summary", whole) == GREEN
    assert json.loads(whole.read_text())["complete"] and read(whole).shards == ("1/2", "2/2")
    assert sweep("--merge", parts[0], parts[0]) == WRONG_USE
    assert main(["sweep", "--merge", *map(str, parts)]) == WRONG_USE
    assert "of space" in capsys.readouterr().err


def test_a_run_goes_on_where_its_state_is(capsys, tmp_path, monkeypatch):
    state = tmp_path / "state.json"
    assert sweep("--state", state) == GREEN
    first = read(state)
    assert first.jobs is None
    monkeypatch.setattr(Sweep, "broken_in_job", None)
    assert sweep("--state", state) == GREEN and read(state) == first
    assert sweep("--state", state, "--shard", "1/2") == WRONG_USE
    assert "is of shard 1/1" in capsys.readouterr().err


def test_a_run_that_is_stopped_says_how_it_goes_on(capsys, tmp_path, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Sweep, "broken_in_job", stopped)
    assert sweep("--state", tmp_path / "state.json") == STOPPED
    assert "state.json" in capsys.readouterr().err


def test_a_space_that_is_no_text_is_wrong_use(tmp_path, capsys):
    (tmp_path / "space.toml").write_bytes(b"\xff")
    assert main(["sweep", "--space", str(tmp_path / "space.toml")]) == WRONG_USE
    (tmp_path / "space.toml").write_text("x = " + "[" * 50_000)
    assert main(["sweep", "--space", str(tmp_path / "space.toml")]) == WRONG_USE
    assert "can't decode" in (said := capsys.readouterr().err) and "no TOML" in said


def test_the_state_is_written_on_the_way(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "STATE_SECONDS", -1.0)
    written = []
    monkeypatch.setattr(command.results, "write", lambda path, content: written.append(content["jobs"]))
    assert sweep("--state", tmp_path / "state.json") == GREEN
    assert written == [*range(1, len(list(POINTS.jobs())) + 1), None]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--shard", "9/8"], "write 3/8"),
        (["--shard", "0/8"], "write 3/8"),
        (["--dask", "tcp://127.0.0.1:1"], "go together"),
        (["--shards", "8"], "go together"),
        (["--shards", "0"], "give a number from 1"),
        (["--shard", "1/2", "--dask", "tcp://127.0.0.1:1", "--shards", "2"], "not allowed with"),
    ],
)
def test_wrong_options_are_usage_errors(options, why, capsys):
    with pytest.raises(SystemExit) as ended:
        sweep(*options)
    assert ended.value.code == WRONG_USE and why in capsys.readouterr().err


def test_a_space_that_cannot_be_read_is_a_usage_error(capsys, tmp_path):
    assert sweep(space=tmp_path / "none.toml") == WRONG_USE
    assert "none.toml" in capsys.readouterr().err
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(SMALL.replace("page_size", "page_sizes"))
    assert sweep(space=wrong) == WRONG_USE
    assert "nobody reads 'page_sizes'" in capsys.readouterr().err


# The yardstick.


def test_numpy_judges_the_same_laws():
    """On arrays, a right sizing breaks none, and a wrong one those of the loop."""
    kind = POINTS.kinds[2]
    block, pages = machine.numpy_columns(POINTS, kind, 0)
    assert block.full.shape == pages.shape == (machine.CHUNK_BLOCKS * 24,)
    assert machine.numpy_bits(block, pages) == 0
    wrong = kernel_of(WRONG["B1"], is_compiled=False)
    expected = {law for law, index in swept(Sweep(POINTS, WRONG["B1"], is_compiled=False), samples=0).broken.items()}
    right = machine.terms(block)
    bits = wrong.judged(block, right, wrong.variants(block), pages, wrong.budgets(right, block.page, pages))
    found = int(np.bitwise_or.reduce([np.bitwise_or.reduce(one) for one in bits]))
    names = {law for number, law in enumerate(command.LAWS) if found >> number & 1}
    assert "B1" in names and names <= expected


def test_a_rate_is_told_beside_the_machine():
    text = "\n".join(machine.Machine(2, 22e9, 2e9, 4e6).text(100e6))
    assert "100.0 million points a second on 2 threads" in text
    assert "25.0 times slower" in text and "20.0 a point" in text and "229.2 million points" in text


# A cluster.


def test_a_killed_worker_loses_nothing():
    """Two workers; the one that has done the first shard is killed while the others are on their way."""
    distributed = importlib.import_module("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local,
        distributed.Client(local) as client,
    ):
        workers = client.run(os.getpid)
        assert len(workers) == 2
        results = cluster.swept_on(client, SMALL, 8, 80)
        found = [next(results)]
        os.kill(next(iter(workers.values())), signal.SIGKILL)
        found += results
        assert set(client.run(os.getpid).values()) != set(workers.values())
    total, alone = merged(found), merged([swept(Sweep(POINTS), shard, 8, samples=80) for shard in range(8)])
    assert sorted(total.shards) == sorted(alone.shards)
    assert (total.judged, total.samples, total.broken) == (alone.judged, alone.samples, {})
    assert total.judged == POINTS.count


def test_a_cluster_is_asked_for_every_shard(capsys, monkeypatch):
    class Client:
        """Here and now."""

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

    shards = [swept(Sweep(POINTS), shard, 4, samples=40) for shard in range(4)]
    monkeypatch.setattr(cluster, "client_of", lambda address: Client())
    monkeypatch.setattr(cluster, "swept_on", lambda client, text, count, samples: shards[:count])
    assert sweep("--dask", "tcp://here", "--shards", 4) == GREEN
    assert "13,056 of 13,056 points" in capsys.readouterr().out


def test_no_cluster_is_a_usage_error(capsys, monkeypatch):
    assert sweep("--dask", "no-such://address", "--shards", 2) == WRONG_USE
    assert "--dask no-such://address" in capsys.readouterr().err

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(cluster.importlib, "import_module", missing)
    with pytest.raises(cluster.NoDask, match="pip install"):
        cluster.client_of("tcp://here")


def test_the_default_space_is_read():
    assert points_of(default_text()).space.sizes == 40
