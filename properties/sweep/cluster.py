"""Shards on the workers of a Dask cluster. A shard is a function of its text and its number: one whose worker is lost
is done again by another."""

import importlib
from collections.abc import Iterator
from typing import Any

from properties.sweep.results import Result
from properties.sweep.run import swept_text


class NoDask(RuntimeError):
    """`distributed` is not installed, or no cluster answers at the address."""


def client_of(address: str) -> Any:
    """A client of the cluster at an address. Raises NoDask."""
    try:
        distributed = importlib.import_module("distributed")
    except ImportError as error:
        raise NoDask("--dask needs dask and distributed: pip install -e '.[cluster]'") from error
    try:
        return distributed.Client(address)
    except (OSError, ValueError) as error:
        raise NoDask(f"--dask {address}: {error}") from error


def swept_on(client: Any, text: str, shards: int, samples: int) -> Iterator[Result]:
    """Every shard of a space, as they are finished."""
    futures = [client.submit(swept_text, text, shard, shards, samples, pure=False) for shard in range(shards)]
    for future in importlib.import_module("distributed").as_completed(futures):
        result: Result = future.result()
        yield result
