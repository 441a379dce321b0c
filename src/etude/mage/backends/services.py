"""What the backends of both services share: who is asked where with which key, and how one question is carried out."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from etude.core.clock import WallClock
from etude.core.errors import BackendError
from etude.mage.backends.capabilities import Capability, capability_of, corrected
from etude.mage.backends.failing import Said, ServiceError, failure, what_was_said
from etude.mage.backends.hosts import check_local, host_of, is_loopback, read_url
from etude.mage.backends.protocol import Reply, Request
from etude.mage.backends.wire import Call
from etude.mage.scrubbing import could_be_secret, scrub, secrets_of

ANY_KEY: Final = "ETUDE_API_KEY"
"""The key of whatever is behind a base URL of the user's own."""

NO_KEY: Final = "none"
"""What a server on this machine gets that wants no key: SDKs send none without any."""


class Service:
    """A service that is asked through its official SDK. Subclasses speak its language.

    A key is read from the environment at the moment it is sent, and is kept nowhere. The key of a service goes to that
    service alone; what is behind another address gets the one in ``ETUDE_API_KEY``.

    Args:
        model: The model.
        base_url: Where it is asked; None for the service itself, or what its variable in the environment says.
        local_only: Whether nothing may leave this machine.
        timeout_s: How long an answer may take, from start to end.
        environment: Where keys are.
        capability: What the model can do, if that is known better than the table does.

    Raises:
        BackendError: It is no host of this machine, and ``local_only``.
        ConfigError: The address is none.
    """

    service: str
    sdk: str
    home: str
    home_domain: str
    key_names: tuple[str, ...]
    url_name: str

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        local_only: bool = False,
        timeout_s: float = 600.0,
        environment: Mapping[str, str],
        capability: Capability | None = None,
    ) -> None:
        told = environment.get(self.url_name, "")
        self._told_url = base_url is None and bool(told)
        self.base_url = self._tidied(base_url or told or self.home)
        self.host = host_of(self.base_url)
        self.model = model
        self.name = f"{self.service}:{model}"
        self.timeout_s = timeout_s
        self.local_only = local_only
        self._environment = environment
        self._hostname = str(read_url(self.base_url).hostname)
        self._learned: dict[str, Capability] = {}  # shared by copies: what one of them learned all know
        self._assumed = capability or capability_of(self.service, model, own_host=self._at_home)
        if local_only:
            check_local(self._hostname)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, base_url={self.base_url!r})"

    @property
    def capability(self) -> Capability:
        """What the model can do, as far as is known by now."""
        return self._learned.get(self.model, self._assumed)

    @property
    def _at_home(self) -> bool:
        return self._hostname == self.home_domain or self._hostname.endswith(f".{self.home_domain}")

    def ready(self) -> None:
        """Check what can be without asking anybody: that the SDK is there, and a key.

        Raises:
            BackendError: Something is missing; its code is ``not installed`` or ``key``.
        """
        if importlib.util.find_spec(self.sdk) is None:
            raise BackendError(
                f"{self.name} needs the package {self.sdk!r}, which is not installed. pip install 'etude[mage]', or "
                "use command:... (a program of yours) or manual:FOLDER (files); these work without it.",
                code="not installed",
            )
        self._key()

    def ask(self, request: Request) -> Reply:
        """Return the answer to a question.

        If the service turns down how it is asked, and not what, that is mended once.

        Raises:
            BackendError: There is none.
        """
        self.ready()
        capability = self.capability
        try:
            return self._asked(request, capability)
        except BackendError as error:
            said = error.said.all if isinstance(error, ServiceError) and error.code == "bad request" else ""
            better = corrected(capability, said)
            if better is None or self._body(request, better) == self._body(request, capability):
                raise
            self._learned[self.model] = better
        return self._asked(request, better)

    def body(self, request: Request) -> dict[str, Any]:
        """Return what would be sent, word for word, without a key."""
        return self._body(request, self.capability)

    def sent(self, request: Request) -> bytes:
        """Return the body of what would be sent, as JSON; an SDK may put its keys into another order."""
        return json.dumps({**self.body(request), "stream": True}, ensure_ascii=False, separators=(",", ":")).encode()

    def _asked(self, request: Request, capability: Capability) -> Reply:
        """Ask once, and leave nothing of the SDK in what is returned or raised."""
        key, failed = self._key(), None
        secrets = sorted({*secrets_of(self._environment), key} - {NO_KEY}, key=len, reverse=True)
        secrets = [one for one in secrets if one != key or could_be_secret(key)]
        with Call(self.base_url, timeout_s=self.timeout_s, local_only=self.local_only) as call:
            try:
                reply = self._send(self._body(request, capability), key, call)
            except Exception as error:  # SDKs raise their own, httpx2's and json's
                failed = self._failed(error, call)
        if failed is not None:  # outside of the handler: errors of an SDK hold requests, and these hold keys
            raise scrubbed(failed, secrets)
        return Reply(
            text=scrub(reply.text, secrets),
            stop=reply.stop,
            usage=reply.usage,
            request=scrub(reply.request, secrets),
            model=scrub(reply.model, secrets),
            raw=scrub(call.received, secrets),
        )

    def _failed(self, error: Exception, call: Call) -> BackendError:
        """Return what failed, in our words."""
        if call.refused is not None:
            return call.refused
        if call.timed_out:
            return self._too_late()
        if isinstance(error, BackendError):
            return error
        body, status = getattr(error, "body", None), getattr(error, "status_code", None)
        if isinstance(status, int) or body is not None:
            said = what_was_said(body) if body is not None else Said(message=str(error)[:200])
            late = status is None or status < 400  # noqa: PLR2004 - the answer had begun well
            return failure(
                self.service, None if late else status, said, headers=call.headers, now_s=WallClock().now_s()
            )
        return self._broken(error)

    def _broken(self, error: Exception) -> BackendError:
        """Return what went wrong on the way, by what lies below an SDK's error."""
        import httpx2

        kinds = (
            ((httpx2.ConnectTimeout, httpx2.ConnectError), self._unreachable),
            ((httpx2.TimeoutException,), self._too_late),
            ((httpx2.TransportError,), self._lost),
        )
        cause: BaseException | None = error
        while cause is not None:
            for below, told in kinds:
                if isinstance(cause, below):
                    return told(str(cause))
            cause = cause.__cause__ or cause.__context__
        return BackendError(
            f"{self.host} answered something that is no answer of {self.service}'s kind. Check the base URL. "
            f"({type(error).__name__}: {str(error)[:200]})",
            code="server",
        )

    def _too_late(self, why: str = "") -> BackendError:
        return BackendError(
            f"No whole answer from {self.host} within {self.timeout_s:g} s; the connection was shut. "
            "Give it more time, or ask for less.",
            code="timeout",
            may_retry=True,
        )

    def _unreachable(self, why: str) -> BackendError:
        hint = (
            " Is the server running?"
            if is_loopback(self._hostname)
            else " Is there a network, and does it need a proxy?"
        )
        return BackendError(f"{self.host} cannot be reached ({why}).{hint}", code="connection", may_retry=True)

    def _lost(self, why: str = "") -> BackendError:
        return BackendError(
            f"The connection to {self.host} was lost before the answer was whole; nothing of it is used.",
            code="connection",
            may_retry=True,
        )

    def ended_early(self) -> NoReturn:
        """Raise what an answer is that stops without saying that it is at its end.

        Raises:
            BackendError: Always.
        """
        raise self._lost()

    def _key(self) -> str:
        """Return the key for the host that is asked.

        Raises:
            BackendError: There is none, and this host wants one.
        """
        names = self.key_names if self._at_home or self._told_url else (ANY_KEY,)
        found = next((value for name in names if (value := self._environment.get(name, "").strip())), "")
        if found:
            return found
        if is_loopback(self._hostname):
            return NO_KEY
        also = "" if names == (ANY_KEY,) else f" (or, for another address, {ANY_KEY})"
        kept = (
            f" {self.key_names[0]} is not sent to it: that key belongs to {self.home_domain}."
            if names == (ANY_KEY,) and any(self._environment.get(name) for name in self.key_names)
            else ""
        )
        raise BackendError(
            f"No key for {self.host}: the environment variable {names[0]}{also} is not set.{kept} "
            "Keys are taken from the environment only. Nothing was sent.",
            code="key",
        )

    def _tidied(self, url: str) -> str:
        raise NotImplementedError

    def _body(self, request: Request, capability: Capability) -> dict[str, Any]:
        raise NotImplementedError

    def _send(self, body: dict[str, Any], key: str, call: Call) -> Reply:
        raise NotImplementedError


def scrubbed(error: BackendError, secrets: Iterable[str]) -> BackendError:
    """Return an error without secrets, and with no other error behind it."""
    kept = tuple(secrets)
    again = type(error)(
        scrub(str(error), kept),
        code=error.code,
        may_retry=error.may_retry,
        after_s=error.after_s,
        status=error.status,
    )
    if isinstance(error, ServiceError) and isinstance(again, ServiceError):
        again.said = Said(**{name: scrub(getattr(error.said, name), kept) for name in Said.__struct_fields__})
    return again
