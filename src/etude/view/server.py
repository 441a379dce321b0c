"""The server: what browsers ask for, over Starlette and uvicorn. It only reads, unless it may stop studies.

| address | answer |
|---|---|
| ``/`` | the page of the one study, or the list of all |
| ``/studies`` | the list as JSON |
| ``/study/NAME`` | a study's page |
| ``/study/NAME/events`` | what is new of it, as server-sent events |
| ``/study/NAME/trials/N`` | all about a trial |
| ``/study/NAME/trials/N/log/K`` | what its attempt K printed |
| ``/study/NAME/stop`` (POST) | has it wind down, where that is allowed |
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from etude.core.errors import ConfigError, EtudeError, NotAStudyError
from etude.results.finding import studies_in
from etude.results.listed import row
from etude.store.journal import FILE
from etude.studies.at_work import STOP_FILE
from etude.view.details import details, log
from etude.view.following import Follower
from etude.view.guard import Guard, Refused
from etude.view.pages import list_page, study_page
from etude.view.watching import Desk, Watch

CLOSING_S: Final = 1
"""Seconds that requests under way have when the server ends."""

HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)


def serve(where: str | Follower, sock: socket.socket, guard: Guard, *, may_stop: bool = False) -> None:
    """Answer browsers until the process is interrupted.

    Args:
        where: A folder of studies, or what follows the only study that is shown.
        sock: A socket that listens.
        guard: Says who may look.
        may_stop: Whether viewers may stop studies.
    """
    view = View(where, may_stop=may_stop)
    config = uvicorn.Config(
        view.app(guard),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=CLOSING_S,
    )
    with contextlib.suppress(KeyboardInterrupt):  # that is how it ends
        Server(config, view).run([sock])


class Server(uvicorn.Server):
    """Ends streams of events when it ends itself: it would wait for them."""

    def __init__(self, config: uvicorn.Config, view: View) -> None:
        super().__init__(config)
        self._view = view

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take leave."""
        await self._view.end()
        await super().shutdown(sockets)


class View:
    """Answers browsers.

    Args:
        where: A folder of studies, or what follows the only study that is shown.
        may_stop: Whether viewers may stop studies.
    """

    def __init__(self, where: str | Follower, *, may_stop: bool = False) -> None:
        self._may_stop = may_stop
        self._desk = Desk()
        self._watches: dict[str, Watch] = {}
        self._one: str | None = None
        if isinstance(where, Follower):
            self._one = Path(where.study).name
            self._watches[self._one] = Watch(where, self._desk)
            where = str(where.study)
        self._where = where
        self._rows: dict[Path, tuple[object, dict[str, Any]]] = {}  # what a list says of a study, and for which file

    def app(self, guard: Guard) -> Starlette:
        """Return the application."""
        return Starlette(
            routes=[
                Route("/", self._first),
                Route("/studies", self._studies),
                Route("/study/{name}", self._page),
                Route("/study/{name}/events", self._events),
                Route("/study/{name}/trials/{trial:int}", self._trial),
                Route("/study/{name}/trials/{trial:int}/log/{attempt:int}", self._log),
                Route("/study/{name}/stop", self._stop, methods=["POST"]),
            ],
            middleware=[Middleware(Guarded, guard=guard)],
            exception_handlers={EtudeError: _refused},
            lifespan=self._lifespan,
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        self._desk.close()

    async def end(self) -> None:
        """End all streams of events."""
        for watch in self._watches.values():
            await watch.end()

    async def _first(self, request: Request) -> Response:
        if self._one is not None:
            return RedirectResponse(f"/study/{quote(self._one, safe='')}", 303)
        return HTMLResponse(list_page(self._where))

    async def _studies(self, request: Request) -> Response:
        return JSONResponse(await self._desk.do(self._listed))

    async def _page(self, request: Request) -> Response:
        name, _ = await self._watched(request)
        return HTMLResponse(study_page(name, alone=self._one is not None, may_stop=self._may_stop))

    async def _events(self, request: Request) -> Response:
        _, watch = await self._watched(request)
        last = request.headers.get("last-event-id") or request.query_params.get("after", "")
        return StreamingResponse(watch.events(last), media_type="text/event-stream")

    async def _trial(self, request: Request) -> Response:
        _, watch = await self._watched(request)
        return JSONResponse(await self._desk.do(details, watch.follower, request.path_params["trial"]))

    async def _log(self, request: Request) -> Response:
        _, watch = await self._watched(request)
        given = request.query_params.get("after", "")
        after = int(given) if given.isascii() and given.isdecimal() else None
        asked = request.path_params["trial"], request.path_params["attempt"], after
        text, end, cut = await self._desk.do(log, watch.follower, *asked)
        return JSONResponse({"text": text, "end": end, "cut": cut})

    async def _stop(self, request: Request) -> Response:
        name, watch = await self._watched(request)
        if not self._may_stop:
            raise ConfigError("This view only shows. Start it with --allow-stop, or run: etude stop " + name)
        if not await self._desk.do(_ask_to_stop, watch.follower):
            raise ConfigError(f"Nobody works on study {name}, so there is nothing to stop.")
        return JSONResponse({"asked": True}, 202)

    async def _watched(self, request: Request) -> tuple[str, Watch]:
        """Return the study that a request is about."""
        name = request.path_params["name"]
        if name not in self._watches:
            found = {} if self._one is not None else await self._desk.do(self._found)
            if name not in found:
                raise NotAStudyError(f"There is no study {name} in {self._where}.")
            self._watches.setdefault(name, Watch(Follower(found[name]), self._desk))
        return name, self._watches[name]

    def _found(self) -> dict[str, Path]:
        return {path.name: path for path in studies_in(Path(self._where))}

    def _listed(self) -> list[dict[str, Any]]:
        """Return what the list says of each study, the newest first; only what has changed is read anew."""
        rows = []
        for name, path in self._found().items():
            now = [_stamp(path / f"{FILE}{end}") for end in ("", "-wal")]
            before, told = self._rows.get(path, (None, {}))
            if before != now or told["standing"] == "at work":
                told = row(path, name)
                self._rows[path] = now, told
            rows.append(told)
        return rows[::-1]


class Guarded:
    """Lets through what the guard does, and adds headers to each answer."""

    def __init__(self, app: ASGIApp, *, guard: Guard) -> None:
        self._app, self._guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        request = Request(scope)
        decided = self._guard.decide(request.headers, request.query_params, request.cookies)
        answer: ASGIApp = self._app
        if isinstance(decided, Refused):
            answer = JSONResponse({"error": decided.why}, decided.status)
        elif decided.anew:
            answer = RedirectResponse(request.url.path, 303)
            answer.set_cookie(self._guard.cookie, self._guard.token, httponly=True, samesite="lax")
        await answer(scope, receive, send_with_headers)


async def _refused(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 404 if isinstance(error, NotAStudyError) else 409)


def _ask_to_stop(follower: Follower) -> bool:
    """Leave a request to wind down; return False if nobody is there to see it."""
    follower.look()
    if follower.search.driver is None:
        return False
    (follower.folder / STOP_FILE).touch()
    return True


def _stamp(path: Path) -> tuple[int, int, int] | None:
    with contextlib.suppress(OSError):
        found = path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns
    return None
