"""`explain log`: the logs of real servers add up, and a number that is off is found."""

import io
import re

import pytest

from spec.__main__ import main
from spec.explain.log import judged
from spec.explain.log_lines import lines_of, options_of, server_args
from spec.explain.log_state import ADDS_UP, OPEN, printed
from spec.model import SWA, AttentionShape, Heads, Scenario
from spec.units import GiB
from tests.startup_logs import DATAPOINTS
from tests.test_explain_command import printed as run

FORMER = {"auto": "auto", "bf16": "bf16", "fp16": "auto", "fp8_e4m3": "fp8_e4m3"}
"""The KV dtype of a datapoint as an option: compute dtypes come with `auto`."""

SERVERS = [
    entry
    for entry in DATAPOINTS
    if "target" in entry and "disputed" not in entry and entry["printed"] and entry["kv_dtype"] in FORMER
]


def pool_lines(entry):
    """The lines a server of the collection printed: its K and V in one line each pool, or both pools of a window model
    in one number."""
    lines = {}
    for size in entry["printed"]:
        lines.setdefault((size["tokens"]["full"], size["pool"]), []).append(size)
    for (full, pool), sizes in lines.items():
        swa = sizes[0]["tokens"].get("swa", 0)
        if pool == "full+swa":
            yield f"SWAKVPool mem usage: {sizes[0]['printed']} GB, swa size: {swa}, full size: {full}"
            continue
        rows = swa if pool == "swa" else full
        parts = ", ".join(f"{size['part']} size: {size['printed']} GB" for size in sizes)
        if [size["part"] for size in sizes] in (["K", "V"], ["KV"]):
            yield f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {rows}, {parts}"


def log_of(entry):
    """Its start-up as a log; each run of several on a rank of its own."""
    lines = []
    if "budget" in entry:
        budget = entry["budget"]
        lines.append(f"Load weight begin. avail mem={budget['free_before_load']} GB")
        lines.append(f"Load weight end. type=Model, avail mem={budget['free_after_all_weights']} GB")
        lines.append(
            f"max_total_num_tokens={budget['tokens']}, chunked_prefill_size=8192, max_running_requests=4096, "
            "context_len=8192"
        )
    runs = len({size["tokens"]["full"] for size in entry["printed"]})
    for number, line in enumerate(pool_lines(entry)):
        lines.append(f"[2025-08-31 10:00:00 TP{number}] {line}" if runs > 1 else line)
    return "\n".join(lines)


def words_of(entry):
    """The deployment on the command line."""
    words = [entry["target"]] + ([entry["draft"]] if "draft" in entry else [])
    words += ["--tp", str(entry["tp_size"]), "--page-size", str(entry["page_size"])]
    words += ["--kv-cache-dtype", FORMER[entry["kv_dtype"]]]
    if "budget" in entry:
        words += ["--mem-fraction-static", entry["budget"]["mem_fraction_static"]]
    return " ".join(word.replace(" ", "~") for word in words)


def read(tmp_path, text, words, capsys, code=0):
    """What `explain log` prints of a log."""
    (tmp_path / "server.log").write_text(text, encoding="utf-8")
    return run(f"log {tmp_path}/server.log {words}", capsys, code=code)


@pytest.mark.parametrize("entry", SERVERS, ids=[entry["id"] for entry in SERVERS])
def test_the_log_of_a_real_server_adds_up(entry, tmp_path, capsys):
    out = read(tmp_path, log_of(entry), words_of(entry), capsys).out
    assert ", 0 do not, " in out and "\n0 add up" not in out


def test_most_servers_of_the_collection_are_read():
    assert len(SERVERS) >= 24
    assert sum(len(list(pool_lines(entry))) for entry in SERVERS) >= 28


@pytest.mark.parametrize("entry", SERVERS[:8], ids=[entry["id"] for entry in SERVERS[:8]])
def test_a_digit_that_is_off_is_found(entry, tmp_path, capsys):
    """A hundredth of a GiB more in the first size, and the line that prints it does not add up."""
    log = log_of(entry)
    size = re.search(r"size: (\d+\.\d\d) GB", log)[1]
    wrong = f"{float(size) + 0.01:.2f}"
    out = read(tmp_path, log.replace(f"size: {size}", f"size: {wrong}", 1), words_of(entry), capsys, code=1).out
    assert "DOES NOT ADD UP" in out and "the first that does not add up is line" in out


