"""The sampler's process: it thinks about the next proposal while the driver does something else.

A sampler that models past trials takes milliseconds to seconds for a proposal. In the driver's process
it would hold the interpreter lock and with it every free worker, so it lives in one of its own. It is
told of trials in the order of the journal, and asked for proposals in between.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from typing import Any

import msgspec

from etude.core.events import Params
from etude.core.exact import exact
from etude.tune.samplers import Told, make_sampler
from etude.tune.spaces import Space
from etude.wire.channel import Channel


class SetUp(msgspec.Struct, frozen=True, tag="setup"):
    """Which sampler, for which space."""

    sampler: str
    space: dict[str, Any]
    seed: int


class Tell(msgspec.Struct, frozen=True, tag="tell"):
    """How a trial stands."""

    told: Told


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """Asks for proposal ``k``."""

    k: int
    redraw: int


class Answer(msgspec.Struct, frozen=True):
    """Proposal ``k``; or ``problem``, the traceback of why there is none."""

    k: int
    redraw: int
    params: Params | None = None
    problem: str = ""


ToSampler = SetUp | Tell | Ask
encode = msgspec.msgpack.Encoder().encode
_decode_answer = msgspec.msgpack.Decoder(Answer).decode
_decode = msgspec.msgpack.Decoder(ToSampler).decode


def decode_answer(content: bytes) -> Answer:
    """Read an answer; the parameters are what they were, tuples included."""
    answer = _decode_answer(content)
    return answer if answer.params is None else msgspec.structs.replace(answer, params=exact(answer.params))


def serve(channel: Channel) -> None:
    """Answer until the driver is gone. Once something went wrong, that is the answer to every question."""
    sampler: Any = None
    problem = ""
    while (content := channel.receive()) is not None:
        params: Params | None = None
        message = _decode(content)
        try:
            match message:
                case _ if problem:
                    pass
                case SetUp(sampler=name, space=space, seed=seed):
                    sampler = make_sampler(name, Space.from_dict(space), seed=seed)
                case Tell(told=told):
                    sampler.tell(msgspec.structs.replace(told, params=exact(told.params)))
                case Ask(k=k, redraw=redraw):
                    params = sampler.suggest(k, redraw)
        except Exception:
            problem = traceback.format_exc()
        if isinstance(message, Ask):
            channel.send(encode(Answer(message.k, message.redraw, params, problem)))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as driver:
        try:
            serve(Channel(driver))
        except OSError:
            os._exit(0)  # the driver is gone
