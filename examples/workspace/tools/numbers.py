"""Arithmetic, as tools."""

from typing import Literal

from spindle import ToolError, tool


@tool(read_only=True, tags=["math"])
def divide(a: float, b: float) -> float:
    """Divide one number by another.

    Args:
        a: The number to divide.
        b: What to divide it by; not zero.
    """
    if b == 0:
        raise ToolError("cannot divide by zero")
    return a / b


@tool(read_only=True, tags=["math"])
def summary(numbers: list[float], measure: Literal["mean", "min", "max"] = "mean") -> float:
    """Sum up a list of numbers in one.

    Args:
        numbers: At least one number.
        measure: Which one number to give.
    """
    measures = {
        "mean": lambda: sum(numbers) / len(numbers),
        "min": lambda: min(numbers),
        "max": lambda: max(numbers),
    }
    return measures[measure]()
