"""One scenario as a script that needs only the engine: what the adapter hands a release, written down as plain objects.

The release is driven once while every attribute that it reads is noted. The script holds these and nothing else, calls
the release's own factory, resolver and configurator, and adds the bytes of the rows up.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import FunctionType, MethodType
from typing import Any

from impl import CannotJudge
from impl.sglang.drift import Record
from impl.sglang.records import Records, parallel_widths
from impl.sglang.sizing import Sizing
from spec.accounting import stage_buffers
from spec.layers import DEFAULT_POOL, MLA_POOL, pool_kind
from spec.model import PoolSizes, Scenario, active_draft

Reads = dict[int, set[str]]
"""By the identity of a record, the names that were read of it."""


@contextmanager
def noted_reads() -> Iterator[Reads]:
    """Notes what is read of every record meanwhile."""
    reads: Reads = {}

    def reading(self: Record, name: str) -> Any:
        if not name.startswith("__"):
            reads.setdefault(id(self), set()).add(name)
        return object.__getattribute__(self, name)

    Record.__getattribute__ = reading  # type: ignore[assignment]
    try:
        yield reads
    finally:
        del Record.__getattribute__


class Writer:
    """Values as source: a record becomes a namespace of its own with what was read of it."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.names: dict[int, str] = {}
        self.made: list[str] = []
        self.set_later: list[str] = []
        self.imports: set[str] = {"from types import MethodType, SimpleNamespace"}

    def text(self, value: Any) -> str:
        """One value. Raises `CannotJudge` for one that has no source."""
        if isinstance(value, Record):
            return self.record(value)
        if isinstance(value, Enum):
            self.imports.add(f"from {type(value).__module__} import {type(value).__name__}")
            return f"{type(value).__name__}.{value.name}"
        if isinstance(value, list | tuple):
            parts = ", ".join(map(self.text, value))
            return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' if len(value) == 1 else ''})"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self.text(held)}" for key, held in value.items()) + "}"
        if type(value).__module__ == "torch":
            self.imports.add("import torch")
            return str(value)
        if value is None or isinstance(value, bool | int | float | str):
            return repr(value)
        raise CannotJudge(f"{value!r} cannot be written into a script")

    def record(self, record: Record) -> str:
        """The name of a record's namespace, which is written where it was not yet."""
        if id(record) not in self.names:
            name = str(record.__dict__["_record_name"]).replace(".", "_").replace(" ", "_")
            self.names[id(record)] = name
            held = record.__dict__
            read = [one for one in held if one in self.reads.get(id(record), ()) and not one.startswith("_record")]
            plain = {one: held[one] for one in read if one != "_lacks" and not callable(held[one])}
            fields = "".join(f"\n    {one}={self.text(value)}," for one, value in plain.items())
            self.made.append(f"{name} = SimpleNamespace({fields}\n)" if fields else f"{name} = SimpleNamespace()")
            for one in read:
                if callable(held[one]) and one not in plain:
                    self.set_later.append(f"{name}.{one} = {self.function(held[one], name)}")
        return self.names[id(record)]

    def function(self, function: Callable[..., Any], owner: str) -> str:
        """A method of the release bound to a namespace, or what a function of the adapter returns."""
        if isinstance(function, MethodType) and function.__module__.startswith("sglang."):
            owning_class, _, method = function.__qualname__.rpartition(".")
            self.imports.add(f"from {function.__module__} import {owning_class}")
            return f"MethodType({owning_class}.{method}, {owner})"
        if isinstance(function, FunctionType) and not function.__code__.co_argcount:
            return f"lambda: {self.text(function())}"
        raise CannotJudge(f"{function!r} cannot be written into a script")


def call_text(function: str, arguments: dict[str, Any], writer: Writer) -> str:
    """A call with keywords."""
    return f"{function}({', '.join(f'{name}={writer.text(value)}' for name, value in arguments.items())})"


def context_lines(records: Records, scenario: Scenario, stage: int, writer: Writer) -> list[str]:
    """The process-wide configuration and topology, by the release's own overrides; before there were any, a function
    that is replaced."""
    widths = parallel_widths(scenario, stage)
    if not records.release.takes_configurator:
        return [f"pool_configurator.get_attention_tp_size = lambda: {widths['attn_tp_size']}"]
    writer.imports.add("from sglang.srt import runtime_context")
    lines = ["runtime_context.get_context().override_server_args().install()", "overrides = ExitStack()"]
    scopes = {"runtime_context.get_parallel()": widths}
    leaves = records.leaves(scenario)
    for namespace in records.release.namespaces:
        for name, value in leaves[namespace].items():
            group, _, leaf = name.rpartition(".")
            scopes.setdefault(f"runtime_context.get_{namespace}(){'.' * bool(group)}{group}", {})[leaf] = value
    for scope, values in scopes.items():
        lines.append(f"overrides.enter_context({call_text(f'{scope}.override', values, writer)})")
    return lines


