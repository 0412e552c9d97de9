"""Rounding and units. Every rounding of the budget goes through one of these three functions."""

GiB = 2**30
"""Bytes in a GiB. SGLang's logs write GB for the same number."""


def ceil_div(dividend: int, divisor: int) -> int:
    """The smallest integer not below `dividend / divisor`."""
    return -(-dividend // divisor)


def align_down(tokens: int, page_size: int) -> int:
    """The largest multiple of `page_size` not above `tokens`."""
    return tokens // page_size * page_size


def align_up(tokens: int, page_size: int) -> int:
    """The smallest multiple of `page_size` not below `tokens`."""
    return ceil_div(tokens, page_size) * page_size
