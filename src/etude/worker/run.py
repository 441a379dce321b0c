"""The run handle: what a training function can ask and tell while it runs."""

from __future__ import annotations

import copy
import random
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Never, NoReturn, Protocol, TypeVar

from etude.core.errors import ResultError, StateError
from etude.core.numbers import whole
from etude.core.streams import stream_seed
from etude.core.text import brief
from etude.frameworks import torch_adapter
from etude.frameworks.sources import Source
from etude.worker.alone import ALONE, Alone
from etude.worker.importance import NO_IMPORTANCE, Importance, NoImportance
from etude.worker.kept import Keeper, Kept
from etude.worker.probing import Probing
from etude.worker.result import as_number
from etude.worker.seeds import seed_generators
from etude.worker.steps import PLACE, Within
from etude.worker.tuning import NO_TUNING, Machine

if TYPE_CHECKING:
    import numpy as np

    from etude.worker.together import Together

T = TypeVar("T")
L = TypeVar("L")


MEAN: Final = "run.mean"
IMPORTANCE: Final = "importance"
"""Where in a state the importance of examples is."""


class Stop(BaseException):
    """The study wants this attempt to end. No ``except Exception`` swallows it."""


class Hold(BaseException):
    """The study wants this attempt to pause."""


class State(NamedTuple):
    """All of a run between two epochs or two batches, for another process to go on from there.

    Attributes:
        loop: Which call of ``run.epochs`` it is in, from 0.
        epoch: How many epochs of that one are done.
        step: How many reports of the watched metric were sent.
        last: The newest value of each metric.
        weights: The states of the modules that are kept, by name.
        rest: The states of all else (``worker.kept``), of how many epochs the loop was to have, and whether it is over
            though it had some left. Of one within an epoch also the place there (``worker.steps``).
        source: The earlier trial whose it is; None if it is this one's.
        batch: How many batches of the next epoch are done; 0 between two epochs.
    """

    loop: int
    epoch: int
    step: int
    last: dict[str, float]
    weights: dict[str, Any]
    rest: dict[str, Any]
    source: int | None = None
    batch: int = 0

    def is_before(self, n: int) -> bool:
        """Whether its loop has anything left to do of ``n`` epochs."""
        return self.epoch < n and not self.rest.get("over")


WhyNot = Callable[[State], str | None]
"""Says why a state is of no use: empty if nobody needs to hear of it, None if it is of use."""

OTHERWISE: Final = (
    "what is kept began otherwise there, as a schedule does that is made for so many epochs, or nobody can tell how it "
    "began, as with trainers that make their own. Make it for as many as there may be at most"
)
"""Why one trial cannot go on from the state of another."""

SEVERAL: Final = "it was in a later one of several loops of run.epochs, and nothing says how far the first is to go"


class Line(Protocol):
    """What connects a run handle to the study."""

    halted: bool
    held: bool

    def report(self, step: int, metrics: dict[str, float]) -> None:
        """Pass a report on, without waiting."""
        ...

    def take_up(self, why_not: WhyNot) -> State | None:
        """Return the newest state that earlier attempts left, and that is of use; None to begin at the start.

        It is asked once.
        """
        ...

    def save(self, state: State) -> None:
        """Have a state written down, without waiting; one that is still to be written gives way to it."""
        ...

    def turn(self, at: str) -> None:
        """Come to a place in the training, in words: if there are several ranks, all of them do."""
        ...

    def settle(self) -> None:
        """Wait until the newest state is written down, if that can be."""
        ...

    def warn(self, text: str) -> None:
        """Have users told something, without waiting; what all trials say is told once."""
        ...


class NoLine:
    """A plain call, with nobody at the other end."""

    halted: bool = False
    held: bool = False

    def report(self, step: int, metrics: dict[str, float]) -> None:
        """Forget the report."""

    def take_up(self, why_not: WhyNot) -> State | None:
        """There was no attempt before this one."""
        return None

    def save(self, state: State) -> None:
        """Forget the state."""

    def turn(self, at: str) -> None:
        """There is nobody else."""

    def settle(self) -> None:
        """There is nothing to wait for."""

    def warn(self, text: str) -> None:
        """Nobody is there to be told."""


