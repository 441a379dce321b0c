"""A partition at work in a run: what the criterion saw goes in, and which examples are whose comes out.

It is the thread that joins three that do not know each other: the partition (``fit.importance``), which reaches a
worker with the user's functions alone; the loader and the criterion, as their framework has them; and the epochs of
the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from etude.core.errors import ResultError
from etude.core.text import count
from etude.worker.ranks import Examples, Ranks

NO_CRITERION: Final = (
    "A partition by importance goes by what the criterion sees, and run.criterion was not called. Write "
    "criterion = run.criterion(nn.CrossEntropyLoss()), and compute the training loss with it."
)
SEVERAL_LOOPS: Final = (
    "A partition counts the epochs of one loop, and the training function has several loops of run.epochs, one after "
    "the other. Train in one."
)
NEVER: Final = (
    "The partition never assigns anything: the training has {epochs}, and its warm-up takes all of them, so that every "
    "rank has any example. Train for longer, or pass a smaller warmup=."
)
NO_EPOCHS: Final = (
    "A partition assigns examples between epochs, and the training function never asked for one. Train in "
    "run.epochs(n)."
)


class Tracker(Protocol):
    """What a rank knows of the examples (``fit.importance.tracker``)."""

    def records(self, epoch: int) -> bool:
        """Say whether what is seen in an epoch has to be recorded."""
        ...

    @property
    def assigns(self) -> bool:
        """Whether it assigns anything in as many epochs as there are to be."""
        ...

    def saw(self, epoch: int, ids: Any, values: Mapping[str, Any]) -> None:
        """Take what this rank saw in an epoch."""
        ...

    def begin(self, epoch: int) -> Any:
        """Return the assignment that holds from this epoch on, if it begins one."""
        ...

    def state(self) -> dict[str, Any]:
        """Return what an attempt needs to go on."""
        ...

    def hand_over(self) -> bytes:
        """Return what was seen, for another rank to keep, and forget it."""
        ...

    def take_over(self, packed: bytes) -> None:
        """Take in what another rank handed over."""
        ...

    def restore(self, states: Sequence[Mapping[str, Any]], *, books: bool) -> None:
        """Go on from what was saved; one of the ranks takes the books."""
        ...

    @property
    def parts(self) -> Any:
        """The ids of each rank's examples; None if every rank may have any."""
        ...


class Asked(Protocol):
    """The partition of a trial (``fit.importance.asked``)."""

    partition: Any
    judged: bool
    needs: frozenset[str]
    wants: frozenset[str]

    def imbalance(self, parts: Any, labels: Any) -> float:
        """Return how far the classes of a rank are from those of all examples, of the rank where they are farthest."""
        ...

    def tracker(
        self, *, n: int, ranks: int, exchange: Callable[[bytes], Sequence[bytes]], seed: int, epochs: int
    ) -> Any:
        """Return what puts it together on one rank."""
        ...


