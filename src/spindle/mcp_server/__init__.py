"""The catalog as an MCP server, on stdio or Streamable HTTP."""
