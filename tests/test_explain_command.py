"""The command line of `python -m spec explain`: what it prints, what it advises, how it refuses."""

import json
import re
import runpy
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from spec.__main__ import main
from spec.explain.report import explain, text
from spec.explain.setup import parser, setup_of
from spec.explain.wording import number_text, signed_gib
from spec.model import DFLASH, STANDALONE, PoolSizes, Refusal
from spec.pools import size_pools
from spec.units import GiB

CONFIGS = Path(__file__).parent / "data" / "configs"
QWEN3 = "Qwen3-8B z-lab/Qwen3-8B-DFlash-b16"
GPU = "--gpu-bytes 80GiB --weights-bytes 15.3GiB --mem-fraction-static 0.88"
AVAILABLE = "--available-bytes 60GiB"


def asked(line):
    """The setup of a command line, words apart by blanks; ~ is a blank in a name."""
    return setup_of(parser("explain").parse_args([word.replace("~", " ") for word in line.split()]))


def explained(line):
    """The explanation of a command line."""
    return explain(asked(line))


def printed(line, capsys, code=0):
    """What the command prints, and its exit code."""
    assert main(["explain", *(word.replace("~", " ") for word in line.split())]) == code
    return capsys.readouterr()


def test_a_budget_is_printed_term_by_term(capsys):
    out = printed(f"{QWEN3} {AVAILABLE} --context-length 32768 --batch 8", capsys).out
    assert out.startswith(
        "Qwen3-8B with z-lab/Qwen3-8B-DFlash-b16, DFLASH, default pools, tp 1, page 1, context 32,768\n"
    )
    assert "      = 36 * 4,096\n      = 147,456 bytes\n" in out
    assert "      = align_down(64,424,509,440 // 167,936, 1)\n      = 383,625 rows\n" in out
    assert "  sold      383,625 tokens; 4,096 running requests, the longest of 32,767 tokens\n" in out


def test_the_three_results_are_not_each_other():
    """Needed is the workload's, reserved the pools', sold the tokens'."""
    explanation = explained(f"{QWEN3} {AVAILABLE} --context-length 32768 --batch 8")
    assert explanation.needed.rank_bytes == 8 * 32768 * 167936
    assert explanation.needed.at_once == 383625 // 32768
    assert explanation.reserved[0].sold_bytes == 383625 * 167936
    assert explanation.reserved[0].left_bytes == 60 * GiB - 383625 * 167936 < 167936
    assert explanation.reserved[0].spare_bytes == 167936
    assert explanation.answer.max_total_num_tokens == 383625


def test_a_window_model_needs_only_its_window():
    """Of a longer context SWA layers hold the window and what is on the way; without a full pool, that is all."""
    needed = explained(f"gpt-oss-120b {AVAILABLE} --context-length 100000 --page-size 64").needed
    assert (needed.full_rows, needed.swa_rows) == (100032, 127 + 1 + 64 + 64)
    short = explained(f"gpt-oss-120b {AVAILABLE} --context-length 64 --page-size 64").needed
    assert (short.full_rows, short.swa_rows) == (64, 64)
    assert short.rank_bytes == 64 * 18 * 2048 * 2
    scarce = explained(f"MiMo-V2-Flash {AVAILABLE} --tp 4 --page-size 64 --swa-full-tokens-ratio 0.0001")
    assert scarce.needed.at_once == 1088 // 320


def test_dcp_splits_the_context():
    explanation = explained(f"Kimi-K2.5 SpecForge~kimi-k25-eagle3 {AVAILABLE} --tp 8 --dcp 8 --context-length 80000")
    assert explanation.needed.full_rows == 10000
    assert "rows a rank" in text(explanation)
    assert [warning.split(":")[0] for warning in explanation.warnings] == [
        "replicated draft",
        "draft wider than target",
    ]


def test_replicas_add_up():
    """Under DP attention each replica sells its own tokens."""
    explanation = explained(f"Qwen3-8B {AVAILABLE} --tp 8 --dp 8")
    assert explanation.answer.max_total_num_tokens == 436906
    assert "sold      3,495,248 tokens, 436,906 rows a rank" in text(explanation)