class Importance:
    """The partition of one trial, on one of its ranks.

    Args:
        asked: The partition.
        ranks: All of them.
        seed: The trial's seed.
        say: Tells users something.
    """

    def __init__(self, asked: Asked, ranks: Ranks, *, seed: int, say: Callable[[str], None]) -> None:
        self._asked = asked
        self._all = ranks
        self._seed = seed
        self._say = say
        self._watch = ranks.watch(asked.needs, asked.wants)
        self._examples: Examples | None = None
        self._tracker: Tracker | None = None
        self._epoch: int | None = None
        self._restored: Mapping[str, Any] | None = None
        self._moved = 0
        self._assigned = 0
        self._imbalance = 0.0

    def see(self, data: Any) -> None:
        """Take in what the data function gave, with its loaders divided."""
        self._examples = self._all.examples(data, self._watch)

    def criterion(self, loss: Any, **settings: Any) -> Any:
        """Return a loss that is watched."""
        return self._all.criterion(loss, self._watch, **settings)

    def begin(self, epoch: int, epochs: int) -> None:
        """Come to the beginning of an epoch: examples are assigned anew if it is time."""
        if self._examples is None:
            return
        if self._epoch is not None and epoch <= self._epoch:
            raise ResultError(SEVERAL_LOOPS)
        tracker = self._made(epochs)
        self._take_in()
        self._epoch = epoch
        assignment = tracker.begin(epoch)
        if assignment is not None:
            self._assigned += 1
            self._moved += assignment.moved if self._assigned > 1 else 0
            for note in assignment.notes:
                self._say(note)
            if self._asked.judged and self._examples.labels is not None:
                self._imbalance = max(self._imbalance, self._asked.imbalance(assignment.parts, self._examples.labels))
            self._examples.assign(assignment.parts)
        self._examples.record(tracker.records(epoch))

    def state(self) -> Any:
        """Return what the next attempt needs to go on; all ranks call it."""
        if self._tracker is None:
            return None
        import numpy as np

        self._take_in()
        leads = self._all.rank == 0
        for book in self._all.gather(b"" if leads else self._tracker.hand_over(), "the importance of examples"):
            if leads and book:
                self._tracker.take_over(book)
        state = self._tracker.state()
        numbers = [self._moved, self._assigned, self._imbalance]
        return {**state, "book": np.frombuffer(state["book"], dtype=np.uint8), "of": numbers}

    def restore(self, state: Any) -> None:
        """Go on from a state."""
        if state is not None:
            self._restored = state
            self._moved, self._assigned, self._imbalance = state["of"]

    def told(self) -> dict[str, float]:
        """Return what came of it, beside the metrics of the trial.

        Raises:
            ResultError: It was never at work.
        """
        if self._tracker is None or self._examples is None:
            raise ResultError(NO_EPOCHS)
        knows = self._asked.judged and self._examples.labels is not None
        return {
            "repartitions": self._assigned,
            "examples_moved": self._moved,
            **({} if (each := self._examples.example_b) is None else {"bytes_moved": self._moved * each}),
            **({"class_imbalance": self._imbalance} if knows else {}),
        }

    def _made(self, epochs: int) -> Tracker:
        assert self._examples is not None
        import numpy as np

        if self._tracker is None:
            self._tracker = self._asked.tracker(
                n=self._examples.n,
                ranks=self._all.ranks,
                exchange=partial(self._all.gather, what="the importance of examples"),
                seed=self._seed,
                epochs=epochs,
            )
            if not self._tracker.assigns:
                said = NEVER.format(epochs=count(epochs, "epoch"))
                if self._asked.judged:  # what does nothing cannot be judged
                    raise ResultError(said)
                self._say(said)
            if self._restored is not None:
                # What all had seen is rank 0's from now on: whose it is does not matter, since it is put together.
                state = {**self._restored, "book": np.asarray(self._restored["book"], dtype=np.uint8).tobytes()}
                self._tracker.restore([state], books=self._all.rank == 0)
                if self._tracker.parts is not None:
                    self._examples.assign(self._tracker.parts)
        return self._tracker

    def _take_in(self) -> None:
        """Write down what was seen in the epoch that has ended."""
        if self._epoch is None or self._tracker is None or not self._tracker.records(self._epoch):
            return
        assert self._examples is not None
        if self._asked.needs and not self._examples.called:
            raise ResultError(NO_CRITERION)
        taken = self._examples.take()
        self._tracker.saw(self._epoch, taken.ids, taken.values)
        for note in taken.notes:
            self._say(note)


class NoImportance:
    """A run without a partition."""

    def see(self, data: Any) -> None:
        """Nobody wants to know."""

    def criterion(self, loss: Any, **settings: Any) -> Any:
        """Return the loss as it is."""
        return loss

    def begin(self, epoch: int, epochs: int) -> None:
        """Nothing is assigned."""

    def state(self) -> Any:
        """There is nothing to go on from."""
        return None

    def restore(self, state: Any) -> None:
        """There is nothing to go on from."""

    def told(self) -> dict[str, float]:
        """There is nothing to tell."""
        return {}


NO_IMPORTANCE: Final = NoImportance()