class Run:
    """One run of the training function.

    Attributes:
        params: The configuration, defaults included.
        seed: The training seed.
        trial: The trial's number in its study; None in a plain call.
        epoch: The epoch that ``epochs`` gave out last, from 0; None before the first.
        device: Where batches and models are: ``"cpu"``, ``"cuda"``, ...
        rank: Which of the processes that train this trial together it is, from 0.
        ranks: How many there are.
    """

    def __init__(
        self,
        *,
        metrics: Sequence[str],
        watched: str | None = None,
        params: Mapping[str, Any],
        seed: int,
        trial: int | None = None,
        folder: Callable[[], Path] = Path,
        device: str = "cpu",
        line: Line | None = None,
        probing: Probing | None = None,
        inherits: Callable[[], Mapping[str, Any]] = dict,
        together: Together | Alone = ALONE,
        auto_report: bool = False,
    ) -> None:
        self.params = dict(params)
        self.seed = seed
        self.trial = trial
        self.epoch: int | None = None
        self.device = device
        self.together = together
        """What it does with the other ranks; our own part of the handle."""
        self.rank, self.ranks = together.number, together.ranks
        self.importance: Importance | NoImportance = NO_IMPORTANCE
        """Which examples are whose, by what the criterion sees; our own part of the handle."""
        self.tuning: Machine = NO_TUNING
        """How the machine is set while it trains; our own part of the handle."""
        self.probing = probing
        """How much it trains, if it only shows how a run would begin; our own part of the handle."""
        self.stop_seen = False
        self.last: dict[str, float] = {}
        """The newest value of each metric that was reported."""
        self.auto_report = auto_report
        """Whether trainers of models that the model function returns are reported unasked; our own part."""
        self.judged = 0
        """How many reports had one of the metrics in them; our own part of the handle."""
        self.logged: set[str] = set()
        """Names under which a trainer of somebody else's has logged numbers; our own part of the handle."""
        self.metrics = tuple(metrics)
        """Names of the study's metrics, the main one first."""
        self._watched = watched or self.metrics[0]
        self._step = 0
        self._folder = folder
        self._line: Line = line if line is not None else NoLine()
        self._inherits = inherits  # the states of optimizers that go with the weights that the run begins with
        self.keeper = Keeper()
        """What the training function keeps; our own part of the handle."""
        self._took_up = False
        self._before: State | None = None
        self._ahead: State | None = None  # was saved within an epoch, whose loader has not begun yet
        self._within: Within | None = None
        self._loops = 0
        self._depth = 0  # of loops of epochs
        self._outermost = -1  # which of those that are in no other one it is in, or was last
        self._place: tuple[int, ...] = ()  # where this rank last drew from streams of its own
        self._asked: Counter[str] = Counter()
        self._own_streams: list[tuple[str, Callable[[int], None]]] = []  # generators by name, and what seeds them anew

    def report(self, metrics: Mapping[str, float] | None = None, /, *more: Never, **named: float) -> None:
        """Report metrics, and stop here if the study says so. Never waits.

        Args:
            metrics: Name -> value, where a name is no Python identifier.
            more: Nothing: who reports a value and a step, as elsewhere, is told how it goes here.
            named: The same as keywords: ``run.report(accuracy=0.9, loss=0.3)``. A value is a number, or
                anything with one element that ``float`` takes. NaN counts as worst.

        Raises:
            ResultError: A value is no number, or has no name.
        """
        if more:
            raise ResultError(
                f"run.report got {1 + len(more)} values without a name. Name what you report: "
                f"run.report({self._watched}=...). Steps are counted here, so no step is given: each report of "
                f"{self._watched!r} is one."
            )
        values = named if metrics is None else {**self._by_name(metrics), **named}
        for name, value in values.items():
            if type(value) is not float:
                values[name] = self._number(name, value)
        redone = self._within is not None and self._within.ahead is not None  # the attempt before has reported it
        if values and not redone:
            self._step += self._watched in values
            self.judged += not values.keys().isdisjoint(self.metrics)
            self.last.update(values)
            self._line.report(self._step, values)
        if self.probing is not None:
            if self.probing.ends_by_report:
                self.end_reported_probe()
        elif self._line.halted:
            self._stop()

    def keep(self, **things: Any) -> Kept:
        """Keep objects and values from one attempt to the next; ``epochs`` saves them and brings them back.

        Args:
            things: Anything with ``state_dict`` and ``load_state_dict`` (modules, optimizers, schedulers, scalers);
                Keras models, optimizers and callbacks; scikit-learn estimators with ``partial_fit``, or with
                ``warm_start=True``; and plain values: numbers, texts, arrays, and dicts and lists of them.

        Returns:
            All of them as attributes. A plain value is changed by setting it: ``kept.best = 0.9``.

        Raises:
            StateError: One of them could not be saved.
        """
        self._make_ready()
        self.tuning.see_kept(things)
        return self.keeper.keep(things)

    def epochs(self, n: int) -> Generator[int, bool | None, None]:
        """Give the epochs 0 ... n - 1, and stop or pause between them if the study says so.

        With something kept, each end of an epoch is saved, and the next attempt begins after the last that was: with
        what is kept, and all random generators, as they were then. Whoever is no for-loop may send True for an epoch
        after which there is no other.
        """
        if self.probing is not None and not self.probing.begun:
            yield from self._probed(self.probing, n)
            return
        keeps = self.keeper.kept is not None and self._within is None
        loop, self._loops = self._loops, self._loops + keeps
        is_outermost = not self._depth
        self._outermost += is_outermost
        for epoch in range(self._go_on(loop, n) if keeps else 0, n):
            self._look_who_waits()
            self.epoch = epoch
            within = self._look_within(loop, epoch, n) if keeps else None
            self._within = self._within or within
            if is_outermost:  # epochs within epochs are none of the training's
                self._draw_anew(epoch)
                self.importance.begin(epoch, n)
                self.tuning.begin(epoch, n)
            self._depth += 1
            try:
                over = yield epoch
            finally:
                self._depth -= 1
                self._within = None if within is not None else self._within
            self._line.turn("the end of an epoch")
            if within is not None:
                within.end()
                if over or self._line.held or (self.keeper.due and self.tuning.saves(epoch + 1, n)):
                    self._line.save(self._state(loop, epoch + 1, n, over=bool(over)))
            if is_outermost and (over or epoch + 1 == n):
                self.tuning.rest()
            if over:
                return

    def _look_who_waits(self) -> None:
        """Stop or pause between two epochs, if the study says so; the one that is over is told of."""
        if not (self._line.halted or self._line.held):
            return
        if not self._depth:
            self.tuning.rest()
        if self._line.halted:
            self._stop()
        self._line.settle()
        raise Hold

    def _probed(self, probing: Probing, n: int) -> Generator[int, bool | None, None]:
        """Give the first epoch of n alone."""
        if n > 0:
            probing.begin(n)
            self._took_up = True
            self.keeper.inherit(self._inherits())
            self.epoch = 0
            yield 0
            self.end_probe()

    def end_reported_probe(self) -> None:
        """End a probe if it has shown what it was to show."""
        if self._step:
            self._stop()

    def end_probe(self) -> NoReturn:
        """End a probe: it has shown what it was to show.

        Raises:
            ResultError: It has not.
        """
        if not self._step:
            raise ResultError(
                f"A probe goes by what is reported after the first epoch, and {self._watched!r} was not. Report it "
                f"after each epoch, run.report({self._watched}=...), or say what the training is to begin with: "
                "weights=search.best.weights."
            )
        self._stop()

    def criterion(
        self,
        loss: L,
        *,
        per_example: Callable[..., Any] | None = None,
        flattened: Literal["batch_first", "time_first"] | None = None,
    ) -> L:
        """Return a loss as it is, and have what it sees of each example remembered, if anybody wants to know.

        Its values and gradients stay what they are, bit by bit. Without a partition (``fit(partition=...)``) nothing
        is done at all.

        Args:
            loss: A module or a function, as ``nn.CrossEntropyLoss()`` or ``F.mse_loss``. The first call after each
                batch counts, if gradients are wanted.
            per_example: Called as the loss is, returns one number for each example; for losses that cannot give that
                with ``reduction="none"``.
            flattened: Where the loss is given several rows for each example, as tokens in ``logits.view(-1, V)``:
                ``"batch_first"`` if those of an example follow each other, ``"time_first"`` if the first ones of all
                examples come first.

        Raises:
            ConfigError: The loss gives no number for each example.
        """
        watched: L = self.importance.criterion(loss, per_example=per_example, flattened=flattened)
        return watched

    def steps(self, loader: Iterable[T], *, every: int = 200) -> Iterator[T]:
        """Give the batches of a loader, and stop between them if the study says so.

        Within ``epochs`` and with something kept, all of it is saved after each ``every`` batches, if the loader has
        ``state_dict`` and ``load_state_dict``, as the StatefulDataLoader of torchdata has. The next attempt begins in
        that epoch then, after the batch at which it was saved. Variables of the training function are lost, as far
        as they are not kept: ``kept.total += loss.item()``. With another loader only ends of epochs are saved, and a
        note says so.

        Args:
            loader: Gives the batches.
            every: How many batches lie between two states.

        Raises:
            ConfigError: ``every`` is no whole number from 1.
            StateError: A state is from within this epoch, and the loader cannot go on from it.
        """
        every = whole("every", every, 1, "so many batches lie between two states")
        return self._stoppable(self._within.batches(loader, every) if self._within is not None else iter(loader))

    def _stoppable(self, batches: Iterator[T]) -> Iterator[T]:
        for batch in batches:
            if self._line.halted and self.probing is None:
                self._stop()
            yield batch

    def _look_within(self, loop: int, epoch: int, n: int) -> Within:
        def save(batch: int, place: dict[str, Any]) -> None:
            self._line.save(self._state(loop, epoch, n, batch=batch, place=place))
            self._draw_anew(epoch, batch)

        def brought_back(batch: int) -> None:
            self._draw_anew(epoch, batch)

        ahead, self._ahead = self._ahead, None
        return Within(self.keeper, save=save, brought_back=brought_back, warn=self._line.warn, ahead=ahead)

    def _draw_anew(self, *place: int) -> None:
        """Have a rank that is not the first draw from streams of this place, so that its generators need no saving.

        States are those of rank 0, and so are the generators that come back with them.
        """
        self._place = place
        if self.rank and not self.together.draws_alike:
            where = (self._outermost, *place)
            seed_generators(self.seed, *self.together.stream("train"), *where)
            for name, seed_anew in self._own_streams:
                seed_anew(stream_seed(self.seed, *self.together.stream("user", name), *where))

    def bring_back_again(self) -> None:
        """Bring back once more what was brought back: a trainer draws, and resets, before it begins."""
        self.keeper.again()
        self.together.remember()
        self._draw_anew(*self._place)

    def reduced(self, returned: Any, value: float, extra: Mapping[str, Any]) -> tuple[float, dict[str, Any]]:
        """Return the metrics of the result as they are for all ranks, and the rest as it is; our own part.

        What was reported, and counts where nothing is returned, is of all ranks by now.
        """
        if returned is None:
            self.together.reduce("an end without a result", {})
            return value, dict(extra)
        main, *others = self.metrics
        agreed = self.together.reduce("an end with a result", {main: value, **{name: extra[name] for name in others}})
        return agreed[main], {**extra, **{name: agreed[name] for name in others}}

    def mean(self, value: float) -> float:
        """Return the mean of a number over all ranks; alone, the number. It waits for the others.

        For what the training function decides by a number that each rank finds for itself, such as a training loss:
        all ranks have to decide alike. ``run.report`` needs none of this.

        Raises:
            ResultError: It is no number.
        """
        return self.together.reduce(MEAN, {MEAN: self._number("value", value)})[MEAN]

    def finish(self) -> None:
        """Come to the end, together with all other ranks; our own part of the handle."""
        self._line.turn("the end of the training")

    def check_inherited(self) -> None:
        """Make sure that what comes with the weights has been taken.

        Raises:
            StateError: It has not.
        """
        if not self._took_up and self._inherits():
            raise StateError(
                "The run was to begin with the state of an optimizer, and never asked for it. Keep the optimizer, "
                "run.keep(optimizer=optimizer), and train in run.epochs(n); or leave .with_optimizer() out."
            )

    def _make_ready(self) -> None:
        """Load what saving takes. If numpy comes with it, its global generator is as if it had been there before."""
        from etude.frameworks import state_file

        has_numpy = "numpy" in sys.modules
        state_file.make_ready()
        if not has_numpy:
            import numpy as np

            np.random.seed(stream_seed(self.seed, "train", bits=32))

    def _go_on(self, loop: int, n: int) -> int:
        """Return with which epoch a loop begins; everything is as it was then.

        If it was over already, its last epoch is done again: what comes after may use what the loop has made.
        """
        if not self._took_up:
            self._took_up = True
            self.keeper.begin()
            self._before = self._line.take_up(lambda state: self._why_not(state, loop, n))
            if self._before is None:
                self.keeper.inherit(self._inherits())
        before = self._before
        if before is None:
            return 0
        if loop < before.loop:  # it was over
            return sys.maxsize
        self._before = None
        if before.batch:
            self._ahead, before = before, copy.deepcopy(before)  # it is brought back twice
        self.keeper.bring_back(before.weights, before.rest)
        self.together.remember()
        self.importance.restore(before.rest.get(IMPORTANCE))
        self._step, self.last = before.step, dict(before.last)
        return before.epoch

    def _why_not(self, state: State, loop: int, n: int) -> str | None:
        """Say why not to go on from a state; from another trial's only if what is kept began there as it does here."""
        if state.source is None:
            return None if state.is_before(state.rest.get("of", n)) else ""  # it was over: do the last again
        if state.loop != loop:
            return SEVERAL
        if not state.is_before(n):
            return ""
        began_alike = self.keeper.beginning and state.rest.get("beginning") == self.keeper.beginning
        return None if began_alike else OTHERWISE

    def _state(
        self, loop: int, epoch: int, n: int, *, over: bool = False, batch: int = 0, place: dict[str, Any] | None = None
    ) -> State:
        rest = {**self.keeper.rest(), "of": n, "over": over, **({PLACE: place} if place is not None else {})}
        if (importance := self.importance.state()) is not None:
            rest[IMPORTANCE] = importance
        return State(loop, epoch, self._step, dict(self.last), self.keeper.weights(), rest, batch=batch)

    @property
    def is_in_epochs(self) -> bool:
        """Whether an epoch is being trained; our own part of the handle."""
        return self._depth > 0

    def say(self, text: str) -> None:
        """Have users told something, once; our own part of the handle."""
        self._line.warn(text)

    def log(self, *words: object) -> None:
        """Write a line to the attempt's log."""
        print(*words, flush=True)  # noqa: T201 - the attempt's standard output is its log

    @property
    def folder(self) -> Path:
        """A folder for this attempt's files; in a plain call the current one. Made when first asked for."""
        return self._folder()

    def generator(self, name: str) -> np.random.Generator:
        """Return a random generator of its own for ``name``: equal for equal seeds, whatever else draws."""
        import numpy as np

        generator = np.random.default_rng(stream_seed(self.seed, *self.together.stream("user", name)))
        bits = generator.bit_generator
        self._own_streams.append(
            (name, lambda seed: setattr(bits, "state", np.random.default_rng(seed).bit_generator.state))
        )
        self._keep_source(f"numpy {name}", Source(lambda: bits.state, lambda state: setattr(bits, "state", state)))
        return generator

    def random(self, name: str) -> random.Random:
        """Return the same as a generator of the standard library."""
        generator = random.Random(stream_seed(self.seed, *self.together.stream("user", name)))
        self._own_streams.append((name, generator.seed))
        self._keep_source(f"python {name}", Source(generator.getstate, generator.setstate))
        return generator

    def _keep_source(self, name: str, source: Source) -> None:
        """Save a generator with the rest; one that an epoch makes for itself begins anew in each."""
        if self._within is not None:
            self._within.add_source(source)
        else:
            self.keeper.add_source(f"generator {name} {self._asked[name]}", source)
            self._asked[name] += 1

    def _stop(self) -> NoReturn:
        if not self.stop_seen:
            self._line.turn("a stop")
        self.stop_seen = True
        raise Stop

    def _by_name(self, metrics: Any) -> dict[str, Any]:
        if not isinstance(metrics, Mapping):
            raise ResultError(
                f"run.report got {brief(metrics)}, which has no name. Name what you report: "
                f"run.report({self._watched}=...)."
            )
        for name in metrics:
            if not isinstance(name, str):
                raise ResultError(
                    f"run.report got {brief(name)} as the name of a metric, and a name is a str. "
                    f"Write run.report({{{str(name)!r}: ...}})."
                )
        return {str(name): value for name, value in metrics.items()}

    def _number(self, name: str, value: Any) -> float:
        try:
            return as_number(value)
        except (TypeError, ValueError) as error:
            raise ResultError(
                f"run.report({name}=...) got {brief(value)}, which is no single number ({error}). "
                "Report a number: .mean() or .item() makes one of a tensor."
            ) from None


def default_device() -> str:
    """Return where models and batches belong: the first GPU that torch sees, if the user's code has loaded torch."""
    torch = torch_adapter()
    return torch.default_device() if torch else "cpu"
