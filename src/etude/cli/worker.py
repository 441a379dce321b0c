"""Workers for a study that runs elsewhere: ``etude worker``."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from etude.core.errors import ConfigError, StudyError
from etude.core.numbers import is_port

PORT: Final = re.compile("[0-9]{1,5}")


def worker(
    *,
    credentials: Annotated[
        Path | None, typer.Option(help="Needed: the file that the driver wrote; nobody else may read it.")
    ] = None,
    join: Annotated[
        str | None, typer.Option(metavar="HOST[:PORT]", help="Where the driver is, if not where the file says.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="How many workers this machine has.")] = 1,
) -> None:
    """Bring this machine's workers to a study that runs elsewhere.

    They stay until it is over, or until they are sent away.
    """
    from etude.engines.node import carry
    from etude.wire.credentials import read_invitation

    if credentials is None:
        raise ConfigError(
            "Whoever joins a study has to show its credentials. Pass --credentials FILE: the driver writes "
            "credentials.json into the study's folder when it starts, with engine='cluster'; copy it from there."
        )
    invitation = read_invitation(credentials)
    if join is not None:
        host, port = _address(join)
        invitation = msgspec.structs.replace(invitation, hosts=(host,), port=port or invitation.port)

    async def until_it_is_over() -> None:
        carrying = asyncio.ensure_future(carry(invitation, workers=workers))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, carrying.cancel)
        try:
            if not await carrying:
                raise StudyError(
                    "The connection to the driver ended before its study did: perhaps it was killed, or the network is "
                    "gone. What the workers had begun goes back into the queue. A run that takes the study up again "
                    "has new credentials."
                )
        except asyncio.CancelledError:
            print("The workers leave; what they had begun goes back into the queue.", file=sys.stderr)

    asyncio.run(until_it_is_over())


def _address(given: str) -> tuple[str, int | None]:
    """Return host and port of ``HOST``, ``HOST:PORT``, ``[ADDRESS]:PORT`` or a bare address of version 6."""
    host, colon, port = given.rpartition(":")
    if not colon or (":" in host and not given.startswith("[")) or given.endswith("]"):
        return given.strip("[]"), None
    if not host or not PORT.fullmatch(port) or not is_port(int(port)):
        raise ConfigError(f"--join {given!r} is no address. Pass HOST, or HOST:PORT with a port from 1 to 65535.")
    return host.strip("[]"), int(port)
