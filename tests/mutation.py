"""Mutants of functions, made and undone in memory: one operator, constant, comparison, name or term changed at a time.

A mutant is compiled from the syntax tree of its function and put in place of the function's code, so that every name
it was imported under runs it. It is told by module, function and what became what, whatever line that is on.
"""

import ast
import builtins
import inspect
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import CodeType, FunctionType, ModuleType
from typing import Any

SIBLINGS = (
    ("head_dim", "v_head_dim"),
    ("swa_head_dim", "swa_v_head_dim"),
    ("_full_per_token", "_swa_per_token"),
    ("_full_layers_num", "_swa_layers_num"),
    ("attn_tp_size", "attn_dcp_size"),
    ("full", "swa"),
    ("FULL", "SWA"),
    ("full_layers", "swa_layers"),
    ("full_rows", "swa_rows"),
    ("full_row_bytes", "swa_row_bytes"),
    ("_full_row_bytes", "_swa_row_bytes"),
    ("kv_lora_rank", "qk_rope_head_dim"),
    ("tp_size", "attn_dp_size", "attn_dcp_size", "pp_size"),
    ("num_steps", "topk", "num_draft_tokens"),
    ("numerator", "denominator"),
    ("_ratio_numerator", "_units_per_byte"),
    ("target_head_ranks", "draft_head_ranks"),
    ("target_kv_dtype", "draft_kv_dtype"),
    ("align_down", "align_up"),
    ("floor", "ceil"),
    ("max", "min"),
    ("any", "all"),
    ("free_before_load", "free_after_all_weights"),
    ("full_max_total_num_tokens", "swa_max_total_num_tokens"),
    ("paid", "page_cost"),
    ("target", "draft"),
)
"""Names that are taken for one another."""

OTHER_OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
}
OTHER_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
DROPPABLE_RIGHT = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
DROPPABLE_LEFT = (ast.Add, ast.Mult)
"""Operators whose right or left operand may be all that is dropped."""


@dataclass(frozen=True)
class Mutant:
    """One change of one function, in the line of a file where it is made now. `code` is what runs instead of the
    function's own."""

    module: str
    function: str
    change: str
    target: FunctionType
    code: CodeType
    line: int

    @property
    def key(self) -> str:
        """How a mutant is told, whatever line it is on."""
        return f"{self.module}:{self.function}: {self.change}"

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Runs instead of the function."""
        original, self.target.__code__ = self.target.__code__, self.code
        try:
            yield
        finally:
            self.target.__code__ = original


def others(name: str, known: set[str]) -> list[str]:
    """The siblings of a name among those that are known where it stands."""
    return [other for group in SIBLINGS if name in group for other in group if other != name and other in known]


def changed_operation(node: ast.BinOp) -> Iterator[ast.expr]:
    """Another operator, or one operand alone; a quotient is rounded up, too."""
    operator = type(node.op)
    for other in OTHER_OPERATORS.get(operator, ()):
        yield ast.BinOp(node.left, other(), node.right)
    if operator in DROPPABLE_RIGHT:
        yield node.left
    if operator in DROPPABLE_LEFT:
        yield node.right
    if operator is ast.FloorDiv:
        negative = ast.BinOp(ast.UnaryOp(ast.USub(), node.left), ast.FloorDiv(), node.right)
        yield ast.UnaryOp(ast.USub(), negative)


def changed_comparison(node: ast.Compare) -> Iterator[ast.expr]:
    """Each comparison moved by one, and turned round."""
    for position, operator in enumerate(node.ops):
        for other in OTHER_COMPARISONS[type(operator)]:
            yield ast.Compare(node.left, [*node.ops[:position], other(), *node.ops[position + 1 :]], node.comparators)


def changed_logic(node: ast.BoolOp) -> Iterator[ast.expr]:
    """`and` for `or`, and each operand left out."""
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for position in range(len(node.values)):
        kept = node.values[:position] + node.values[position + 1 :]
        yield kept[0] if len(kept) == 1 else ast.BoolOp(node.op, kept)


def changed_call(node: ast.Call) -> Iterator[ast.expr]:
    """Each argument of a maximum or minimum by itself."""
    if isinstance(node.func, ast.Name) and node.func.id in ("max", "min") and len(node.args) > 1:
        yield from node.args


def changed_constant(node: ast.Constant) -> Iterator[ast.expr]:
    """One more and one less; the other truth."""
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1)


def changed_expression(node: ast.AST, known: set[str], fields: set[str]) -> Iterator[ast.expr]:
    """What may stand in place of an expression."""
    if isinstance(node, ast.BinOp):
        yield from changed_operation(node)
    elif isinstance(node, ast.Compare):
        yield from changed_comparison(node)
    elif isinstance(node, ast.BoolOp):
        yield from changed_logic(node)
    elif isinstance(node, ast.Call):
        yield from changed_call(node)
    elif isinstance(node, ast.Constant):
        yield from changed_constant(node)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield from (ast.Name(other, ast.Load()) for other in others(node.id, known))
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        yield from (ast.Attribute(node.value, other, ast.Load()) for other in others(node.attr, fields))


def changed_statement(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in place of a statement or a clause: the other branch, another operator."""
    if isinstance(node, ast.If):
        yield ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
    elif isinstance(node, ast.AugAssign):
        for other in OTHER_OPERATORS.get(type(node.op), ()):
            yield ast.AugAssign(node.target, other(), node.value)
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield ast.comprehension(node.target, node.iter, [], node.is_async)


