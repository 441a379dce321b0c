"""Who may look: those who have the token of the link, in a page of this very server.

The token comes with the first address, and goes into a cookie at once, so that it stays in no address line, no history
and no ``Referer``. A page of somebody else's can have a browser send requests here, with that cookie; it is refused by
its ``Origin``, and one that goes by a name of its own for this address (DNS rebinding) by its ``Host``.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

TOKEN: Final = "token"  # noqa: S105 - the name of the parameter
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")

FOREIGN: Final = (
    "This server does not answer to that name, or to pages of others. Open the link that `etude view` showed."
)
STRANGE: Final = (
    "This link has no token, or that of another server: each start of `etude view` has its own. Open the link that it "
    "showed when it was started."
)


@dataclass(frozen=True)
class Refused:
    """A request that is not answered, and why."""

    why: str
    status: int = 403


@dataclass(frozen=True)
class Welcome:
    """A request that is answered; ``anew`` if the token came with the address, and is to go into a cookie."""

    anew: bool = False


@dataclass(frozen=True)
class Guard:
    """Decides about requests.

    Attributes:
        token: What the link holds.
        host: The address that the server is bound to.
        port: Its port.
    """

    token: str
    host: str
    port: int

    @property
    def cookie(self) -> str:
        """The name of the cookie: browsers give those of one port to all others."""
        return f"etude-view-{self.port}"

    @property
    def link(self) -> str:
        """What people open."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/?{TOKEN}={self.token}"

    def decide(
        self, headers: Mapping[str, str], query: Mapping[str, str], cookies: Mapping[str, str]
    ) -> Welcome | Refused:
        """Say whether a request is answered.

        Args:
            headers: Its headers; names in small letters.
            query: What stands behind the question mark.
            cookies: Its cookies.
        """
        if not self._is_ours(headers.get("host", "")):
            return Refused(FOREIGN)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers["host"]:
            return Refused(FOREIGN)
        if self._fits(query.get(TOKEN)):
            return Welcome(anew=True)
        return Welcome() if self._fits(cookies.get(self.cookie)) else Refused(STRANGE)

    def _is_ours(self, host: str) -> bool:
        """Whether a request goes to this server by a name that is its own; bound to all the world, it may have any."""
        if self.host not in LOOPBACK:
            return True
        name, _, port = host.rpartition(":")
        return name.strip("[]") in LOOPBACK and port == str(self.port)

    def _fits(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self.token.encode())
