"""Settings of an HTTP API that is known by its address."""

from __future__ import annotations

from typing import Any, Literal, cast
from urllib.parse import urlsplit

from pydantic import ByteSize, Field, field_validator

from spindle.sources.api_config import ApiConfig

Method = Literal["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]
METHODS: tuple[Method, ...] = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")


class HttpConfig(ApiConfig):
    """Settings of a source of kind `http`."""

    kind: Literal["http"] = "http"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    url: str
    """The base of the API. No request leaves it."""
    discover: bool = True
    """True to look for a description at the usual places."""
    methods: tuple[Method, ...] = Field(default=METHODS, min_length=1)
    """The methods that the tool `request` may use."""
    max_download_size: ByteSize = Field(default=ByteSize(1024 * 1024 * 1024), gt=0)

    @field_validator("url")
    @classmethod
    def _is_a_base(cls, value: str) -> str:
        if value.startswith("${"):
            return value
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must begin with http:// or https:// and a host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("holds a user name or password: give them in `auth`")
        if parts.query or parts.fragment:
            raise ValueError("must be an address without `?` and `#`: requests are made below it")
        return value

    @field_validator("methods", mode="before")
    @classmethod
    def _in_capitals(cls, value: Any) -> Any:
        words: Any = (value,) if isinstance(value, str) else value
        if not isinstance(words, (list, tuple)):
            return words  # refused as what it is
        items = cast("list[Any]", words)
        return tuple(word.upper() if isinstance(word, str) else word for word in items)
