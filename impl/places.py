"""Where code stands, for a reader who wants to open it."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any


def place_of(code: type | Callable[..., Any]) -> str:
    """`impl/configurator.py:255 DefaultPoolConfigurator`: the file from its top package on, the line, the name."""
    parts = Path(inspect.getsourcefile(code) or "").parts
    top = code.__module__.split(".")[0]
    start = max(index for index, part in enumerate(parts) if part.removesuffix(".py") == top)
    return f"{'/'.join(parts[start:])}:{inspect.getsourcelines(code)[1]} {code.__qualname__}"
