"""The catalog as an MCP server, on stdio or Streamable HTTP."""

from spindle import mcp_imports

mcp_imports.spare()