LLAMA = """\
[2025-02-05 09:00:01] server_args=ServerArgs(model_path='Llama-3.1-8B', tp_size=1, mem_fraction_static=0.88, \
kv_cache_dtype='auto', page_size=1, attention_backend='flashinfer', speculative_algorithm=None)
[2025-02-05 09:00:05 TP0] Load weight begin. avail mem=78.81 GB
[2025-02-05 09:00:15 TP0] Load weight end. type=LlamaForCausalLM, avail mem=63.70 GB, mem usage=15.11 GB.
[2025-02-05 09:00:16 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 444372, K size: 27.12 GB, \
V size: 27.12 GB
[2025-02-05 09:00:16 TP0] Memory pool end. avail mem=8.80 GB
[2025-02-05 09:00:30 TP0] max_total_num_tokens=444372, chunked_prefill_size=8192, max_prefill_tokens=16384, \
max_running_requests=4096, context_len=8192, available_gpu_mem=8.42 GB
"""


def test_a_log_that_names_its_deployment_needs_no_option(tmp_path, capsys):
    out = read(tmp_path, LLAMA, "", capsys).out
    assert "adds up: target full pool, 444,372 + 1 rows: K 27.12 GiB, V 27.12 GiB" in out
    assert "adds up: tokens: the readings buy 444,311 to 444,402; running requests 4,096" in out
    assert "leave 9.46 at most; 0.66 GiB more is gone, of which the request table takes 0.13" in out
    assert out.endswith("3 add up, 0 do not, 1 read, 1 not derived\n")


OFF = {
    "mem usage=15.11": ("mem usage=15.31", "free after its weights: 63.70 GiB; its weights take 15.11 GiB"),
    "max_total_num_tokens=444372": ("max_total_num_tokens=455000", "10,598 too many are sold"),
    "max_total_num_tokens=444372,": ("max_total_num_tokens=404311,", "40,000 too few are sold"),
    "Memory pool end. avail mem=8.80": ("Memory pool end. avail mem=9.80", "0.34 too much is left"),
    "max_running_requests=4096": ("max_running_requests=4097", "running requests should be 4,096"),
    "mem_fraction_static=0.88": ("mem_fraction_static=0.1", "this start would be refused, no_memory_left"),
    "kv_cache_dtype='auto'": ("kv_cache_dtype='fp8_e4m3'", "the log stores bf16, this set-up fp8_e4m3"),
}


@pytest.mark.parametrize("right", OFF)
def test_the_line_that_does_not_add_up_is_named(right, tmp_path, capsys):
    wrong, words = OFF[right]
    out = read(tmp_path, LLAMA.replace(right, wrong), "", capsys, code=1).out
    assert words in out
    assert re.search(r"the first that does not add up is line [3-7]\n$", out)


def test_the_readers_words_replace_those_of_the_log(tmp_path, capsys):
    out = read(tmp_path, LLAMA, "Qwen3-8B --mem-fraction-static 0.9", capsys, code=1).out
    assert "the target full pool would be 444,372 + 1 rows: K 30.51 GiB, V 30.51 GiB" in out


def test_without_the_fraction_tokens_are_not_derived(tmp_path, capsys):
    out = read(tmp_path, LLAMA.replace("mem_fraction_static=0.88, ", ""), "", capsys).out
    assert "not derived: tokens: both readings of the weights and mem_fraction_static are needed" in out


STAGE = """\
[2025-02-05 09:00:05 PP{stage}] Load weight begin. avail mem=70.00 GB
[2025-02-05 09:00:15 PP{stage}] Load weight end. type=LlamaForCausalLM, avail mem={after} GB
[2025-02-05 09:00:16 PP{stage}] KV Cache is allocated. dtype: torch.bfloat16, #tokens: {tokens}, \
K size: {size} GB, V size: {size} GB
[2025-02-05 09:00:30 PP{stage}] max_total_num_tokens={tokens}, chunked_prefill_size=8192, \
max_running_requests=4096, context_len=8192
"""
TWO_STAGES = "Llama-3.1-8B --pp 2 --mem-fraction-static 0.88"
LEAST = 62.10 - 70 * 0.12
"""GiB for the KV of 16 layers of 8 heads of 128 + 128 in bf16, on the rank that has least."""
TOKENS = int(LEAST * GiB / (16 * 8 * 256 * 2))