def test_a_request_longer_than_any_is_never_held():
    assert explained("Qwen3-8B --available-bytes 1GiB --context-length 40000").needed.at_once == 0


def test_available_bytes_come_from_the_gpu():
    setup = asked(f"{QWEN3} {GPU} --draft-weights-bytes 1GiB")
    explanation = explain(setup)
    free = {one.name: one.value for one in explanation.equations if one.section == "Available bytes"}
    assert free["free"] == 80 * GiB - int(Fraction("15.3") * GiB) - GiB
    assert sum(part.bytes for part in explanation.memory_bar) == setup.gpu_bytes == 80 * GiB
    names = ["weights", "draft weights", "full pool", "draft pool", "spare pages", "slack"]
    assert [part.name for part in explanation.memory_bar] == names
    assert "0.88 -> 0.89" in text(explanation)


def test_without_the_gpu_the_bar_is_the_available_bytes():
    bar = explained(f"gpt-oss-120b {AVAILABLE} --page-size 64").memory_bar
    assert [part.name for part in bar] == ["full pool", "SWA pool", "not sold"]
    assert sum(part.bytes for part in bar) == 60 * GiB


def test_a_token_is_told_by_term():
    bar = {part.name: part.bytes for part in explained(f"{QWEN3} {AVAILABLE}").token_bar}
    assert bar == {"target, full rows": 147456, "draft": 20480}
    hybrid = explained(f"gpt-oss-120b {AVAILABLE}")
    price = next(one.value for one in hybrid.equations if one.name == "cell")
    assert sum(part.bytes for part in hybrid.token_bar) == price
    assert f"{number_text(price)}" in text(hybrid)


def test_json_says_the_same(capsys):
    found = json.loads(printed(f"gpt-oss-120b {AVAILABLE} --json", capsys).out)
    answer = size_pools(asked(f"gpt-oss-120b {AVAILABLE}").scenario)
    assert found["results"]["sold"]["max_total_num_tokens"] == answer.max_total_num_tokens
    assert found["results"]["refusal"] is None
    assert found["equations"][-1]["value"] == answer.max_req_len
    assert next(one["value"] for one in found["equations"] if one["name"] == "cell") == "66355.2"


def test_every_knob_says_what_it_does():
    """Turned alone, it sells what it says; the best comes first."""
    explanation = explained(
        f"gpt-oss-120b SpecForge~gpt-oss-120B-eagle3 {AVAILABLE} --max-total-tokens 900000 --page-size 64"
    )
    knobs = {knob.name: knob for knob in explanation.knobs}
    assert knobs["max_total_tokens"].change > 0 == knobs["kv_cache_dtype"].change
    lower = asked(f"gpt-oss-120b SpecForge~gpt-oss-120B-eagle3 {AVAILABLE} --swa-full-tokens-ratio 0.4 --page-size 64")
    uncapped = replace(lower.scenario, max_total_tokens=900000)
    assert knobs["swa_full_tokens_ratio"].tokens == size_pools(uncapped).max_total_num_tokens
    tokens = [knob.tokens for knob in explanation.knobs]
    assert tokens == sorted(tokens, reverse=True)


def test_a_binding_cap_limits():
    assert "max_total_tokens=1,000 below" in explained(f"Qwen3-8B {AVAILABLE} --max-total-tokens 1000").limits[0]
    loose = explained(f"Qwen3-8B {AVAILABLE} --max-total-tokens 10000000").limits
    assert loose == (
        "memory: at the price of a token one page more exceeds the available bytes",
        "max_total_tokens=10,000,000 does not bind",
    )


def test_requests_limit():
    few = explained(f"Qwen3-8B {AVAILABLE} --max-running-requests 3").limits
    assert few[-1] == "running requests: max_running_requests=3"
    short = explained("Qwen3-8B --available-bytes 1MiB").limits
    assert short[-2:] == (
        "running requests: half of the rows sold",
        "request length: the 7 tokens sold, not the context length",
    )


def test_the_smallest_stage_limits():
    explanation = explained(f"Qwen3-8B {AVAILABLE} --pp 5")
    assert explanation.limits[0].endswith("of stage 4")
    assert "stage 0: one full row" in text(explanation)
    assert "on stage 4 by pools" in text(explanation)


