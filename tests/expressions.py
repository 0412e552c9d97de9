"""The arithmetic of `data/cases.json`: expressions over named inputs, computed exactly and without `eval`."""

import ast
import math
import operator
from fractions import Fraction

from spec.units import GiB

BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda dividend, divisor: Fraction(dividend) / divisor,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
FUNCTIONS = {
    "align": lambda tokens, page_size: tokens // page_size * page_size,
    "cdiv": lambda dividend, divisor: -(-dividend // divisor),
    "int": math.floor,
    "max": max,
    "min": min,
    "sum": sum,
}


def exact(value):
    """A decimal as it is written: 0.8 is 4/5. Integers, truth values and lists stay what they are."""
    if isinstance(value, float):
        return Fraction(str(value))
    return [exact(item) for item in value] if isinstance(value, list) else value


def evaluate(expression, inputs):
    """The value of an expression over `inputs`. Anything but arithmetic and the functions above is a `ValueError`."""
    names = {"GiB": GiB, **{name: exact(value) for name, value in inputs.items()}}
    return value_of(ast.parse(expression, mode="eval").body, names)


def value_of(node, names):
    """The value of one node of the tree."""
    match node:
        case ast.Constant(value=value) if isinstance(value, (bool, int, float)):
            return exact(value)
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
            return BINARY[type(op)](value_of(left, names), value_of(right, names))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -value_of(operand, names)
        case ast.Compare(left=left, ops=[ast.LtE()], comparators=[right]):
            return value_of(left, names) <= value_of(right, names)
        case ast.Subscript(value=sequence, slice=position):
            return value_of(sequence, names)[value_of(position, names)]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*(value_of(argument, names) for argument in args))
    raise ValueError(f"not arithmetic: {ast.unparse(node)}")


def names_in(expression):
    """The inputs an expression mentions."""
    return {node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name)}
