"""What was asked: the command line of `python -m spec explain TARGET [DRAFT]` -> a scenario, and what is around it.

Options carry SGLang's names where SGLang has them.
"""

import argparse
from dataclasses import dataclass
from fractions import Fraction

from spec.dtypes import ATTENTION_BACKENDS, KV_CACHE_DTYPES
from spec.explain.models import DraftSwitches, NamedDraft, find_draft, find_target
from spec.explain.wording import byte_count, decimal, positive_count
from spec.model import ALGORITHMS, Deployment, MemoryFigures, Scenario, refuse

DEFAULT_CONTEXT = 4096
"""Tokens of the context that needs are worked out for, where none is given."""


@dataclass(frozen=True)
class Setup:
    """One question and what is known around it.

    target_name, draft_name: as given; None without a draft. weight_bytes, draft_weight_bytes: on one rank; None where
    the available bytes were given instead. batch: requests that run at once, of `scenario.context_len` tokens each.
    """

    target_name: str
    draft_name: str | None
    scenario: Scenario
    weight_bytes: int | None
    draft_weight_bytes: int | None
    batch: int

    @property
    def gpu_bytes(self) -> int | None:
        """Bytes of a rank that are free before any weight, None where they were not given."""
        budget = self.scenario.budget
        return budget.free_before_load[0][0] if isinstance(budget, MemoryFigures) else None


def parser(program: str) -> argparse.ArgumentParser:
    """The options. Each group is one line of thought."""
    options = argparse.ArgumentParser(
        prog=program,
        usage=f"{program} [options]",
        description="Every term of one KV-cache budget.",
        allow_abbrev=False,
    )
    options.add_argument("target", metavar="TARGET", help="a catalog name, or the path of a config.json")
    options.add_argument("draft", metavar="DRAFT", nargs="?", help="the same for the draft")
    memory = options.add_argument_group("memory of one rank: bytes, or a number of GiB")
    memory.add_argument("--available-bytes", type=byte_count, help="what is left for KV, in place of the following")
    memory.add_argument("--gpu-bytes", type=byte_count, help="free before any weight is loaded")
    memory.add_argument("--weights-bytes", type=byte_count, help="the target's weights on one rank")
    memory.add_argument("--draft-weights-bytes", type=byte_count, help="the draft's weights on one rank")
    memory.add_argument("--mem-fraction-static", type=decimal)
    ranks = options.add_argument_group("ranks")
    ranks.add_argument("--tp", "--tp-size", type=positive_count, default=1, help="this and the next three: default 1")
    ranks.add_argument("--dp", "--dp-size", type=positive_count, default=1, help="replicas under DP attention")
    ranks.add_argument(
        "--dcp", "--dcp-size", type=positive_count, default=1, help="ranks that split a sequence's tokens"
    )
    ranks.add_argument("--pp", "--pp-size", type=positive_count, default=1)
    rows = options.add_argument_group("rows")
    rows.add_argument("--kv-cache-dtype", choices=KV_CACHE_DTYPES, default="auto", help="default auto")
    rows.add_argument("--page-size", type=positive_count, default=1, help="default 1")
    rows.add_argument(
        "--attention-backend", choices=ATTENTION_BACKENDS, default="flashinfer", help="default flashinfer"
    )
    rows.add_argument("--swa-full-tokens-ratio", type=decimal, default=Fraction(4, 5), help="default 0.8")
    rows.add_argument("--disable-hybrid-swa-memory", action="store_true", help="store SWA layers at full length")
    draft = options.add_argument_group("draft")
    draft.add_argument("--speculative-algorithm", choices=ALGORITHMS)
    draft.add_argument("--speculative-num-steps", type=positive_count)
    draft.add_argument("--speculative-eagle-topk", type=positive_count)
    draft.add_argument("--speculative-num-draft-tokens", type=positive_count)
    draft.add_argument("--speculative-draft-kv-cache-dtype", choices=KV_CACHE_DTYPES)
    draft.add_argument("--speculative-draft-attention-backend", choices=ATTENTION_BACKENDS)
    limits = options.add_argument_group("limits")
    limits.add_argument(
        "--context-length",
        type=positive_count,
        default=DEFAULT_CONTEXT,
        help=f"tokens of a request (default {DEFAULT_CONTEXT}, whatever the model's)",
    )
    limits.add_argument("--batch", type=positive_count, default=1, help="requests of that context at once")
    limits.add_argument("--max-total-tokens", type=positive_count)
    limits.add_argument("--max-running-requests", type=positive_count)
    limits.add_argument("--chunked-prefill-size", type=int, default=8192, help="default 8192")
    limits.add_argument("--disable-radix-cache", action="store_true")
    limits.add_argument("--disable-overlap-schedule", action="store_true")
    return options