def test_a_capped_pool_pays_its_window_first():
    line = f"gpt-oss-120b {AVAILABLE} --max-running-requests 64 --disable-radix-cache --page-size 64"
    explanation = explained(line)
    names = [one.name for one in explanation.equations if one.section == "Tokens"]
    assert names == ["rows of a request", "swa", "paid", "N"]
    assert "max_running_requests" in [knob.name for knob in explanation.knobs]


def test_the_two_ways_out_of_memory_need_opposite_advice():
    launch, run = explained(f"Qwen3-8B {GPU}").oom
    assert "RAISE" in launch and "LOWER" not in launch and "0.192 is the smallest that starts, 0.88 is enough" in launch
    assert "LOWER" in run and "RAISE" not in run and "is 9.60 GiB" in run
    answer = size_pools(asked(f"Qwen3-8B {GPU}").scenario)
    lowered = size_pools(asked(f"Qwen3-8B {GPU.replace('0.88', '0.87')}").scenario)
    assert f"for {answer.max_total_num_tokens - lowered.max_total_num_tokens:,} tokens" in run
    for words in explained(f"Qwen3-8B {AVAILABLE}").oom:
        assert "RAISE" in words or "LOWER" in words


def test_a_start_that_is_refused_is_explained(capsys):
    """Exit code 1, every term up to what is missing, and the fraction that starts."""
    out = printed("MiMo-V2-Flash --gpu-bytes 80GiB --weights-bytes 75GiB --mem-fraction-static 0.9", capsys, code=1).out
    assert "      = -3,221,225,472 bytes" in out and "sold      nothing: no_memory_left" in out
    assert "mem_fraction_static 0.938 is the smallest that starts, 0.9 is too little" in out
    assert re.search(r"mem_fraction_static +0\.9 -> 0\.938: [\d,]+ tokens\n", out)
    found = json.loads(
        printed("Qwen3-8B --gpu-bytes 1GiB --weights-bytes 1GiB --mem-fraction-static 0.9 --json", capsys, code=1).out
    )
    assert found["results"]["sold"] is None and found["results"]["refusal"]["kind"] == "no_memory_left"
    assert "no mem_fraction_static below 1 starts" in found["out_of_memory"]["at_launch"]


def test_a_fraction_that_just_starts_has_nothing_below():
    run = explained("Qwen3-8B --gpu-bytes 80GiB --weights-bytes 15GiB --mem-fraction-static 0.188").oom[1]
    assert "and then nothing starts" in run


def test_replicated_heads_are_warned_of():
    explanation = explained(f"Qwen2.5-7B Qwen2.5-1.5B {AVAILABLE} --tp 8")
    kinds = [warning.split(":")[0] for warning in explanation.warnings]
    assert kinds == ["replicated heads", "replicated heads"]
    assert "draft full layers have 2 KV heads on 8 ranks, so each is stored 4 times" in explanation.warnings[1]


def test_a_wide_draft_is_warned_of():
    warning = explained(f"Kimi-K2.5 SpecForge~kimi-k25-eagle3 {AVAILABLE}").warnings[0]
    assert "cost 32,768 bytes a token, as target layers they would cost 1,152" in warning
    (windowed,) = explained(f"MiMo-V2-Flash MiMo-V2~DFlash~(released) {AVAILABLE}").warnings
    assert "cost 20,480 bytes a token, as target layers they would cost 12,800" in windowed
    assert explained(f"{QWEN3} {AVAILABLE}").warnings == ()


def test_a_ratio_below_the_admission_floor_is_warned_of():
    """And the ratio it names is the smallest that starts."""
    line = "MiMo-V2-Flash --available-bytes 1GiB --page-size 64 --swa-full-tokens-ratio"
    (warning,) = explained(f"{line} 0.001").warnings
    assert "gives 0 SWA rows, one request needs 256; 0.0" in warning
    least = re.search(r"; ([0-9.]+) is the smallest that starts", warning)[1]
    below = number_text(Fraction(least) - Fraction(1, 1000))
    assert isinstance(explained(f"{line} {least}").answer, PoolSizes)
    assert isinstance(explained(f"{line} {below}").answer, Refusal)
    (hopeless,) = explained(f"{line} 0.5 --max-total-tokens 64").warnings
    assert hopeless.endswith("; no ratio starts")


