"""fastmcp_proxy.py PORT COMMAND…: FastMCP's proxy of a stdio server, over HTTP."""

import sys

from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

port, *command = sys.argv[1:]
proxy = create_proxy(StdioTransport(command[0], command[1:]))
proxy.run(transport="http", host="127.0.0.1", port=int(port), show_banner=False)
