"""The sampler's process: it thinks about the next proposal while the driver does something else.

A sampler that models past trials takes milliseconds to seconds for a proposal. In the driver's process
it would hold the interpreter lock and with it every free worker, so it lives in one of its own. It is
told of trials in the order of the journal, and asked for proposals in between.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import traceback
from typing import Any

import msgspec

from etude.core.errors import ConfigError
from etude.core.events import Params
from etude.core.exact import exact
from etude.tune.sampler import Sampler, Told, checked, plainly, request_of, tell
from etude.tune.samplers import SAMPLERS
from etude.tune.spaces import Space
from etude.wire.channel import Channel
from etude.wire.search_path import search_path


class SetUp(msgspec.Struct, frozen=True, tag="setup"):
    """Which sampler, for which space.

    Attributes:
        space: The space as plain data.
        seed: The seed of the search.
        metrics: How many metrics the study has.
        sampler: One of Étude's samplers, as plain data.
        pickled: A sampler of the user's own, pickled by value by our driver.
        path: Where Python finds the modules that it needs.
    """

    space: dict[str, Any]
    seed: int
    metrics: int = 1
    sampler: dict[str, Any] | None = None
    pickled: bytes = b""
    path: tuple[str, ...] = ()

    @classmethod
    def of(cls, sampler: Sampler, space: Space, *, seed: int, metrics: int) -> SetUp:
        """Return how to make this sampler anew, in another process."""
        plain, pickled = SAMPLERS.to_plain(sampler), b""
        if plain is None:
            import cloudpickle

            pickled = cloudpickle.dumps(sampler)
        return cls(space.to_dict(), seed, metrics, plain, pickled, search_path())

    def make(self) -> Sampler:
        """Return the sampler, new."""
        if self.sampler is not None:
            return SAMPLERS.from_plain(self.sampler)
        sys.path[:] = [*self.path, *(place for place in sys.path if place not in self.path)]
        made: Sampler = pickle.loads(self.pickled)  # from our driver alone  # noqa: S301
        return made


class Tell(msgspec.Struct, frozen=True, tag="tell"):
    """How a trial stands."""

    told: Told


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """Asks for proposal ``k``; ``again`` if that is known, and the sampler only to be brought to where it was."""

    k: int
    redraw: int
    again: bool = False


class Answer(msgspec.Struct, frozen=True):
    """Proposal ``k``; or ``problem``, why there is none: a traceback, or if ``refused`` a message that says it all."""

    k: int
    redraw: int
    params: Params | None = None
    problem: str = ""
    refused: bool = False


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
    space: Any = None
    set_up: Any = None
    problem = ""
    refused = False
    while (content := channel.receive()) is not None:
        params: Params | None = None
        message = _decode(content)
        try:
            match message:
                case _ if problem:
                    pass
                case SetUp():
                    set_up, sampler, space = message, message.make(), Space.from_dict(message.space)
                case Tell(told=told):
                    tell(sampler, msgspec.structs.replace(told, params=exact(told.params)), space)
                case Ask(k=k, redraw=redraw):
                    request = request_of(sampler, k, redraw, space, seed=set_up.seed, metrics=set_up.metrics)
                    made = sampler.suggest(plainly(request))
                    try:
                        params = checked(made, sampler, request)
                    except ConfigError as error:
                        problem, refused = str(error), True
        except Exception:
            problem = traceback.format_exc()
        if isinstance(message, Ask) and not message.again:
            channel.send(encode(Answer(message.k, message.redraw, params, problem, refused)))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as driver:
        try:
            serve(Channel(driver))
        except OSError:
            os._exit(0)  # the driver is gone