def two_stages(tokens=TOKENS):
    """The log of a server of two stages, the second of which has less free."""
    size = f"{(tokens + 1) * 16 * 8 * 128 * 2 / GiB:.2f}"
    texts = [
        STAGE.format(stage=stage, after=after, tokens=tokens, size=size)
        for stage, after in enumerate(("62.40", "62.10"))
    ]
    return "".join(texts)


def test_stages_are_read_each_with_its_layers_and_all_go_by_the_least(tmp_path, capsys):
    out = read(tmp_path, two_stages(), TWO_STAGES, capsys).out
    assert out.count(f"adds up: target full pool, {TOKENS:,} + 1 rows: K 26.85 GiB, V 26.85 GiB") == 2
    assert out.endswith("4 add up, 0 do not, 4 read, 0 not derived\n")
    most = int((LEAST + 0.005 * 1.12) * GiB / (16 * 8 * 256 * 2))
    words = f"to {most:,}, {TOKENS + 5000 - most:,} too many are sold"
    assert words in read(tmp_path, two_stages(TOKENS + 5000), TWO_STAGES, capsys, code=1).out


def test_a_rank_that_prints_nothing_may_have_less(tmp_path, capsys):
    first = "\n".join(line for line in two_stages().splitlines() if "PP0" in line)
    out = read(tmp_path, first, TWO_STAGES, capsys).out
    assert "not derived: tokens: the readings of 1 of 2 ranks buy 884," in out and "another rank may have less" in out


def test_a_stage_is_that_of_the_line(tmp_path, capsys):
    """A log of one process names no rank; one of another server names a stage that the set-up does not have."""
    out = read(tmp_path, two_stages().replace("PP0", "TP0"), TWO_STAGES, capsys).out
    assert "not derived: there are several stages, and the line does not say which one it is of, as PP0 does" in out
    one = TWO_STAGES.replace("--pp 2", "--pp 1")
    assert "tp * pp=1. the log has 2 ranks: PP0, PP1" in read(tmp_path, two_stages(), one, capsys, code=2).err
    last = two_stages().splitlines()[-1]
    assert "invalid_input: pp=1. line 1 is of stage 1, counted from 0" in read(tmp_path, last, one, capsys, code=2).err


POOL = "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 444372, K size: 27.12 GB, V size: 27.12 GB"
FEWER = "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 400000, K size: 24.41 GB, V size: 24.41 GB"
SAID = {
    "rows that are not those sold": (POOL, FEWER, "line 6 sells 444,372 tokens, for which it should have 444,372 rows"),
    "no whole pages": ("page_size=1,", "page_size=64,", "tokens: 444,372 are no whole pages of 64"),
    "a pool of no whole pages": ("page_size=1,", "page_size=16,", "444,372 rows are no whole pages of 16"),
    "a rank sells something else": (
        "available_gpu_mem=8.42 GB",
        "available_gpu_mem=8.42 GB\n[2025 TP0] max_total_num_tokens=1, max_running_requests=1, context_len=1",
        "every rank sells the same; line 6 sells 444,372 tokens",
    ),
    "nothing is sold": ("max_total_num_tokens=444372", "max_total_num_tokens=0", "no token is sold"),
    "no context": ("context_len=8192", "context_len=0", "a context of 0 tokens holds no request"),
    "all windows": (POOL, "Use sliding window memory pool (all SWA). swa_layer_tokens=5", "set-up has default pools"),
    "more is left than can be": ("end. avail mem=8.80", "end. avail mem=9.80", "0.34 too much is left"),
}


@pytest.mark.parametrize("name", SAID)
def test_lines_are_held_against_each_other(name, tmp_path, capsys):
    right, wrong, words = SAID[name]
    out = read(tmp_path, LLAMA.replace(right, wrong), "", capsys, code=1).out
    assert f"DOES NOT ADD UP: {words}" in out or re.search(f"DOES NOT ADD UP: .*{re.escape(words)}", out)


