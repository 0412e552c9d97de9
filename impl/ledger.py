"""The memory of one device, counted as its allocator counts it: every tensor that is made, and none that does not fit.

On `meta` nothing is ever full and on `cpu` nothing is small enough, so a rank's device is a number of bytes here, and
what is made while a ledger is open is charged to it before torch is asked.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class OutOfMemory(RuntimeError):
    """A tensor does not fit: what it needs and what there is, in bytes."""

    def __init__(self, name: str, needed: int, available: int) -> None:
        super().__init__(f"out of memory: {name} needs {needed} bytes, {available} are free")
        self.needed = needed
        self.available = available


class Charging(TorchFunctionMode):
    """Charges each `torch.empty` to a ledger, under a name, before it is made."""

    def __init__(self, ledger: "Ledger", name: str) -> None:
        super().__init__()
        self.ledger = ledger
        self.name = name

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.empty:
            self.ledger.take(self.name, func(*args, **{**kwargs, "device": "meta"}).untyped_storage().nbytes())
        return func(*args, **kwargs)


class Ledger:
    """One device: how many bytes it has, and who holds how many of them."""

    def __init__(self, device: torch.device, capacity_bytes: int) -> None:
        self.device = device
        self.capacity_bytes = capacity_bytes
        self.held_bytes: dict[str, int] = {}

    @property
    def free_bytes(self) -> int:
        """What nobody holds."""
        return self.capacity_bytes - sum(self.held_bytes.values())

    def take(self, name: str, size: int) -> None:
        """Charge some bytes to a name. Raises `OutOfMemory` when there are too few, and charges nothing then."""
        if size > self.free_bytes:
            raise OutOfMemory(name, size, self.free_bytes)
        self.held_bytes[name] = self.held_bytes.get(name, 0) + size

    def give_back(self, name: str) -> None:
        """All that a name holds is free again; its tensors must be gone."""
        self.held_bytes.pop(name, None)

    @contextmanager
    def charging(self, name: str) -> Iterator[None]:
        """What is made inside is charged to a name that nobody holds yet; where anything is raised, nothing is."""
        try:
            with Charging(self, name):
                yield
        except BaseException:
            self.give_back(name)
            raise
