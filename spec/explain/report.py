"""One explained budget: its equations, results and findings; as text and as JSON."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction

from spec.explain.equations import SECTIONS, equations
from spec.explain.findings import Knob, at_launch, at_run_time, knobs, limits, total_tokens, warnings
from spec.explain.results import Needed, Reserved, Segment, memory_bar, needed, reserved, token_bar
from spec.explain.rows import Equation
from spec.explain.setup import Setup
from spec.explain.wording import bytes_text, number_text, size_text
from spec.layers import pool_kind
from spec.model import PoolSizes, Refusal
from spec.pools import size_pools
from spec.validity import check_scenario


@dataclass(frozen=True)
class Explanation:
    """Everything that is said about one budget. answer: the sizes, or the refusal of a start. reserved, memory_bar:
    empty where the start is refused. oom: at launch, at run time."""

    setup: Setup
    equations: tuple[Equation, ...]
    answer: PoolSizes | Refusal
    needed: Needed
    reserved: tuple[Reserved, ...]
    memory_bar: tuple[Segment, ...]
    token_bar: tuple[Segment, ...]
    limits: tuple[str, ...]
    knobs: tuple[Knob, ...]
    oom: tuple[str, str]
    warnings: tuple[str, ...]


def explain(setup: Setup) -> Explanation:
    """One budget explained. Raises `Refused` where the scenario means nothing; a start that is refused is explained."""
    scenario = setup.scenario
    check_scenario(scenario)
    answer = size_pools(scenario)
    parts = reserved(scenario, answer) if isinstance(answer, PoolSizes) else ()
    return Explanation(
        setup=setup,
        equations=equations(setup),
        answer=answer,
        needed=needed(setup, answer),
        reserved=parts,
        memory_bar=memory_bar(setup, answer) if isinstance(answer, PoolSizes) else (),
        token_bar=token_bar(scenario),
        limits=limits(scenario, answer),
        knobs=knobs(scenario, answer),
        oom=(at_launch(scenario), at_run_time(setup, parts)),
        warnings=warnings(scenario, answer),
    )


def title(setup: Setup) -> str:
    """Who is served, how: one line."""
    scenario, deployment = setup.scenario, setup.scenario.deployment
    served = setup.target_name if setup.draft_name is None else f"{setup.target_name} with {setup.draft_name}"
    algorithm = f", {scenario.speculative_algorithm}" if scenario.speculative_algorithm else ""
    ranks = {
        "tp": deployment.tp_size,
        "dp": deployment.attn_dp_size,
        "dcp": deployment.attn_dcp_size,
        "pp": deployment.pp_size,
    }
    spread = " ".join(f"{name} {count}" for name, count in ranks.items() if count > 1 or name == "tp")
    sizes = f"page {scenario.page_size}, context {scenario.context_len:,}"
    return f"{served}{algorithm}, {pool_kind(scenario)} pools, {spread}, {sizes}"


def equation_lines(explanation: Explanation) -> Iterator[str]:
    """Each section: the name and its meaning, the formula, the numbers, the value."""
    for section in SECTIONS:
        held = [equation for equation in explanation.equations if equation.section == section]
        if held:
            yield from ("", section)
        for equation in held:
            yield f"  {equation.name}: {equation.meaning}  [{equation.source}]"
            yield f"      = {equation.formula}"
            if equation.numbers != number_text(equation.value):
                yield f"      = {equation.numbers}"
            yield f"      = {number_text(equation.value)} {equation.unit}"


def needed_line(held: Needed) -> str:
    """The first result."""
    plural = "" if held.batch == 1 else "s"
    rows = [f"{count:,} {name} rows" for name, count in (("full", held.full_rows), ("SWA", held.swa_rows)) if count]
    at_once = "" if held.at_once is None else f"; the pools hold {held.at_once:,} such at once"
    return (
        f"needed    {bytes_text(held.rank_bytes)} a rank for {held.batch:,} request{plural} of {held.context_tokens:,} "
        f"tokens, {' and '.join(rows)} each{at_once}"
    )


def reserved_lines(parts: tuple[Reserved, ...]) -> Iterator[str]:
    """The second result."""
    for part in parts:
        stage = f" on stage {part.stage}" if len(parts) > 1 else ""
        yield (
            f"reserved  {bytes_text(part.sold_bytes)} a rank{stage} by pools, of {part.available_bytes:,} available, "
            f"{part.left_bytes:,} left, and {part.spare_bytes:,} of spare pages"
        )


def sold_line(explanation: Explanation) -> str:
    """The third result."""
    answer, scenario = explanation.answer, explanation.setup.scenario
    if isinstance(answer, Refusal):
        return f"sold      nothing: {answer.kind}"
    swa = f", {answer.swa_max_total_num_tokens:,} SWA rows" if answer.swa_max_total_num_tokens else ""
    whole = total_tokens(scenario, answer)
    rows = f", {answer.max_total_num_tokens:,} rows a rank" if whole != answer.max_total_num_tokens else ""
    return (
        f"sold      {whole:,} tokens{rows}{swa}; {answer.max_running_requests:,} running requests, the longest of "
        f"{answer.max_req_len:,} tokens"
    )


def knob_result(knob: Knob) -> str:
    """The tokens a knob sells, and how many more than now."""
    change = "" if knob.change is None else f" ({knob.change:+,})"
    return f"refused, {knob.refusal}" if knob.tokens is None else f"{knob.tokens:,} tokens{change}"


def knob_lines(turned: tuple[Knob, ...]) -> Iterator[str]:
    """One line a knob: the setting, what it becomes, the tokens then."""
    width = max(len(knob.name) for knob in turned)
    for knob in turned:
        yield f"  {knob.name:<{width}}  {knob.before} -> {knob.after}: {knob_result(knob)}"


def bar_lines(name: str, segments: tuple[Segment, ...], columns: int = 40) -> Iterator[str]:
    """A bar in characters: a line a part, as long as its share."""
    if not segments:
        return
    total = Fraction(sum(segment.bytes for segment in segments))
    yield from ("", name)
    for segment in segments:
        drawn = "#" * int(segment.bytes * columns // total)
        size = size_text(int(segment.bytes)) if total >= 2**27 else f"{number_text(segment.bytes)} bytes"
        yield f"  {segment.name:<18} {size:>14}  {drawn}".rstrip()


def text(explanation: Explanation) -> str:
    """The whole explanation for a terminal."""
    lines = [title(explanation.setup), *equation_lines(explanation)]
    lines += ["", "Results", f"  {needed_line(explanation.needed)}"]
    lines += [f"  {line}" for line in reserved_lines(explanation.reserved)]
    lines += [f"  {sold_line(explanation)}"]
    lines += bar_lines("Memory of a rank", explanation.memory_bar)
    lines += bar_lines("One token", explanation.token_bar)
    lines += ["", "What limits it", *(f"  {line}" for line in explanation.limits)]
    lines += ["", "Knobs, each turned alone", *knob_lines(explanation.knobs)]
    lines += ["", "Out of memory: two cases, opposite advice", *(f"  {line}" for line in explanation.oom)]
    if explanation.warnings:
        lines += ["", "Warnings", *(f"  {line}" for line in explanation.warnings)]
    return "\n".join(lines)


def plain(value: object) -> object:
    """A value as JSON has it: a Fraction as the decimal that was written, records as objects."""
    if isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator
    if isinstance(value, Fraction):
        return number_text(value).replace(",", "")
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value


def as_json(explanation: Explanation) -> dict[str, object]:
    """The whole explanation as JSON: bytes and rows are integers, other fractions decimals in quotes."""
    answer = explanation.answer
    refused = isinstance(answer, Refusal)
    found = {
        "title": title(explanation.setup),
        "equations": [asdict(equation) for equation in explanation.equations],
        "results": {
            "needed": asdict(explanation.needed),
            "reserved": [asdict(part) | {"left_bytes": part.left_bytes} for part in explanation.reserved],
            "sold": None if refused else asdict(answer),
            "refusal": asdict(answer) if refused else None,
        },
        "memory_bar": [asdict(segment) for segment in explanation.memory_bar],
        "token_bar": [asdict(segment) for segment in explanation.token_bar],
        "limits": explanation.limits,
        "knobs": [asdict(knob) for knob in explanation.knobs],
        "out_of_memory": {"at_launch": explanation.oom[0], "at_run_time": explanation.oom[1]},
        "warnings": explanation.warnings,
    }
    return {key: plain(value) for key, value in found.items()}
