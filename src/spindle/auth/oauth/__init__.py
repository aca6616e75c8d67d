"""OAuth 2.1 for sources: consent of each user, and tokens that Spindle gets for itself."""

from spindle.auth.oauth.consent import AuthorizationRequest, Completed
from spindle.auth.oauth.device import DeviceLogin
from spindle.auth.oauth.http import OAuthHttp
from spindle.auth.oauth.revocation import Revoked
from spindle.auth.oauth.token_store import TokenInfo

__all__ = ["AuthorizationRequest", "Completed", "DeviceLogin", "OAuthHttp", "Revoked", "TokenInfo"]
