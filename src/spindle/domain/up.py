"""The settings of `spindle up`: the `[up]` table."""

from __future__ import annotations

from pydantic import Field

from spindle.domain.section import Section


class UpConfig(Section):
    """The process in the background that keeps a workspace open for the command line."""

    auto: bool = Field(default=False, description="whether the first call, run, agent or ask starts it")
    idle_timeout: float = Field(
        default=1800.0, gt=0, description="seconds without a command before it ends by itself"
    )
    console_port: int = Field(
        default=0, ge=0, le=65535, description="the port of the console; 0 takes any free port"
    )
    ignore_env: tuple[str, ...] = Field(
        default=(),
        description="environment variables that may differ between it and a command; `*` stands for any text",
    )