NOT_SAID = {
    "an address is no memory": (POOL, POOL.replace("is allocated", "VA upper bound"), "an upper bound of addresses"),
    "nobody says what is sold": ("max_total_num_tokens=", "tokens=", "GiB more is gone"),
    "the highest reading alone buys a token": (
        "avail mem=63.70 GB, mem usage=15.11 GB",
        "avail mem=9.46 GB, mem usage=69.35 GB",
        "tokens: the readings buy 0 to ",
    ),
    "words that are not known": (POOL, "Draft KV cache allocated: 3 GB", "in words that are not known here"),
    "a pool is not known": (POOL, "KV Cache moved", "a reading of free memory, and every pool allocated since"),
    "a draft without a line": (
        "speculative_algorithm=None",
        "speculative_draft_model_path='SpecForge llama3-8B-eagle3'",
        "no line speaks of the draft pool",
    ),
    "an algorithm of no budget": (
        "speculative_algorithm=None",
        "speculative_algorithm='NGRAM'",
        "not understood in server_args: speculative_algorithm='NGRAM'",
    ),
}


@pytest.mark.parametrize("name", NOT_SAID)
def test_what_cannot_be_derived_is_told(name, tmp_path, capsys):
    right, other, words = NOT_SAID[name]
    (tmp_path / "server.log").write_text(LLAMA.replace(right, other), encoding="utf-8")
    main(["explain", "log", f"{tmp_path}/server.log"])
    assert words in capsys.readouterr().out


def test_window_lines_are_held_against_what_is_sold(tmp_path, capsys):
    """gpt-oss-20b as it should be, then with an SWA pool of other rows, and full rows that are not sold."""

    def pool(rows):
        size = printed((rows + 64) * 12 * 8 * 64 * 2)
        return f"#tokens: {rows}, K size: {size} GB, V size: {size} GB"

    words = "gpt-oss-20b --page-size 64"
    log = (
        "Use sliding window memory pool. full_layer_tokens=6400, swa_layer_tokens=5120\n"
        f"Full KV Cache is allocated. {pool(6400)}\n"
        f"SWA KV Cache is allocated. {pool(5120)}\n"
        "max_total_num_tokens=6400, max_running_requests=2048, context_len=131072"
    )
    out = read(tmp_path, log, words, capsys).out
    assert "adds up: target SWA pool" in out and "adds up: target full pool" in out
    shorter = log.replace(pool(5120), pool(5056))
    assert "for which it should have 5,120 rows" in read(tmp_path, shorter, words, capsys, code=1).out
    other = log.replace("full_layer_tokens=6400", "full_layer_tokens=6464")
    assert "line 4 sells 6,400 tokens" in read(tmp_path, other, words, capsys, code=1).out
    pools_alone = log.split("\n", 1)[1]
    assert "adds up: target SWA pool" in read(tmp_path, pools_alone, words, capsys).out
    assert (
        "for which it should have"
        in read(tmp_path, pools_alone.replace("6400,", "6464,", 1), words, capsys, code=1).out
    )


def test_an_all_window_pool_holds_what_is_sold():
    heads = Heads(8, 64, 64)
    scenario = Scenario(AttentionShape((SWA,) * 4, None, heads, sliding_window_size=128), (GiB,))
    size = printed(4 * 1001 * 8 * 64 * 2)
    log = (
        "Use sliding window memory pool (all SWA). swa_layer_tokens=1000\n"
        f"KV Cache is allocated. #tokens: 1000, K size: {size} GB, V size: {size} GB\n"
        "max_total_num_tokens=1000, max_running_requests=500, context_len=4096"
    )
    found = judged(list(lines_of(log)), scenario, None)
    assert [one.verdict for one in found] == [ADDS_UP, ADDS_UP, OPEN]
    other = judged(list(lines_of(log.replace("swa_layer_tokens=1000", "swa_layer_tokens=999"))), scenario, None)
    assert other[0].told == "999 SWA rows, a token each; line 3 sells 1,000 tokens"


def test_both_pools_in_one_number_are_those_of_what_is_sold(tmp_path, capsys):
    size = printed((6464 + 5184) * 12 * 8 * 64 * 2 * 2)
    line = f"SWAKVPool mem usage: {size} GB, swa size: 5120, full size: 6400"
    sold = "max_total_num_tokens={}, max_running_requests=2048, context_len=131072"
    words = "gpt-oss-20b --page-size 64"
    assert "adds up: full and SWA pool" in read(tmp_path, f"{line}\n{sold.format(6400)}", words, capsys).out
    assert "line 2 sells 6,464 tokens" in read(tmp_path, f"{line}\n{sold.format(6464)}", words, capsys, code=1).out


