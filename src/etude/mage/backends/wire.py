"""What happens between an SDK and the network while one question is asked: limits that hold, and a record.

An SDK's own time limit is one of each read, so a service that sends a sign of life now and then is never ended by it.
Here a timer shuts the connection itself, whatever is being waited for. Nothing is redirected: with a question goes a
key, and it belongs to one host only.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from etude.core.errors import BackendError
from etude.mage.backends.hosts import check_local, is_loopback

if TYPE_CHECKING:
    import httpx2

MOST_KEPT: Final = 4_000_000
"""So many bytes of an answer are kept as they came."""

OK: Final = 200
NO_STREAM: Final = ("text/html", "application/json")
"""What a page to sign in, or a server that cannot stream, answers with."""

CONNECT_S: Final = 30.0
"""So long a connection may take to come about."""


class Call:
    """One question on its way: while it is open its time runs.

    Args:
        base_url: Where it goes.
        timeout_s: How long all of it may take.
        local_only: Whether it may not leave this machine.

    Attributes:
        headers: Those of the answer.
        timed_out: Whether its time ran out.
        refused: Why it was not sent, or not sent on; None if it was.
    """

    def __init__(self, base_url: str, *, timeout_s: float, local_only: bool) -> None:
        self.headers: Mapping[str, str] = {}
        self.timed_out = False
        self.refused: BackendError | None = None
        self._base_url = base_url
        self._timeout_s = timeout_s
        self._local_only = local_only
        self._received = bytearray()
        self._lock = threading.Lock()
        self._streams: list[Any] = []
        self._timer = threading.Timer(timeout_s, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Call:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._timer.cancel()
        self._timer.join()
        self._streams.clear()

    @property
    def received(self) -> bytes:
        """What came, byte for byte."""
        return bytes(self._received)

    def client(self) -> httpx2.Client:
        """Return a client that an SDK can use."""
        import httpx2

        local = is_loopback(str(urlsplit(self._base_url).hostname))
        return httpx2.Client(
            timeout=httpx2.Timeout(self._timeout_s, connect=min(self._timeout_s, CONNECT_S)),
            follow_redirects=False,
            trust_env=not (local or self._local_only),  # what stays on this machine goes through nobody's proxy
            event_hooks={"request": [self._before], "response": [self._after]},
        )

    def _before(self, request: httpx2.Request) -> None:
        if self._local_only:
            self._check(str(request.url.host))
        request.headers["accept-encoding"] = "identity"  # what is kept is to be readable
        request.extensions["trace"] = self._traced

    def _after(self, response: httpx2.Response) -> None:
        self.headers = dict(response.headers)
        to = response.headers.get("location")
        if 300 <= response.status_code < 400 and to:  # noqa: PLR2004 - HTTP's own borders
            target = urljoin(str(response.url), to)
            host = str(urlsplit(target).hostname)
            if self._local_only:
                self._check(host, why="a redirect")
            self.refused = BackendError(
                f"{response.url.host} sends questions on to {host}. They are not sent there: a key goes with them. "
                "If that is right, give its address with --base-url.",
                code="bad request",
                status=response.status_code,
            )
        kind = response.headers.get("content-type", "").partition(";")[0].strip()
        if response.status_code == OK and kind in NO_STREAM:
            self.refused = BackendError(
                f"{response.url.host} answered with {kind}, and not with a stream: no service of this kind is there. "
                "Check the base URL.",
                code="bad request",
                status=response.status_code,
            )
            raise self.refused
        response.stream = _recorder(response.stream, self._received)

    def _check(self, host: str, *, why: str = "") -> None:
        try:
            check_local(host, why=why)
        except BackendError as error:
            self.refused = error
            raise

    def _traced(self, name: str, info: Mapping[str, Any]) -> None:
        """Note the sockets of this call as they come about."""
        if name.endswith((".connect_tcp.complete", ".start_tls.complete")) and "return_value" in info:
            with self._lock:
                self._streams.append(info["return_value"])
                late = self.timed_out
            if late:
                self._shut(info["return_value"])

    def _end(self) -> None:
        with self._lock:
            self.timed_out = True
            streams = list(self._streams)
        for stream in reversed(streams):
            self._shut(stream)

    @staticmethod
    def _shut(stream: Any) -> None:
        found = stream.get_extra_info("socket")
        if found is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(found, socket.SHUT_RDWR)  # an SSL socket's own would say goodbye first, and wait


def _recorder(stream: Any, received: bytearray) -> Any:
    """Return a stream that notes what comes through it."""
    import httpx2

    class Recorder(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            for chunk in stream:
                received.extend(chunk[: max(MOST_KEPT - len(received), 0)])
                yield chunk

        def close(self) -> None:
            stream.close()

    return Recorder()