def resolver_lines(records: Records, scenario: Scenario, writer: Writer) -> list[str]:
    """The release's own price of the draft, put where its configurator looks for it."""
    draft = active_draft(scenario)
    if draft is None or records.resolver is None or not records.prices_by_own_geometry(scenario):
        return []
    more = {"server_args": records.args, "attn_tp_size": records.draft_width(scenario)}
    arguments = {"draft_model_config": records.draft.model, "draft_num_layers": len(draft.shape.layers)}
    arguments |= {name: more[name] for name in records.release.draft_resolver_takes}
    writer.imports.add(f"from {records.resolver.__module__} import {records.resolver.__name__}")
    holder = records.aux if records.release.draft_bytes_on == "spec_aux_config" else records.x
    call = call_text(records.resolver.__name__, arguments, writer)
    return [f"{writer.text(holder)}.dflash_draft_cell_size_per_token = {call}"]


def bytes_lines(scenario: Scenario, stage: int) -> list[str]:
    """The bytes of the rows sold, each buffer by its bytes a row."""
    window = pool_kind(scenario) not in (DEFAULT_POOL, MLA_POOL)
    rows = {
        "full": "sizes.full_max_total_num_tokens" if window else "sizes.max_total_num_tokens",
        "swa": "sizes.swa_max_total_num_tokens",
        "tokens": "sizes.max_total_num_tokens",
    }
    units = {"full": PoolSizes(0, 8, 0, 1, 1), "swa": PoolSizes(0, 0, 8, 1, 1), "tokens": PoolSizes(8, 0, 0, 1, 1)}
    lines = ["allocated = 0"]
    for pool, unit in units.items():
        for owner in ("target", "draft"):
            held = sum(buffer.sold_bytes for buffer in stage_buffers(scenario, unit, stage) if buffer.owner == owner)
            if held:
                lines.append(f"allocated += {rows[pool]} * {held} // 8  # rows of the {owner}, {held // 8} bytes each")
    return lines


def script(sizing: Sizing, scenario: Scenario, stage: int, title: str) -> str:
    """The script for one rank of a stage. Raises `CannotJudge` where the answer takes more than one configurator: a
    user cap, several stages."""
    if scenario.max_total_tokens is not None or scenario.deployment.pp_size > 1:
        raise CannotJudge("the smallest of a user cap and of several stages is taken after the configurator")
    records = sizing.records
    draft = active_draft(scenario)
    sizing.world.envs.SGLANG_SWA_EVICTION_INTERVAL.set(scenario.swa_eviction_interval)
    with noted_reads() as reads:
        records.set(scenario)
        sizing.world.enter(records.leaves(scenario), parallel_widths(scenario, stage))
        records.stage(scenario, stage)
        if draft is not None:
            records.hand_over_draft_bytes(records.resolved_draft_bytes(scenario, draft)[0])
        reads.clear()
        if draft is not None:
            records.resolved_draft_bytes(scenario, draft)
        available = sizing.available(scenario, stage)
        configurator = sizing.world.configurators.create_memory_pool_configurator(records.x)
        configurator.calculate_pool_sizes(available, scenario.page_size)
    writer = Writer(reads)
    resolved = resolver_lines(records, scenario, writer)
    x = writer.text(records.x)
    context = context_lines(records, scenario, stage, writer)
    writer.imports |= {"from sglang.srt.environ import envs", "from sglang.srt.model_executor import pool_configurator"}
    if any("ExitStack" in line for line in context):
        writer.imports.add("from contextlib import ExitStack")
    fp4 = hasattr(sizing.world.configurators, "is_float4_e2m1fn_x2") and "float4" in str(records.x.kv_cache_dtype)
    patch = ["pool_configurator.is_float4_e2m1fn_x2 = lambda dtype: dtype == torch.float4_e2m1fn_x2"] if fp4 else []
    return "\n".join(
        [
            f'"""{title}\n\nSGLang {sizing.world.version}, no GPU: prints what is sold; exits 1 if it does not fit."""',
            "",
            *sorted(writer.imports, key=lambda line: (" sglang" in line, line)),
            "",
            f"AVAILABLE_BYTES, PAGE_SIZE = {available}, {scenario.page_size}",
            "",
            f"envs.SGLANG_SWA_EVICTION_INTERVAL.set({scenario.swa_eviction_interval})",
            *patch,
            *writer.made,
            *writer.set_later,
            *context,
            *resolved,
            f"configurator = pool_configurator.create_memory_pool_configurator({x})",
            "sizes = configurator.calculate_pool_sizes(AVAILABLE_BYTES, PAGE_SIZE)",
            *bytes_lines(scenario, stage),
            'print(type(configurator).__name__, "sells", sizes.max_total_num_tokens, "tokens")',
            'print("allocated", allocated, "of", AVAILABLE_BYTES, "bytes, over by", allocated - AVAILABLE_BYTES)',
            "raise SystemExit(allocated > AVAILABLE_BYTES)",
            "",
        ]
    )