def config(name):
    """The path of a config.json of the collection."""
    return CONFIGS / f"{name}.json"


def test_models_may_be_config_files(tmp_path):
    setup = asked(f"{config('Qwen--Qwen3-8B')} {AVAILABLE}")
    assert setup.scenario.target == asked(f"Qwen3-8B {AVAILABLE}").scenario.target
    folder = tmp_path / "draft"
    folder.mkdir()
    fields = json.loads(config("Qwen--Qwen3-8B").read_text()) | {"architectures": ["DFlashDraftModel"]}
    (folder / "config.json").write_text(json.dumps(fields | {"num_hidden_layers": 5}))
    drafted = asked(f"Qwen3-8B {folder} {AVAILABLE} --speculative-num-draft-tokens 16")
    assert drafted.scenario.speculative_algorithm == DFLASH
    assert drafted.scenario.draft.num_draft_tokens == 16
    assert explain(drafted).answer.max_total_num_tokens == 383625
    small = asked(f"Qwen3-8B {config('Qwen--Qwen3-0.6B')} {AVAILABLE} --speculative-algorithm STANDALONE")
    assert small.scenario.draft.shape == asked(f"Qwen3-0.6B {AVAILABLE}").scenario.target


def test_mtp_layers_are_read_from_the_targets_config():
    setup = asked(f"{config('deepseek-ai--DeepSeek-V3')} {AVAILABLE} --speculative-algorithm EAGLE --tp 8")
    assert setup.draft_name == "its own MTP layers" and len(setup.scenario.draft.shape.layers) == 1


def test_a_target_of_the_catalog_may_be_a_draft():
    setup = asked(f"Qwen2.5-7B Qwen2.5-1.5B {AVAILABLE} --speculative-draft-kv-cache-dtype fp8_e4m3")
    assert setup.scenario.speculative_algorithm == STANDALONE
    assert setup.scenario.draft.kv_cache_dtype == "fp8_e4m3"


REFUSALS = {
    f"qwen3-8b {AVAILABLE}": "invalid_input: TARGET='qwen3-8b'. did you mean Qwen3-8B, ",
    f"Zzzzzz {AVAILABLE}": "invalid_input: TARGET='Zzzzzz'. no name is near it",
    f"Qwen3-8B DFLASH {AVAILABLE}": "invalid_input: DRAFT='DFLASH'. drafts of Qwen3-8B: z-lab/Qwen3-8B-DFlash-b16",
    f"Phi-4 phi4-eagle {AVAILABLE}": "invalid_input: DRAFT='phi4-eagle'. did you mean ",
    f"Qwen3-8B {AVAILABLE} --speculative-algorithm EAGLE": "invalid_input: DRAFT=None. drafts of Qwen3-8B",
    f"{QWEN3} {AVAILABLE} --speculative-algorithm EAGLE": "algorithm='EAGLE'. z-lab/Qwen3-8B-DFlash-b16 runs",
    f"Qwen3-8B {config('Qwen--Qwen3-0.6B')} {AVAILABLE}": "speculative_algorithm=None. Qwen3ForCausalLM does not say",
    f"nowhere.json {AVAILABLE}": "invalid_input: config='nowhere.json'. it cannot be read as JSON",
    f"{QWEN3} {GPU}": "invalid_input: draft_weights_bytes=None. give it, or --available-bytes alone",
    "Qwen3-8B": "invalid_input: gpu_bytes=None",
    f"Qwen3-8B {GPU} {AVAILABLE}": "invalid_input: gpu_bytes=85899345920. available_bytes is given already",
    f"Qwen3-8B {GPU} --draft-weights-bytes 1": "invalid_input: draft_weights_bytes=1. there is no draft",
    "Qwen3-8B --gpu-bytes 1GiB --weights-bytes 2GiB --mem-fraction-static 0.9": "left: weights_bytes=2147483648",
    f"Qwen3-8B {AVAILABLE} --tp 3": "invalid_input: target.full.num_kv_heads=8. heads and ranks must divide",
    f"Qwen3-8B {AVAILABLE} --swa-full-tokens-ratio 2": "invalid_input: swa_full_tokens_ratio=Fraction(2, 1)",
}