def test_both_pools_in_one_number_are_of_a_stage(tmp_path, capsys):
    line = "SWAKVPool mem usage: 3.18 GB, swa size: 29664, full size: 37081"
    assert "the line does not say which one it is of" in read(tmp_path, line, "gpt-oss-20b --pp 2", capsys).out


def test_a_log_names_models_as_a_hub_does(tmp_path, capsys, monkeypatch):
    log = LLAMA.replace("'Llama-3.1-8B'", "'meta-llama/Llama-3.1-8B'")
    monkeypatch.setattr("sys.stdin", io.StringIO(log))
    assert "3 add up, 0 do not" in run("log -", capsys).out
    err = read(tmp_path, LLAMA.replace("'Llama-3.1-8B'", "'org/unheard-of'"), "", capsys, code=2).err
    assert "To name them: explain log FILE TARGET [DRAFT]" in err


def test_a_pool_is_met_once(tmp_path, capsys):
    line = LLAMA.splitlines()[3]
    out = read(tmp_path, f"{line}\n{line}", "Llama-3.1-8B", capsys, code=1).out
    assert "DOES NOT ADD UP: stage 0 has no other pool than target full pool" in out


def test_window_rows_are_the_ratio(tmp_path, capsys):
    line = "Use sliding window memory pool. full_layer_tokens=1000, swa_layer_tokens={}"
    assert (
        "adds up: align_down(floor(0.8 * 1,000), 64) = 768"
        in read(tmp_path, line.format(768), "gpt-oss-20b --page-size 64", capsys).out
    )
    read(tmp_path, line.format(800), "gpt-oss-20b --page-size 64", capsys, code=1)
    assert "default pools, whose rows are no ratio" in read(tmp_path, line.format(800), "Qwen3-8B", capsys).out


def test_each_draft_runner_has_a_pool(tmp_path, capsys):
    """Inkling's eight runners, of one head geometry each."""
    line = "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 100000, K size: {0} GB, V size: {0} GB"
    size = printed(100001 * 16 * 128 * 2)
    out = read(tmp_path, "\n".join([line.format(size)] * 8), "Inkling Inkling~MTP~(built~in)", capsys).out
    assert "draft pool of runner 7" in out and out.endswith("8 add up, 0 do not, 0 read, 0 not derived\n")


def test_halves_print_to_the_even_digit():
    """As the log's own format does."""
    for count in (GiB // 8, 3 * GiB // 8, 5 * GiB // 8, GiB):
        assert printed(count) == f"{count / GiB:.2f}"


def test_options_come_from_the_servers_arguments():
    log = (
        "server_args=ServerArgs(tp_size=8, dp_size=4, pp_size=2, enable_dp_attention=True, kv_cache_dtype='bfloat16', "
        "speculative_algorithm='EAGLE3', attention_backend='wave', disable_radix_cache=True, page_size=None)"
    )
    assert " ".join(options_of(server_args(log))) == (
        "--tp-size 8 --pp-size 2 --dp 4 --disable-radix-cache --kv-cache-dtype bf16 --speculative-algorithm EAGLE"
    )
    assert server_args("nothing") == {} and options_of({}) == []


def test_ranks_are_told_apart():
    names = [line.rank for line in lines_of(LLAMA.replace("TP0]", "DP1 TP3]"))]
    assert names == ["DP1 TP3"] * 5


BAD = {
    "": "invalid_input: TARGET='org/Meta-Llama-3.1-8B-Instruct'. did you mean Llama-3.1-8B",
    "Qwen9": "invalid_input: TARGET='Qwen9'. ",
    "Llama-3.1-8B --tp 3": "invalid_input: target.full.num_kv_heads=8",
}


@pytest.mark.parametrize("words", BAD)
def test_what_cannot_be_read_is_named(words, tmp_path, capsys):
    log = LLAMA.replace("'Llama-3.1-8B'", "'org/Meta-Llama-3.1-8B-Instruct'")
    assert BAD[words] in read(tmp_path, log, words, capsys, code=2).err


def test_a_log_of_something_else_is_refused(tmp_path, capsys):
    assert "invalid_input: log=None" in read(tmp_path, "hello", "Qwen3-8B", capsys, code=2).err
    assert "FILE='nowhere.log'. it cannot be read" in run("log nowhere.log Qwen3-8B", capsys, code=2).err
    assert "FILE=None" in run("log", capsys, code=2).err
