"""A page that follows studies: ``etude view``."""

from __future__ import annotations

import os
import secrets
import socket
import webbrowser
from typing import TYPE_CHECKING, Annotated, Final

import typer

from etude.cli import complete
from etude.core.errors import ConfigError

if TYPE_CHECKING:
    from etude.view.following import Follower

PORT: Final = 8460
TOKEN: Final = "ETUDE_VIEW_TOKEN"  # noqa: S105 - the name of the variable


def view(
    study: Annotated[
        str | None,
        typer.Argument(
            metavar="[STUDY]",
            help="A study's name, folder or mirror, or a folder of studies; by default all studies here.",
            autocompletion=complete.studies,
        ),
    ] = None,
    *,
    host: Annotated[str, typer.Option(help="The address to answer at.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help=f"By default {PORT}, or another one if that is taken.")
    ] = None,
    allow_stop: Annotated[
        bool, typer.Option("--allow-stop", help="Whoever has the link may have a study wind down.")
    ] = False,
    show: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Follow a study, or all of a folder, on a page in the browser.

    The page shows, and changes nothing. Its link holds a token, another one at each start; ETUDE_VIEW_TOKEN keeps one.
    """
    where = _asked(study)
    try:
        from etude.view.guard import LOOPBACK, Guard
        from etude.view.server import serve
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        raise ConfigError(
            f"etude view serves its page with Starlette and uvicorn, and {missing!r} is missing. "
            "Install them: pip install 'etude[view]'."
        ) from None
    with _bound(host, port) as sock:
        guard = Guard(os.environ.get(TOKEN) or secrets.token_urlsafe(24), host, sock.getsockname()[1])
        print(f"Open {guard.link}")
        if host not in LOOPBACK:
            print(
                f"Others can reach {host}. The link is all that keeps them out, and it travels unencrypted: in a "
                "network that you do not trust, stay with 127.0.0.1 and come through SSH: "
                f"ssh -L {guard.port}:127.0.0.1:{guard.port} THIS-MACHINE."
            )
        print("Ctrl-C ends the page; studies go on.", flush=True)
        if show:
            webbrowser.open(guard.link)
        serve(where, sock, guard, may_stop=allow_stop)


def _asked(study: str | None) -> str | Follower:
    """Return what to show: a folder of studies, or what follows a study and has read it."""
    from pathlib import Path

    from etude.results.finding import is_study, studies_folder, studies_in
    from etude.view.following import Follower

    if study is None:
        return str(studies_folder())
    folder = Path(study)
    if folder.is_dir() and not is_study(folder) and studies_in(folder):
        return str(folder)
    return Follower.begin(study)  # refuses what is none, and names the nearest


def _bound(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens at a port: at the one that was asked for, or at one that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in (PORT, 0) if port is None else (port,):
        sock = socket.socket(family)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, number))
            sock.listen()  # whoever opens the link at once waits for the server, and is not refused
        except OSError as error:
            sock.close()
            if port is None and number:
                continue
            raise ConfigError(
                f"Nothing can be served at {host}, port {number}: {error.strerror}. "
                "Name another --port, or an address of this machine as --host."
            ) from None
        return sock
    raise AssertionError("some port is free")
