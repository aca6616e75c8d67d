"""The names of Penguiflow's external tools: `from spindle.compat.penguiflow import ToolNode, …`."""

from spindle.compat.penguiflow.auth import InMemoryTokenStore, OAuthManager, OAuthProviderConfig, TokenStore
from spindle.compat.penguiflow.config import (
    AuthType,
    ExternalToolConfig,
    McpTransportMode,
    OutputTransformer,
    RetryPolicy,
    ToolContext,
    TransportType,
    UtcpMode,
)
from spindle.compat.penguiflow.errors import (
    ErrorCategory,
    ToolAuthError,
    ToolClientError,
    ToolConnectionError,
    ToolNodeError,
    ToolRateLimitError,
    ToolServerError,
    ToolTimeoutError,
    adapt_exception,
    adapt_mcp_error,
    adapt_utcp_error,
)
from spindle.compat.penguiflow.node import ToolNode
from spindle.compat.penguiflow.node_specs import ModelRegistry, NodeSpec
from spindle.compat.penguiflow.presets import POPULAR_MCP_SERVERS, get_preset

__all__ = [
    "POPULAR_MCP_SERVERS",
    "AuthType",
    "ErrorCategory",
    "ExternalToolConfig",
    "InMemoryTokenStore",
    "McpTransportMode",
    "ModelRegistry",
    "NodeSpec",
    "OAuthManager",
    "OAuthProviderConfig",
    "OutputTransformer",
    "RetryPolicy",
    "TokenStore",
    "ToolAuthError",
    "ToolClientError",
    "ToolConnectionError",
    "ToolContext",
    "ToolNode",
    "ToolNodeError",
    "ToolRateLimitError",
    "ToolServerError",
    "ToolTimeoutError",
    "TransportType",
    "UtcpMode",
    "adapt_exception",
    "adapt_mcp_error",
    "adapt_utcp_error",
    "get_preset",
]
