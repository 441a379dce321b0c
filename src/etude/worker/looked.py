"""What an attempt's data is: joined if it is to be, looked at for rows that the weights know, and remembered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from etude.core.errors import ResultError, StateError
from etude.core.events import START, Start
from etude.data.joined import joined
from etude.data.leaks import judge
from etude.data.seen import Seen, see

NOTHING: Final = Seen(unknown=("its training function asked for no data()",))


class Looked:
    """The data of one attempt.

    Args:
        folder: The trial's.
        start: The weights that it begins with; None if they are random.
        joins: Whether the training function gets the training and the validation part as one.
        say: Tells users something.
    """

    def __init__(self, folder: Path, start: Start | None, *, joins: bool, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._start = start
        self._joins = joins
        self._say = say
        self._found: list[Any] = []  # what data() returned, once it did

    def take(self, found: Any) -> Any:
        """Take in what the data function returned, and return what is used of it.

        Raises:
            ResultError: The parts cannot be joined, or the weights know the rows that the training is judged by.
        """
        found = joined(found) if self._joins else found
        self._found = [found]
        if self._start is not None:
            finding = judge(found, self._before(), name=self._start.name)
            if finding.refusal:
                raise ResultError(finding.refusal)
            for note in finding.notes:
                self._say(note)
        return found

    def seen(self) -> Seen:
        """Return what rows are seen by who trains on it, and were by those whose weights it begins with."""
        seen = see(self._found[0]) if self._found else NOTHING
        return seen | self._before() if self._start is not None else seen

    def _before(self) -> Seen:
        from etude.frameworks import state_file

        try:
            return Seen.read(state_file.beside(self._folder / START))
        except StateError:
            return Seen.read(None)  # what is wrong with the file is said when the weights are read
