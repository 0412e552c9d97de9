"""Numbers as text, and text as numbers: bytes, decimals, counts."""

import argparse
import re
from fractions import Fraction

from spec.startup.story import gib_text
from spec.units import GiB

BYTE_UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
"""How bytes may be written. GB is refused: logs write it for GiB, data sheets for 10**9 bytes."""


def decimal_text(value: Fraction) -> str:
    """`2457.6`, with separators; a fraction where no decimal ends."""
    rest, digits = value.denominator, 0
    while 10**digits % rest and digits < 30:
        digits += 1
    if 10**digits % rest:
        return f"{value.numerator:,}/{value.denominator:,}"
    scaled = abs(value.numerator) * 10**digits // rest
    sign = "-" if value < 0 else ""
    whole = f"{sign}{scaled // 10**digits:,}"
    return f"{whole}.{scaled % 10**digits:0{digits}d}" if digits else whole


def number_text(value: int | Fraction) -> str:
    """A number with separators."""
    return f"{value:,}" if isinstance(value, int) else decimal_text(value)


def bytes_text(count: int) -> str:
    """Bytes with their GiB: `1,073,741,824 bytes (1.00 GiB)`."""
    return f"{count:,} bytes ({signed_gib(count)})"


def signed_gib(count: int) -> str:
    """GiB of a number that may be below zero."""
    return f"-{gib_text(-count)}" if count < 0 else gib_text(count)


def size_text(count: int) -> str:
    """Bytes as GiB, or as they are where two decimals would say 0.00."""
    return f"{count:,} bytes" if abs(count) < GiB // 200 else signed_gib(count)


def byte_count(text: str) -> int:
    """`80GiB`, `15.3 GiB` or a plain number of bytes -> bytes, rounded down. Refuses other units."""
    found = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([A-Za-z]*)", text.replace("_", ""))
    unit = BYTE_UNITS.get(found[2]) if found else None
    if found is None or unit is None or (unit == 1 and "." in found[1]):
        raise argparse.ArgumentTypeError(f"{text!r}: give bytes, or a number of KiB, MiB or GiB (GB is ambiguous)")
    return Fraction(found[1]) * unit // 1


def decimal(text: str) -> Fraction:
    """`0.88` -> 22/25, exactly what was written."""
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?|\.[0-9]+", text):
        raise argparse.ArgumentTypeError(f"{text!r}: give a decimal, like 0.88")
    return Fraction(text)


def positive_count(text: str) -> int:
    """A count of at least one; no machine has 10**18 of anything."""
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give an integer of at least 1, of 18 digits at most")
    return int(text)
