"""Plain records handed to a release, and what happens when a release asks one for something it lacks.

A record never makes an answer up. It holds what the adapter sets, it knows the optional names that the real object
lacks too (a config without `multi_query` says so), and anything else stops the run.
"""

import sys
from typing import Any

from impl import WrongAdapter


class AdapterDrift(WrongAdapter):
    """A release asked for an attribute or a context that the adapter lacks: the run cannot go on (exit code 4).

    Not an `Exception`: a release's resolvers swallow those and fall back, and the suite would take it for a finding.
    """

    def __init__(self, attribute: str, release: str, file: str) -> None:
        super().__init__(
            f"SGLang {release} asks for {attribute} in {file}, which the adapter does not know: "
            "teach impl/sglang/releases.py or impl/sglang/records.py"
        )
        self.attribute = attribute
        self.release = release
        self.file = file


class Record:
    """A plain object with a name of its own, set fields, and a list of names it lacks on purpose."""

    release = "?"
    """The release under test, set once when it is imported."""

    def __init__(self, record_name: str, lacks: tuple[str, ...] = (), **fields: Any) -> None:
        self.__dict__["_record_name"] = record_name
        self.__dict__["_lacks"] = frozenset(lacks)
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("_lacks", ()) or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{self.__dict__.get('_record_name')} has no {name!r}")
        caller = sys._getframe(1)
        file = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        raise AdapterDrift(f"{self.__dict__.get('_record_name')}.{name}", Record.release, file)

    def update(self, **fields: Any) -> None:
        """Sets fields anew; records are made once and used for every scenario."""
        self.__dict__.update(fields)
