"""fastmcp_proxy.py PORT COMMAND… or URL: FastMCP's proxy of a server over stdio or HTTP, over HTTP."""

import sys

from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.server import create_proxy

port, *command = sys.argv[1:]
is_url = command[0].startswith("http://")
upstream = StreamableHttpTransport(command[0]) if is_url else StdioTransport(command[0], command[1:])
proxy = create_proxy(upstream)
proxy.run(transport="http", host="127.0.0.1", port=int(port), show_banner=False)
