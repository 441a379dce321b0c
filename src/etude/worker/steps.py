"""The batches of an epoch, so that a state can be taken between two of them.

    kept = run.keep(net=net, optimizer=optimizer, total=0.0)
    for epoch in run.epochs(10):
        kept.total = 0.0
        for x, y in run.steps(loader, every=200):       # a state after each 200 batches, if the loader has one
            ...
            kept.total += loss.item()

Only the loader knows its place: its worker processes are some batches ahead of the training. So a state has that of the
loader in it. An attempt that goes on from one begins its epoch anew, and what the epoch does before it comes to that
loader is undone there: everything is brought back once more. The loader begins before the generators get their states,
since loaders draw when they begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from etude.core.errors import StateError
from etude.core.text import brief, count
from etude.frameworks import torch_adapter
from etude.frameworks.kinds import Stateful
from etude.frameworks.sources import Source
from etude.worker.kept import Keeper, generators_of

PLACE: Final = "within"
"""Where in a state the place within the epoch is."""

STATELESS: Final = (
    "run.steps goes through a {} without state_dict and load_state_dict, so nothing is saved within its epochs: a "
    "trial that is lost goes on from the end of one. The StatefulDataLoader of torchdata has both."
)
TOGETHER: Final = (
    "run.steps goes through several loaders at the same time, so nothing is saved there. Make one loader of them that "
    "has state_dict and load_state_dict."
)
UNSAVED: Final = (
    "run.steps goes through a {} that shuffles with a generator of its own, which is not saved after epochs: a trial "
    "that is lost then may go on in another order. Make the loader in the data function; or keep it, "
    "run.keep(loader=loader), if it is made before the epochs."
)
SAME: Final = "An attempt has to go through the same loaders as the one before it."

Save = Callable[[int, dict[str, Any]], None]


class Ahead(Protocol):
    """A state from within an epoch."""

    @property
    def epoch(self) -> int:
        """How many epochs are done."""
        ...

    @property
    def batch(self) -> int:
        """How many batches of the next one are done."""
        ...

    @property
    def weights(self) -> dict[str, Any]:
        """The weights."""
        ...

    @property
    def rest(self) -> dict[str, Any]:
        """All else, and the place."""
        ...


class Within:
    """An epoch from within: which of its loaders is gone through, and how far.

    Args:
        keeper: Has what is kept.
        save: Saves all of the run, after so many batches of the epoch, with the place.
        brought_back: Called when all of it is as it was after so many batches.
        warn: Tells users something.
        ahead: The state that the attempt before left within this epoch; None if it left none.

    Attributes:
        ahead: The same, until its loader begins.
    """

    def __init__(
        self,
        keeper: Keeper,
        *,
        save: Save,
        warn: Callable[[str], None],
        brought_back: Callable[[int], None] = lambda batch: None,
        ahead: Ahead | None = None,
    ) -> None:
        self.ahead = ahead
        self._brought_back = brought_back
        self._keeper = keeper
        self._save = save
        self._warn = warn
        self._done = ahead.batch if ahead is not None else 0
        self._calls = 0
        self._going = False  # whether a loader is gone through
        self._others = 0  # how many more are, meanwhile
        self._sources: list[Source] = []  # generators that the epoch has made for itself, outside of its loaders

    def add_source(self, source: Source) -> None:
        """Have the state of a generator saved within this epoch; one that is made for a batch begins anew in each."""
        if not self._going:
            self._sources.append(source)

    def batches(self, loader: Any, every: int) -> Iterator[Any]:
        """Give the batches of a loader, from where the attempt before was; save after each ``every`` of them."""
        if self._going:
            yield from self._beside(loader)
            return
        nth, self._calls = self._calls, self._calls + 1
        saves, done = isinstance(loader, Stateful), 0
        if self.ahead is None:
            self._look_at(loader)
            found = iter(loader)
        elif nth < self.ahead.rest[PLACE]["nth"]:  # it was gone through
            return
        else:
            done, found = self.ahead.rest[PLACE]["done"], self._begin_there(loader, self.ahead)
        self._going = True
        try:
            for batch in found:
                yield batch
                done += 1
                self._done += 1
                if saves and done % every == 0 and not _is_over(loader, done):
                    self._save_at(nth, done, loader)
        finally:
            self._going = False

    def _beside(self, loader: Any) -> Iterator[Any]:
        """Give the batches of a loader that is gone through while another one is."""
        self._others += 1
        try:
            yield from loader
        finally:
            self._others -= 1

    def _look_at(self, loader: Any) -> None:
        if not isinstance(loader, Stateful):
            self._warn(STATELESS.format(type(loader).__name__))
        elif not all(self._keeper.saves(generator) for generator in generators_of(loader)):
            self._warn(UNSAVED.format(type(loader).__name__))

    def _save_at(self, nth: int, done: int, loader: Any) -> None:
        if self._others:
            self._warn(TOGETHER)
            return
        place = {
            "nth": nth,
            "done": done,
            "loader": loader.state_dict(),
            "generators": [generator.get_state() for generator in generators_of(loader)],
            "made": [source.get() for source in self._sources],
        }
        self._save(self._done, place)

    def end(self) -> None:
        """Check that the epoch has come to where the attempt before was.

        Raises:
            StateError: It went through other loaders.
        """
        if self.ahead is not None:
            nth = self.ahead.rest[PLACE]["nth"] + 1
            raise StateError(
                f"The saved state is from within epoch {self.ahead.epoch}, from call {nth} of run.steps, which was "
                f"called {count(self._calls, 'time')} in that epoch now. {SAME}"
            )

    def _begin_there(self, loader: Any, ahead: Ahead) -> Iterator[Any]:
        if not isinstance(loader, Stateful):
            raise StateError(
                f"The saved state is from within epoch {ahead.epoch}, and run.steps goes through {brief(loader)} there "
                f"now, which has no load_state_dict. {SAME}"
            )
        place = ahead.rest[PLACE]
        self._keeper.bring_back(ahead.weights, ahead.rest)
        loader.load_state_dict(place["loader"])
        found: Iterator[Any] = iter(loader)  # type: ignore[call-overload] # a loader that has a state
        for generator, state in zip(generators_of(loader), place["generators"], strict=False):
            torch_adapter().source_of(generator).set(state)
        for source, state in zip(self._sources, place["made"], strict=False):
            source.set(state)
        self._keeper.bring_back_generators(ahead.rest)
        self._brought_back(ahead.batch)
        self.ahead = None
        return found


def _is_over(loader: Any, done: int) -> bool:
    """Whether that was the last batch; the epoch is saved soon then, and not every loader can go on from its end."""
    try:
        return done >= len(loader)
    except (TypeError, NotImplementedError):  # it does not know
        return False
