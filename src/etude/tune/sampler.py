"""Samplers: they propose configurations.

Proposal k depends on the seed, on k, and on what the sampler was told and asked before: never on the clock, on a
generator that lives on, or on how many workers there are. So a sampler that is told and asked the same again proposes
the same again, and that is all that resuming takes.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from etude.core.errors import ConfigError, SpaceError
from etude.core.events import Params
from etude.core.signature import plain
from etude.core.streams import stream, stream_seed
from etude.core.text import brief
from etude.tune.flat import flat, folded, unfolded
from etude.tune.spaces import Space
from etude.tune.values import plain_value


class Told(msgspec.Struct, frozen=True):
    """What a sampler is told of a trial, when it is queued and again when it is settled.

    Attributes:
        trial: The trial's number.
        params: Its configuration.
        state: ``"running"``, ``"finished"``, ``"stopped"``, ``"invalid"`` or ``"failed"``.
        losses: Less is better, one for each metric: the final values if it finished, the last reports if it was
            stopped (infinity for a metric that never came); empty where there are none.
        step: How many reports there were; for a trial with a small budget, on which rung it was.
    """

    trial: int
    params: Params
    state: str = "running"
    losses: tuple[float, ...] = ()
    step: int = 0


class Request(msgspec.Struct, frozen=True):
    """Asks for a proposal.

    Attributes:
        k: Its number: the trial that it will be.
        redraw: 0, or which other one it is to be since those before were already taken.
        space: What may be proposed.
        seed: The seed of the search.
        metrics: How many metrics the study has.
    """

    k: int
    redraw: int
    space: Space
    seed: int
    metrics: int = 1

    def stream(self) -> random.Random:
        """Return a generator for this proposal alone."""
        return stream(self.seed, "search", self.k, self.redraw)

    def stream_seed(self, bits: int = 32) -> int:
        """Return the seed of such a generator, for libraries with generators of their own.

        Args:
            bits: How many bits the seed has: it is from 0 to 2**bits - 1.
        """
        return stream_seed(self.seed, "search", self.k, self.redraw, bits=bits)


class Sampler(Protocol):
    """Proposes configurations.

    It lives in a process of its own and is asked one thing at a time: it is told of a trial when that is queued and
    when it is settled, in the order of the journal, and asked for proposals in between. When a study is resumed, all
    that is repeated in the same order with a new sampler, so equal questions must get equal answers.

    A sampler may have more methods:

    - ``needs_process(k) -> bool``: False if proposal ``k`` depends on its number alone and is made in no time, so that
      the driver makes it where it stands, with a sampler that was told nothing.
    - ``recalls() -> bool``: False if its proposals do not depend on its earlier proposals, so that those need not be
      repeated when a study is resumed.
    - ``why_not(space, metrics) -> str | None``: why it cannot search this space for so many metrics.
    - ``size(space) -> int | None``: after how many proposals it has come to its end, if it has one.
    - ``space_of(k, space) -> Space``: what proposal ``k`` is a configuration of, if not of the whole space.
    - ``ignores_stopped(metrics) -> bool``: True if trials that were stopped, and those with a small budget, tell it
      nothing, so that it cannot be used where most trials are such.

    In these ``k`` is the number of a proposal, from 0, ``space`` the ``Space`` that is searched, and ``metrics`` how
    many metrics the study has. A space that a sampler sees has one plain parameter for each stage of one that changes.
    """

    def tell(self, told: Told) -> None:
        """Take in how a trial stands.

        It is told of each trial twice, when that is queued and when it is settled; also of those that it did not
        propose, as are the first ones of ``start=``.

        Args:
            told: The trial, its configuration, and its losses once it has any.
        """
        ...

    def suggest(self, request: Request) -> Params:
        """Return a proposal.

        Args:
            request: Which one it is, and of which space. Whatever is drawn is drawn from ``request.stream()``, or with
                ``request.stream_seed()``.

        Returns:
            Name -> value, for each parameter that is active. Anything else is refused with a ConfigError.
        """
        ...


def request_of(sampler: Sampler, k: int, redraw: int, space: Space, *, seed: int, metrics: int = 1) -> Request:
    """Return what a sampler is asked for proposal ``k`` of a search."""
    return Request(k, redraw, _optional(sampler, "space_of", space, k, space), seed, metrics)


def needs_process(sampler: Sampler, k: int) -> bool:
    """Say whether proposal ``k`` is made in the sampler's process, which was told of earlier trials."""
    return bool(_optional(sampler, "needs_process", True, k))


def recalls(sampler: Sampler) -> bool:
    """Say whether proposals depend on earlier proposals, and not only on what became of them."""
    return bool(_optional(sampler, "recalls", True))


def why_not(sampler: Sampler, space: Space, metrics: int) -> str | None:
    """Say why a sampler cannot search a space; None if it can."""
    found: str | None = _optional(sampler, "why_not", None, flat(space), metrics)
    return found


def size(sampler: Sampler, space: Space) -> int | None:
    """Return after how many proposals a sampler has come to its end; None if it goes on for ever."""
    own: int | None = _optional(sampler, "size", None, flat(space))
    return own


def ignores_stopped(sampler: Sampler, metrics: int) -> bool:
    """Say whether trials that were stopped, and those with a small budget, tell a sampler nothing."""
    return bool(_optional(sampler, "ignores_stopped", False, metrics))


def plainly(request: Request) -> Request:
    """Return a request as samplers see it: with one plain parameter for each stage of one that changes."""
    return msgspec.structs.replace(request, space=flat(request.space))


def tell(sampler: Sampler, told: Told, space: Space) -> None:
    """Tell a sampler how a trial stands, in the words in which it proposes."""
    of: Space = _optional(sampler, "space_of", space, told.trial, space)
    sampler.tell(msgspec.structs.replace(told, params=unfolded(of, told.params)))


def checked(made: object, sampler: Sampler, request: Request) -> Params:
    """Return what a sampler proposed, once it is known to be a configuration of the space.

    Args:
        made: What it returned when it was asked ``plainly``.
        sampler: Who it was.
        request: What was wanted of it.

    Raises:
        ConfigError: It is none.
    """
    fault = _fault(made, flat(request.space))
    if fault is None:
        assert isinstance(made, Mapping)
        return folded(request.space, {name: plain(value) for name, value in made.items()})
    kind = type(sampler)
    raise ConfigError(
        f"The sampler {kind.__module__}.{kind.__name__} returned {brief(made)} as proposal {request.k}: {fault}. "
        "Return a dict with a value of its domain for every parameter, as request.space.sample(request.stream()) does."
    )


def not_installed(packages: Sequence[str], *, extra: str) -> str | None:
    """Say which of these packages are missing, without importing any; None if none is."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    which = f"{' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
    return f"it needs {which} (pip install 'etude[{extra}]')"


def _fault(made: object, space: Space) -> str | None:
    if not isinstance(made, Mapping):
        return "that is no dict"
    try:
        return space.why_not({name: plain_value(plain(value)) for name, value in made.items()})
    except SpaceError as error:  # what could not be sent, or written down
        return str(error).removesuffix(".")


def _optional(sampler: Sampler, name: str, otherwise: Any, *arguments: Any) -> Any:
    method = getattr(sampler, name, None)
    return method(*arguments) if callable(method) else otherwise
