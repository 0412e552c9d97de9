"""What a release has that a budget could be wrong about, read from its source: nothing is imported, nothing typed in.

Pool configurators, classes of KV pools, speculative algorithms and KV dtypes. `impl/sglang/coverage.py` says of each
whether it is judged.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from impl import WrongAdapter

CONFIGURATORS = "srt/model_executor/pool_configurator.py"
FACTORY = "create_memory_pool_configurator"
CONFIGURATOR_BASE = "MemoryPoolConfigurator"
POOL_FOLDERS = ("srt/mem_cache", "srt/hardware_backend")
POOL_BASE = "KVCache"
ALGORITHMS = "srt/speculative/spec_info.py"
ALGORITHM_ENUM = "SpeculativeAlgorithm"
ARGUMENTS = ("srt/server_args.py", "srt/arg_groups/fields")
DTYPE_FIELD = "kv_cache_dtype"
"""Where each kind stands below `sglang/`, and what it is called there."""


class NoInventory(WrongAdapter):
    """A release whose source does not read as that of the releases that are known: exit code 4."""


def trees(root: Path, *places: str) -> Iterator[ast.Module]:
    """The syntax of a file, or of every file below a folder, of those that are there."""
    for place in places:
        found = root / place
        for path in sorted(found.rglob("*.py")) if found.is_dir() else [found] if found.is_file() else []:
            yield ast.parse(path.read_text(encoding="utf-8"))


def name_of(node: ast.expr) -> str:
    """The last part of a name: `pools.MHATokenToKVPool` is `MHATokenToKVPool`."""
    if isinstance(node, ast.Subscript):
        return name_of(node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def derived(modules: list[ast.Module], base: str) -> set[str]:
    """Every class that comes from a base, however far."""
    classes = [node for module in modules for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    found = {base}
    while more := {one.name for one in classes if found & set(map(name_of, one.bases))} - found:
        found |= more
    return found - {base}


def made_by(modules: list[ast.Module], factory: str) -> set[str]:
    """The classes a factory makes: whatever it calls that ends like a configurator."""
    functions = [
        node
        for module in modules
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and node.name == factory
    ]
    calls = [node for function in functions for node in ast.walk(function) if isinstance(node, ast.Call)]
    return {name for call in calls if (name := name_of(call.func)).endswith("Configurator")}


def members(modules: list[ast.Module], enum: str) -> set[str]:
    """The members of an enumeration."""
    return {
        target.id
        for module in modules
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef) and node.name == enum
        for line in node.body
        if isinstance(line, ast.Assign)
        for target in line.targets
        if isinstance(target, ast.Name)
    }


def choices(modules: list[ast.Module], field: str) -> set[str]:
    """What an argument may be: the list its field gives as `choices`."""
    return {
        element.value
        for module in modules
        for node in ast.walk(module)
        if isinstance(node, ast.AnnAssign) and name_of(node.target) == field
        for keyword in ast.walk(node.annotation)
        if isinstance(keyword, ast.keyword) and keyword.arg == "choices"
        for element in ast.walk(keyword.value)
        if isinstance(element, ast.Constant) and isinstance(element.value, str)
    }


def inventory(root: Path) -> dict[str, frozenset[str]]:
    """Kind -> names, of the `sglang/` folder at `root`. Raises `NoInventory` where a kind is not to be found: its place
    has moved."""
    configurators = list(trees(root, CONFIGURATORS))
    found = {
        "configurator": derived(configurators, CONFIGURATOR_BASE) | made_by(configurators, FACTORY),
        "pool": derived(list(trees(root, *POOL_FOLDERS)), POOL_BASE),
        "algorithm": members(list(trees(root, ALGORITHMS)), ALGORITHM_ENUM),
        "dtype": choices(list(trees(root, *ARGUMENTS)), DTYPE_FIELD),
    }
    for kind, names in found.items():
        if not names:
            raise NoInventory(
                f"no {kind} is found in the source below {root}: teach impl/sglang/inventory.py its place"
            )
    return {kind: frozenset(names) for kind, names in found.items()}