def places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Every node below another one, with where it hangs: its parent, the field, the position in it. Annotations are
    not looked at."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "args") and isinstance(
            node, ast.FunctionDef | ast.AnnAssign
        ):
            continue
        children = value if isinstance(value, list) else [value]
        for position, child in enumerate(children):
            if isinstance(child, ast.AST):
                yield node, field, position if isinstance(value, list) else None, child
                yield from places(child)


def hang(parent: ast.AST, field: str, position: int | None, child: ast.AST) -> None:
    """Puts a node in its place."""
    if position is None:
        setattr(parent, field, child)
    else:
        getattr(parent, field)[position] = child


def code_of(function: ast.FunctionDef, owner: str | None, filename: str) -> CodeType:
    """The compiled code of a function, or of a method of the class `owner`."""
    bare: ast.stmt = ast.copy_location(
        ast.FunctionDef(function.name, function.args, function.body, [], function.returns), function
    )
    statement = ast.copy_location(ast.ClassDef(owner, [], [], [bare], []), function) if owner else bare
    code = compile(ast.Module([statement], []), filename, "exec")
    for _ in range(2 if owner else 1):
        code = next(const for const in code.co_consts if isinstance(const, CodeType))
    return code


def functions_of(module: ModuleType) -> Iterator[tuple[str, ast.FunctionDef, str | None, FunctionType]]:
    """(name, syntax, class, function) of every function and method of a module."""
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node, None, inspect.unwrap(getattr(module, node.name))
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    held: Any = vars(getattr(module, node.name))[inner.name]
                    function = getattr(held, "fget", None) or getattr(held, "__func__", held)
                    yield f"{node.name}.{inner.name}", inner, node.name, function


def names_in(function: ast.FunctionDef, module: ModuleType) -> tuple[set[str], set[str]]:
    """The names that can be read in a function, and all attributes and fields that may exist."""
    local = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    local |= {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return local | set(vars(module)) | set(vars(builtins)), {name for group in SIBLINGS for name in group}


def mutants_of(module: ModuleType, names: tuple[str, ...] = ("*",)) -> Iterator[Mutant]:
    """All mutants of the functions and methods of a module that one of these globs names."""
    for name, function, owner, target in functions_of(module):
        if not any(fnmatchcase(name, glob) for glob in names):
            continue
        known, fields = names_in(function, module)
        seen: Counter[str] = Counter()
        for parent, field, position, node in list(places(function)):
            for other in [*changed_expression(node, known, fields), *changed_statement(node)]:
                change = described(node, other)
                seen[change] += 1
                hang(parent, field, position, ast.fix_missing_locations(ast.copy_location(other, node)))
                try:
                    code = code_of(function, owner, str(module.__file__))
                finally:
                    hang(parent, field, position, node)
                if is_another(code, target.__code__):
                    number = f" ({seen[change]})" if seen[change] > 1 else ""
                    line = getattr(node, "lineno", getattr(parent, "lineno", function.lineno))
                    yield Mutant(module.__name__, name, change + number, target, code, line)


def is_another(code: CodeType, original: CodeType) -> bool:
    """Whether code can stand in place of a function's own, and does something else."""
    same = [
        getattr(code, part) == getattr(original, part) for part in ("co_code", "co_consts", "co_names", "co_varnames")
    ]
    return code.co_freevars == original.co_freevars and not all(same)


def described(node: ast.AST, other: ast.AST) -> str:
    """What is changed into what, on one line."""
    if isinstance(node, ast.If):
        return f"if {ast.unparse(node.test)} -> if not"
    if isinstance(node, ast.comprehension):
        return f"{ast.unparse(node).strip()} -> all"
    return f"{ast.unparse(node)} -> {ast.unparse(other)}"
