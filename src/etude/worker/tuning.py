"""How the machine is set while an attempt trains, as its run sees it: tuned, or left alone.

What tunes is in ``worker.tuned``, and is loaded only where somebody asks for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from etude.core.system import Order, Taken

T = TypeVar("T")


class Machine(Protocol):
    """The machine of one attempt."""

    def see_data(self, found: Any) -> Any:
        """Take the loaders of what the data function gave in hand."""
        ...

    def see_model(self, built: Any) -> Any:
        """Take a model in hand."""
        ...

    def see_kept(self, things: Mapping[str, Any]) -> None:
        """Take what is kept in hand."""
        ...

    def saves(self, done: int, epochs: int) -> bool:
        """Say whether a state is saved after so many epochs."""
        ...

    def begin(self, epoch: int, epochs: int) -> None:
        """Come to the beginning of an epoch."""
        ...

    def rest(self, *, whole: bool = True) -> float:
        """Tell of the epoch that is over, if one is; return how long it took, in seconds.

        Args:
            whole: Whether it came to its end; not, if the trial was stopped in it.
        """
        ...

    def end(self) -> None:
        """Put everything back."""
        ...


class Advice(Protocol):
    """Whoever decides."""

    def measured(self, taken: Taken) -> None:
        """Take in what an epoch took, without waiting."""
        ...

    def ordered(self, wait_s: float) -> Order | None:
        """Return the newest order, once; wait so long for one that is under way. None if there is none."""
        ...


class Silent:
    """The advice of a rank that does not speak for its trial: it hears what is ordered, and waits for nothing.

    Args:
        advice: Where orders come in.
    """

    def __init__(self, advice: Advice) -> None:
        self._advice = advice

    def measured(self, taken: Taken) -> None:
        """Tell nobody."""

    def ordered(self, wait_s: float) -> Order | None:
        """Return the newest order, once."""
        return self._advice.ordered(0.0)


class NoTuning:
    """A run whose machine is left alone."""

    def see_data(self, found: Any) -> Any:
        """Return the data as it is."""
        return found

    def see_model(self, built: Any) -> Any:
        """Return the model as it is."""
        return built

    def see_kept(self, things: Mapping[str, Any]) -> None:
        """Nothing is taken in hand."""

    def saves(self, done: int, epochs: int) -> bool:
        """Each state is saved."""
        return True

    def begin(self, epoch: int, epochs: int) -> None:
        """Nothing is set."""

    def rest(self, *, whole: bool = True) -> float:
        """Nothing is told."""
        return 0.0

    def end(self) -> None:
        """There is nothing to put back."""


NO_TUNING: Final[Machine] = NoTuning()


class Guarded:
    """The machine of one attempt, whatever goes wrong with it: then it is put back, that is said, and training goes on.

    Args:
        make: Makes the tuning.
        say: Tells users something.
    """

    def __init__(self, make: Callable[[], Machine], say: Callable[[str], None]) -> None:
        self._say = say
        self._own: Machine = NO_TUNING
        self._own = self._do(make, NO_TUNING)

    def see_data(self, found: Any) -> Any:
        """Take the loaders of what the data function gave in hand."""
        return self._do(lambda: self._own.see_data(found), found)

    def see_model(self, built: Any) -> Any:
        """Take a model in hand."""
        return self._do(lambda: self._own.see_model(built), built)

    def see_kept(self, things: Mapping[str, Any]) -> None:
        """Take what is kept in hand."""
        self._do(lambda: self._own.see_kept(things), None)

    def saves(self, done: int, epochs: int) -> bool:
        """Say whether a state is saved after so many epochs."""
        return self._do(lambda: self._own.saves(done, epochs), True)

    def begin(self, epoch: int, epochs: int) -> None:
        """Come to the beginning of an epoch."""
        self._do(lambda: self._own.begin(epoch, epochs), None)

    def rest(self, *, whole: bool = True) -> float:
        """Tell of the epoch that is over, if one is."""
        return self._do(lambda: self._own.rest(whole=whole), 0.0)

    def end(self) -> None:
        """Put everything back."""
        self._do(self._own.end, None)

    def _do(self, act: Callable[[], T], otherwise: T) -> T:
        try:
            return act()
        except Exception as error:
            self._say(
                f"The machine is not tuned any more in this trial, since {type(error).__name__} was raised: {error}"
            )
            own, self._own = self._own, NO_TUNING
            with contextlib.suppress(Exception):
                own.end()
            return otherwise