@pytest.mark.parametrize("line", REFUSALS)
def test_bad_input_is_refused_by_field_and_value(line, capsys):
    found = printed(line, capsys, code=2)
    assert found.out == "" and REFUSALS[line] in found.err


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--available-bytes 60GB", "argument --available-bytes: '60GB': give bytes, or a number of KiB, MiB or GiB"),
        ("--available-bytes 1.5", "argument --available-bytes: '1.5': give bytes"),
        ("--mem-fraction-static 1/2", "argument --mem-fraction-static: '1/2': give a decimal, like 0.88"),
        ("--page-size 0", "argument --page-size: '0': give an integer of at least 1"),
        ("--kv-cache-dtype int4", "argument --kv-cache-dtype: invalid choice: 'int4'"),
    ],
)
def test_an_option_that_cannot_be_read_is_named(option, words, capsys):
    with pytest.raises(SystemExit, match="2"):
        printed(f"Qwen3-8B {option}", capsys)
    assert words in capsys.readouterr().err


def test_an_unpriced_model_says_what_it_lacks(capsys):
    assert "unsupported: DeepSeek-V4-Pro." in printed(f"DeepSeek-V4-Pro {AVAILABLE}", capsys, code=2).err
    assert "unsupported: z-lab" in printed(f"Qwen3-8B z-lab/Qwen3.5-9B-DFlash {AVAILABLE}", capsys, code=2).err


@pytest.mark.parametrize("verb", ["", "compare", "figures", "law", "log"])
def test_every_verb_has_a_help(verb, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["explain", *([verb] if verb else []), "--help"])
    except SystemExit as ended:
        code = ended.code
    assert code == 0 and f"usage: python -m spec explain {verb}" in capsys.readouterr().out
    assert main(["--help"]) == 0 and not list(tmp_path.iterdir())


def test_a_draft_may_come_after_options(capsys):
    after = printed(f"Qwen3-8B --tp 2 {QWEN3.split()[1]} {AVAILABLE}", capsys).out
    assert after == printed(f"{QWEN3} --tp 2 {AVAILABLE}", capsys).out


def test_a_hub_name_is_that_of_the_catalog(capsys):
    assert printed(f"Qwen/Qwen3-8B {AVAILABLE}", capsys).out == printed(f"Qwen3-8B {AVAILABLE}", capsys).out


def test_names_and_files_of_any_length_are_refused(capsys, tmp_path):
    assert "TARGET='aaa" in printed(f"{'a' * 5000} {AVAILABLE}", capsys, code=2).err
    for name, content in (("nested", "[" * 100_000), ("long", '{"num_hidden_layers": ' + "9" * 5000 + "}")):
        (tmp_path / f"{name}.json").write_text(content)
        assert "it cannot be read as JSON" in printed(f"{tmp_path}/{name}.json {AVAILABLE}", capsys, code=2).err
    assert "FOLDER='/proc/x'. nothing can be written" in printed("figures /proc/x", capsys, code=2).err
    assert "FOLDER='--x'. give one folder" in printed("figures --x", capsys, code=2).err


def test_without_a_word_the_command_says_how(capsys):
    assert main([]) == main(["explains"]) == 2
    assert "usage: python -m spec explain TARGET" in capsys.readouterr().err


def test_it_runs_as_a_module(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["spec", "explain", "Qwen3-8B", "--available-bytes", "1GiB"])
    monkeypatch.delitem(sys.modules, "spec.__main__")
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("spec", run_name="__main__")
    assert "7,281 tokens" in capsys.readouterr().out


def test_decimals_are_written_out():
    assert number_text(Fraction(-4915251, 2)) == "-2,457,625.5"
    assert number_text(Fraction(1, 3)) == "1/3"
    assert signed_gib(-GiB // 2) == "-0.50 GiB"
