"""What an attempt's data is: joined if it is to be, looked at for rows that the weights know, and remembered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from etude.core.errors import ResultError, StateError
from etude.core.events import START, Start
from etude.data.joined import joined
from etude.data.leaks import judge
from etude.data.prints import Prints, prints_of
from etude.data.seen import Rows, Seen, read_rows, see
from etude.frameworks import torch_adapter

NOTHING: Final = Seen(unknown=("the training function asked for no data()",))


class Looked:
    """The data of one attempt.

    Args:
        trials: The folder of all attempts.
        start: The weights that it begins with; None if they are random.
        joins: Whether the training function gets the training and the validation part as one.
        may_keep: Whether the training function has the means to keep weights.
        say: Tells users something.
    """

    def __init__(
        self, trials: str, start: Start | None, *, joins: bool, may_keep: bool, say: Callable[[str], None]
    ) -> None:
        self._trials = trials
        self._start = start
        self._joins = joins
        self._may_keep = may_keep
        self._say = say
        self._found: list[Any] = []  # what data() returned, once it did
        self._rows: Rows | None = None
        self.prints: Prints = {}
        """The fingerprints of the parts of the data that there were, once it was taken in."""

    def take(self, found: Any) -> Any:
        """Take in what the data function returned, and return what is used of it.

        Raises:
            ResultError: The parts cannot be joined, or the weights know the rows that the training is judged by.
        """
        found = joined(found) if self._joins else found
        self._found = [found]
        self.prints = prints_of(found)
        if self._start is not None or (self._may_keep and torch_adapter() is not None):
            self._rows = read_rows(found)  # at once: a training function may change its arrays where they are
        if self._start is not None and self._rows is not None:
            finding = judge(self._rows, self._before(), name=self._start.name)
            if finding.refusal:
                raise ResultError(finding.refusal)
            for note in finding.notes:
                self._say(note)
        return found

    def seen(self) -> Seen:
        """Return what rows are seen by who trains on it, and were by those whose weights it begins with."""
        if self._rows is None and self._found:
            self._rows = read_rows(self._found[0])
        seen = see(self._rows) if self._rows is not None else NOTHING
        return seen | self._before() if self._start is not None else seen

    def _before(self) -> Seen:
        from etude.frameworks import state_file

        if self._start is None:
            return Seen()
        try:
            return Seen.read(state_file.beside(Path(self._trials, f"{self._start.holder:05d}", START)))
        except StateError:
            return Seen.read(None)  # what is wrong with the file is said when the weights are read
