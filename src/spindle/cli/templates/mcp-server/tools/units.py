"""The tools of the server. Types and docstrings are what clients and models see of them."""

from spindle import ToolError, tool

METRES = {"m": 1.0, "km": 1000.0, "mi": 1609.344, "ft": 0.3048, "in": 0.0254}


@tool(read_only=True, idempotent=True)
def convert(amount: float, unit: str, to: str) -> float:
    """Convert a length from one unit to another.

    Args:
        amount: How much.
        unit: The unit that it is in.
        to: The unit that is wanted.
    """
    for given in (unit, to):
        if given not in METRES:
            raise ToolError(f"{given!r} is not a known unit; known are {', '.join(METRES)}")
    return round(amount * METRES[unit] / METRES[to], 4)


@tool(read_only=True, idempotent=True)
def units() -> list[str]:
    """The units that are known."""
    return list(METRES)


@tool
def reload_units() -> str:
    """For whoever runs the server: `excluded_tools` keeps it from clients."""
    return f"{len(METRES)} units"
