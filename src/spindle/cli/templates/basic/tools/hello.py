"""Every function marked with @tool in this folder is a tool. Edits are picked up at once."""

from spindle import tool


@tool(read_only=True)
def hello(name: str, times: int = 1) -> str:
    """Greet somebody.

    Args:
        name: Who is greeted.
        times: How often.
    """
    return " ".join([f"Hello, {name}!"] * times)
