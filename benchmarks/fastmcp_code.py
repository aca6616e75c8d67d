"""fastmcp_code.py PORT URL: FastMCP's code mode over a server's tools, over HTTP."""

import sys

from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.experimental.transforms.code_mode import CodeMode
from fastmcp.server import create_proxy

port, url = sys.argv[1:]
proxy = create_proxy(StreamableHttpTransport(url))
proxy.add_transform(CodeMode())
proxy.run(transport="http", host="127.0.0.1", port=int(port), show_banner=False)
