"""The instructions for clients: `serve.instruction`, and what the sources say of the use of their tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from spindle.domain.serve import ServeConfig

MAX_INSTRUCTION = 64 * 1024


def instruction(config: ServeConfig, root: Path) -> str | None:
    """The text itself, or what the file of that name holds."""
    given = config.instruction
    if given is None or "\n" in given or len(given) > 255:
        return given
    file = root / given
    if not file.is_file():
        if given.endswith((".md", ".txt")):
            raise ConfigurationError(
                f"serve.instruction names the file {file}, which is not there",
                hint="create it, or write the text itself",
            )
        return given
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"serve.instruction: cannot read {file}: {error}") from None
    if len(text) > MAX_INSTRUCTION:
        raise ConfigurationError(f"serve.instruction: {file} has more than {MAX_INSTRUCTION} characters")
    return text


def joined(own: str | None, of_sources: Mapping[str, str]) -> str | None:
    """The text for a client: our own, then what each source says, under its name. Those that would make it
    too long are left out."""
    parts, size = [own] if own else [], len(own or "")
    for source, said in of_sources.items():
        part = f"# {source}\n\n{said}"
        if size + len(part) > MAX_INSTRUCTION:
            continue
        parts.append(part)
        size += len(part)
    return "\n\n".join(parts) or None
