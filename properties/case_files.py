"""Records to JSON and back, exactly; and the files that hold one case each.

A record is an object of its fields; a field at its default may be left out. Tuples are lists, Fractions strings
("4/5"). Where a field may hold several kinds of record, its object has one key, the record's name:
`{"Heads": {"num_kv_heads": 8, "head_dim": 128, "v_head_dim": 128}}`. What cannot be read is refused with the field
and the value.
"""

import json
import re
from dataclasses import MISSING, dataclass, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from properties.judge import Finding
from spec.laws import BY_ID
from spec.laws.base import Answer
from spec.model import Scenario
from spec.pools import size_pools

SCHEMA = 1
"""Of case files and reports. It rises where a reader of the old one would misread the new one."""

READ_KEYS = ("schema", "law", "answer", "scenario")
SAID_KEYS = ("cell", "term", "expected", "got", "where", "implementation", "spec_answer", "replay")
"""What a case file holds: what is read again, of which `schema` and `scenario` must be there, and what a run said."""


FRACTION = re.compile(r"-?\d{1,100}([/.]\d{1,100})?")
"""`4/5` or `0.8`."""


class WrongCase(ValueError):
    """A case that cannot be read."""


def wrong(field: str, value: object, wanted: str) -> WrongCase:
    """The error that names a field and its value."""
    return WrongCase(f"{field or 'case'}: {value!r} given, {wanted} expected")


def alternatives(hint: Any) -> list[Any]:
    """What a field may hold beside None."""
    return [member for member in get_args(hint) or (hint,) if member is not NoneType]


def as_json(hint: Any, value: Any, *, full: bool = True) -> Any:
    """What JSON has for a value in a field of this type; fields at their default are left out unless `full`. The only
    field that may hold anything is `Refusal.value`: what JSON has nothing for is written there as its repr."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, tuple):
        return [as_json(object, item, full=full) for item in value]
    if not is_dataclass(value):
        return repr(value)
    hints = get_type_hints(type(value))
    body = {
        field.name: as_json(hints[field.name], getattr(value, field.name), full=full)
        for field in fields(value)
        if full or field.default is MISSING or getattr(value, field.name) != field.default
    }
    return {type(value).__name__: body} if len(alternatives(hint)) > 1 else body


def from_json(hint: Any, data: Any, field: str = "") -> Any:
    """The value of this type that `data` stands for. Raises WrongCase with the field and the value."""
    if hint is object:
        return data
    if get_origin(hint) is tuple:
        if not isinstance(data, list):
            raise wrong(field, data, "a list")
        return tuple(from_json(get_args(hint)[0], item, f"{field}[{index}]") for index, item in enumerate(data))
    if len(get_args(hint)) > 1:
        return chosen_from_json(hint, data, field)
    if is_dataclass(hint):
        return record_from_json(hint, data, field)
    if hint is Fraction:
        return fraction_from_json(data, field)
    if type(data) is not hint:
        raise wrong(field, data, hint.__name__)
    return data


def chosen_from_json(hint: Any, data: Any, field: str) -> Any:
    """One of several kinds: None, the only other one, the record whose name is the key, or a list."""
    choices = alternatives(hint)
    if data is None and NoneType in get_args(hint):
        return None
    if len(choices) == 1:
        return from_json(choices[0], data, field)
    records = {choice.__name__: choice for choice in choices if isinstance(choice, type) and is_dataclass(choice)}
    if isinstance(data, dict) and len(data) == 1 and (name := next(iter(data))) in records:
        return record_from_json(records[name], data[name], f"{field}.{name}".lstrip("."))
    others = [choice for choice in choices if choice not in records.values()]
    if not others or isinstance(data, dict):
        raise wrong(field, data, f"an object with one of the keys {', '.join(records)}")
    return from_json(others[0], data, field)


def record_from_json(record: Any, data: Any, field: str) -> Any:
    """A record from an object of its fields."""
    if not isinstance(data, dict):
        raise wrong(field, data, f"an object with the fields of {record.__name__}")
    hints = get_type_hints(record)
    for name in data:
        if name not in hints:
            raise WrongCase(f"{field or record.__name__}: nobody reads {name!r} = {data[name]!r}")
    for entry in fields(record):
        if entry.name not in data and entry.default is MISSING:
            raise WrongCase(f"{field or record.__name__}: {entry.name} is missing in {data!r}")
    given = {name: from_json(hints[name], value, f"{field}.{name}".lstrip(".")) for name, value in data.items()}
    return record(**given)


def fraction_from_json(data: Any, field: str) -> Fraction:
    """A Fraction from "4/5" or "0.8"."""
    try:
        if isinstance(data, str) and FRACTION.fullmatch(data):
            return Fraction(data)
    except ZeroDivisionError:
        pass
    raise wrong(field, data, "a fraction such as '4/5' or '0.8'")


def parsed(text: str) -> Any:
    """JSON in which every key stands once."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for name, value in pairs:
            if [other for other, _ in pairs].count(name) > 1:
                raise WrongCase(f"{name}: given twice, once as {value!r}")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=once)
    except WrongCase:
        raise
    except (ValueError, RecursionError) as error:
        raise WrongCase(f"no JSON: {error}") from error


