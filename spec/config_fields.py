"""Reading one field of a `config.json`: there, of the right type, in range, or a refusal that names it.

Absent and null are the same. true is not 1, and 2.0 is not 2.
"""

from collections.abc import Mapping

from spec.model import refuse

Config = Mapping[str, object]
"""A parsed JSON object; nothing is known of its values."""


def as_config(config: object) -> Config:
    """The config itself. Refuses anything but a JSON object."""
    if not isinstance(config, Mapping):
        raise refuse("invalid_input", "config", config, "give the parsed config.json")
    return config


def optional_count(config: Config, field: str, at_least: int = 1) -> int | None:
    """An integer that may be absent or null."""
    value = config.get(field)
    if value is None:
        return None
    if type(value) is not int or value < at_least:
        raise refuse("invalid_input", field, value, f"give an integer of at least {at_least}", needed=at_least)
    return value


def count(config: Config, field: str) -> int:
    """A positive integer that must be there."""
    value = optional_count(config, field)
    if value is None:
        raise refuse("invalid_input", field, None, "the config must give it")
    return value


def first_count(config: Config, fields: tuple[str, ...], at_least: int = 1) -> int | None:
    """The first of several spellings that is given and not 0."""
    values = [optional_count(config, field, at_least) for field in fields]
    return next((value for value in values if value), None)


def section(config: Config, field: str) -> Config | None:
    """A nested object that may be absent or null."""
    value = config.get(field)
    if value is not None and not isinstance(value, Mapping):
        raise refuse("invalid_input", field, value, "give an object")
    return value


def sequence(config: Config, field: str) -> list[object] | None:
    """A list that may be absent or null."""
    value = config.get(field)
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise refuse("invalid_input", field, value, "give a list")
    return list(value)


def per_layer(config: Config, field: str, num_layers: int) -> list[object] | None:
    """A list with one entry a layer, if given. Entries past the last layer describe MTP layers and are cut off."""
    values = sequence(config, field)
    if values is not None and len(values) < num_layers:
        raise refuse("invalid_input", field, values, f"name all {num_layers} layers", needed=num_layers)
    return values if values is None else values[:num_layers]


def zero_one_layers(config: Config, field: str, num_layers: int) -> frozenset[int] | None:
    """The positions marked 1 in a list of 0 and 1, if given."""
    flags = per_layer(config, field, num_layers)
    if flags is None:
        return None
    for flag in flags:
        if type(flag) is not int or flag not in (0, 1):
            raise refuse("invalid_input", field, flag, "mark each layer 0 or 1")
    return frozenset(position for position, flag in enumerate(flags) if flag)


def listed_layers(config: Config, field: str, num_layers: int, first: int) -> frozenset[int]:
    """The 0-based positions in a list of distinct layer numbers that starts counting at `first`."""
    numbers = sequence(config, field)
    if numbers is None:
        raise refuse("invalid_input", field, None, "the config must give it")
    positions = set()
    for number in numbers:
        if type(number) is not int or not 0 <= number - first < num_layers or number - first in positions:
            raise refuse("invalid_input", field, number, f"name each of {num_layers} layers once, from {first} on")
        positions.add(number - first)
    return frozenset(positions)