def missing(field: str, value: object, advice: str) -> Exception:
    """The refusal for bytes that were not given, or given twice."""
    return refuse("invalid_input", field, value, advice)


def check_memory(asked: argparse.Namespace, has_draft: bool) -> None:
    """Available bytes alone, or GPU, weights and fraction together."""
    parts = ("gpu_bytes", "weights_bytes", "draft_weights_bytes", "mem_fraction_static")
    if asked.available_bytes is not None:
        for field in parts:
            if getattr(asked, field) is not None:
                raise missing(field, getattr(asked, field), "available_bytes is given already")
        return
    for field in parts:
        if getattr(asked, field) is None and (field != "draft_weights_bytes" or has_draft):
            raise missing(field, None, "give it, or --available-bytes alone")
    if asked.draft_weights_bytes is not None and not has_draft:
        raise missing("draft_weights_bytes", asked.draft_weights_bytes, "there is no draft")


def budget_of(asked: argparse.Namespace) -> tuple[int, ...] | MemoryFigures:
    """The same bytes on every stage. Weights larger than the GPU leave nothing free."""
    given: int | None = asked.available_bytes
    if given is not None:
        return (given,) * int(asked.pp)
    left: int = asked.gpu_bytes - asked.weights_bytes - (asked.draft_weights_bytes or 0)
    if left < 0:
        raise refuse("no_memory_left", "weights_bytes", asked.weights_bytes, "the weights are larger than the GPU")
    return MemoryFigures(((asked.gpu_bytes,),) * asked.pp, ((left,),) * asked.pp, asked.mem_fraction_static)


def setup_of(asked: argparse.Namespace) -> Setup:
    """The parsed options as one question. Refuses what does not fit together; `explain` checks the scenario."""
    target = find_target(asked.target)
    switches = DraftSwitches(
        algorithm=asked.speculative_algorithm,
        num_steps=asked.speculative_num_steps,
        topk=asked.speculative_eagle_topk,
        num_draft_tokens=asked.speculative_num_draft_tokens,
        kv_cache_dtype=asked.speculative_draft_kv_cache_dtype,
        attention_backend=asked.speculative_draft_attention_backend,
    )
    found: NamedDraft | None = find_draft(asked.draft, target, switches)
    check_memory(asked, has_draft=found is not None)
    scenario = Scenario(
        target=target.shape,
        budget=budget_of(asked),
        draft=None if found is None else found.draft,
        speculative_algorithm=None if found is None else found.algorithm,
        deployment=Deployment(asked.tp, asked.dp, asked.dcp, asked.pp),
        page_size=asked.page_size,
        kv_cache_dtype=asked.kv_cache_dtype,
        attention_backend=asked.attention_backend,
        window_pools=target.window_pools and not asked.disable_hybrid_swa_memory,
        swa_full_tokens_ratio=asked.swa_full_tokens_ratio,
        context_len=asked.context_length,
        max_total_tokens=asked.max_total_tokens,
        user_max_running_requests=asked.max_running_requests,
        chunked_prefill_size=asked.chunked_prefill_size,
        disable_radix_cache=asked.disable_radix_cache,
        disable_overlap_schedule=asked.disable_overlap_schedule,
    )
    name = None if found is None else found.name
    return Setup(target.name, name, scenario, asked.weights_bytes, asked.draft_weights_bytes, asked.batch)