def scenario_text(scenario: Scenario) -> str:
    """A scenario on one line, fields at their default left out."""
    return json.dumps(as_json(Scenario, scenario, full=False))


def scenario_from_text(text: str) -> Scenario:
    """The scenario of such a line, wherever it is broken. Raises WrongCase."""
    scenario: Scenario = from_json(Scenario, parsed(text))
    return scenario


@dataclass(frozen=True)
class RecordedCase:
    """What is read of a case file. `law` and `answer` None where the file does not say; `found_in` is the name of the
    implementation it was found in and `command` what judges that again, "" where the file does not say."""

    scenario: Scenario
    law: str | None
    answer: Answer | None
    found_in: str = ""
    command: str = ""


def read_case(path: Path) -> RecordedCase:
    """The case of a file. Raises WrongCase with the field and the value, OSError where there is no file."""
    data = parsed(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise wrong("", data, "an object")
    for name in data:
        if name not in READ_KEYS + SAID_KEYS:
            raise WrongCase(f"nobody reads {name!r} = {data[name]!r}")
    if data.get("schema") != SCHEMA:
        raise wrong("schema", data.get("schema"), str(SCHEMA))
    if "scenario" not in data:
        raise WrongCase("scenario is missing")
    law, answer = data.get("law"), data.get("answer")
    if law is not None and (not isinstance(law, str) or law not in BY_ID):
        raise wrong("law", law, f"one of {', '.join(BY_ID)}")
    implementation = data.get("implementation")
    found_in = implementation.get("name", "") if isinstance(implementation, dict) else ""
    return RecordedCase(
        from_json(Scenario, data["scenario"], "scenario"),
        law,
        from_json(Answer, answer, "answer") if isinstance(answer, dict) else None,
        str(found_in),
        str(data.get("replay", "")),
    )


def case_document(
    finding: Finding, answer: Answer | str, implementation: dict[str, Any], replay: str
) -> dict[str, Any]:
    """What a case file holds: the scenario in full, both answers (text where the implementation's is none of the
    list), what the law says of it, and the command that judges it again."""
    broken = finding.broken
    return {
        "schema": SCHEMA,
        "law": finding.law.id,
        "cell": str(finding.cell),
        "term": broken.term,
        "expected": as_json(object, broken.expected),
        "got": as_json(object, broken.got),
        "where": broken.where,
        "implementation": implementation,
        "answer": as_json(Answer, answer),
        "spec_answer": as_json(Answer, size_pools(finding.scenario)),
        "scenario": as_json(Scenario, finding.scenario),
        "replay": replay,
    }
