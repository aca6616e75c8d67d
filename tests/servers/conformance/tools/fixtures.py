"""The tools that the conformance suite calls, as far as a Python function can say what they do."""

from __future__ import annotations

import asyncio
import base64
import struct
import zlib

from spindle import Block, Context, ToolError, tool


def png() -> str:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\x00\xff\x00\x00")
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")
    return base64.b64encode(data).decode()


def wav() -> str:
    """Four silent samples."""
    samples = b"\x80" * 4
    form = struct.pack("<HHIIHH", 1, 1, 8000, 8000, 1, 8)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", 4) + samples
    return base64.b64encode(b"RIFF" + struct.pack("<I", len(body)) + body).decode()


@tool
def test_simple_text() -> str:
    """Returns text."""
    return "This is a simple text response for testing."


@tool
def test_image_content() -> Block:
    """Returns an image."""
    return Block("image", data=png(), mime_type="image/png")


@tool
def test_audio_content() -> Block:
    """Returns a sound."""
    return Block("audio", data=wav(), mime_type="audio/wav")


@tool
def test_embedded_resource() -> Block:
    """Returns a resource."""
    text = "This is an embedded resource content."
    return Block("resource", text=text, uri="test://embedded-resource", mime_type="text/plain")


@tool
def test_multiple_content_types() -> list[Block]:
    """Returns text, an image and a resource."""
    return [
        Block("text", text="Multiple content types test:"),
        Block("image", data=png(), mime_type="image/png"),
        Block(
            "resource",
            text='{"test":"data","value":123}',
            uri="test://mixed-content-resource",
            mime_type="application/json",
        ),
    ]


@tool
async def test_tool_with_logging(context: Context) -> str:
    """Logs three messages."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        context.log(message)
        await asyncio.sleep(0.05)
    return "Logged."


@tool
async def test_logging_tool(context: Context) -> str:
    """Logs messages of several levels."""
    for level in (10, 20, 30, 40):
        context.log(f"A message of level {level}", level)
    return "Logged."


@tool
async def test_tool_with_progress(context: Context) -> str:
    """Reports progress."""
    for done in (0, 50, 100):
        context.progress(done, 100)
        await asyncio.sleep(0.05)
    return "Done."


@tool
def test_error_handling() -> str:
    """Fails."""
    raise ToolError("This tool intentionally returns an error for testing")
