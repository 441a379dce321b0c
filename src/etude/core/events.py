"""What can happen in a study: the facts that the journal keeps, and what crosses the driver's wall.

*Facts* are past participles. They are all that a study's state is made of: folding them, in
order, gives the state again (``core/history.py``). A fact holds what was decided together with
its reason, so folding needs no rule, and a journal reads the same after the rules have changed.

*Events* are what the driver is told; *commands* are what it asks of its shell.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from etude.core.lifecycle import Turn
from etude.core.removal import Arm
from etude.core.system import Order, Taken

Value = None | bool | int | float | str | tuple[Any, ...]
"""A hyperparameter's value: it keeps its type through the journal and over the wire."""

Params = dict[str, Value]


class How(StrEnum):
    """How an attempt ended, as the worker saw it."""

    FINISHED = "finished"
    STOPPED = "stopped"  # it saw the stop, whatever it returned afterwards
    PAUSED = "paused"
    INVALID = "invalid"  # raised etude.Invalid
    RAISED = "raised"
    UNUSABLE = "unusable"  # returned what is no result, or never gave the metric: no retry mends that
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    KILLED = "killed"  # by a signal, or it left without a word
    LOST = "lost"  # its worker died or fell silent


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What an attempt cost: wall and CPU seconds, and peak memory in MB (2**20 bytes)."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    memory_mb: float = 0.0
    gpu_memory_mb: float | None = None


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What an attempt left behind.

    Attributes:
        how: How it ended.
        value: The study's main metric, if it finished with one.
        extra: Whatever else the training function returned, in plain values, the other metrics among them.
        reason: One line for people: the error, the signal, the constraint.
        traceback: The whole traceback, where there is one.
        raised_in: Role of the function that raised: ``"data"``, ``"model"`` or ``"train"``.
        derived: Values that the data function gave to ``Derived`` parameters.
        data: The parameters that the data function was called with.
        usage: What it cost.
    """

    how: How
    value: float | None = None
    extra: dict[str, Any] = {}
    reason: str = ""
    traceback: str = ""
    raised_in: str = ""
    derived: dict[str, Any] = {}
    data: dict[str, Any] = {}
    usage: Usage = Usage()


Part = Literal["weights", "rest"]
PARTS: Final[tuple[Part, ...]] = ("weights", "rest")


STATE: Final = re.compile(
    r"checkpoints/(\.?\d+-\d+(-\d+)?(\.rank-\d+)?\.(weights|rest)\.safetensors(\.part)?|\.tmp\w+)"
)
"""What files of states are called in an attempt's folder, where a training function may write others; also those that
are not whole yet, ours and those of the library of safetensors."""


Key = tuple[int, ...]
"""What tells a checkpoint from others of its trial: attempt, loop, epoch; and batch, of one within an epoch."""


class Checkpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a trial between two epochs or two batches, in two files: the weights, and the rest.

    Where the model is sharded it is in shards: each rank has two files of its own.

    Attributes:
        attempt: The attempt that saved it.
        loop: Which call of ``run.epochs`` it is in, from 0.
        epoch: How many epochs of that one are done.
        step: How many reports of the watched metric were sent by then.
        digests: Of the weights, and of the rest; then the same of each rank after the first, if it is in shards.
        sizes: The same in bytes.
        batch: How many batches of the next epoch are done; 0 between two epochs.
    """

    attempt: int
    loop: int
    epoch: int
    step: int
    digests: tuple[str, ...]
    sizes: tuple[int, ...]
    batch: int = 0

    @property
    def whole(self) -> bool:
        """Whether it is between two epochs."""
        return self.batch == 0

    @property
    def key(self) -> Key:
        """What tells it from others of its trial; a later one is larger."""
        return (self.attempt, self.loop, self.epoch, *(() if self.whole else (self.batch,)))

    @property
    def ranks(self) -> int:
        """How many ranks saved it: those of a trial, if it is in shards; else one."""
        return len(self.digests) // len(PARTS)

    def name(self, part: Part, rank: int = 0) -> str:
        """Return where a part lies in the trial's folder. No other checkpoint ever has that name."""
        batch = "" if self.whole else f"-{self.batch:07d}"
        whose = f".rank-{rank}" if rank else ""
        place = f"{self.loop}-{self.epoch:05d}{batch}{whose}.{part}.safetensors"
        return f"attempt-{self.attempt}/checkpoints/{place}"

    def names(self, parts: tuple[Part, ...] = PARTS) -> tuple[str, ...]:
        """Return where parts of it lie, those of all ranks."""
        return tuple(self.name(part, rank) for rank in range(self.ranks) for part in parts)

    def digest(self, part: Part, rank: int = 0) -> str:
        """Return the digest of a part."""
        return self.digests[len(PARTS) * rank + PARTS.index(part)]


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """From where an attempt goes on.

    Attributes:
        key: Which checkpoint, by ``Checkpoint.key``; None if none was of use, so that it starts over.
        step: How many reports of the watched metric stay.
        reason: What was wrong with later checkpoints.
        last: The newest value of each metric by then.
        source: The earlier trial whose checkpoint it is; None if it is its own.
    """

    key: Key | None
    step: int
    reason: str = ""
    last: dict[str, float] = {}
    source: int | None = None


LAST: Final = "last"
BEST: Final = "best"
"""Names of epochs: the newest, and the one after which the trial had reported its best value."""


class Keep(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of which trials a study keeps the weights, and of which epochs.

    Args:
        trials: Of so many, those that finished best.
        epochs: Of these epochs: ``"last"``, ``"best"`` (after which the trial had reported its best value), and numbers
            of epochs done.
        optimizers: Whether the rest of these states is kept as well, for ``weights.with_optimizer()``: it may take
            several times the room.
        max_gb: What those of finished trials may take on the disk, in GB (10**9 bytes): of fewer trials they are kept
            then. None for no other bound than how many there are.
    """

    trials: int = 3
    epochs: tuple[str | int, ...] = (LAST, BEST)
    optimizers: bool = False
    max_gb: float | None = None


USUAL: Final = Keep()


class Start(msgspec.Struct, frozen=True, omit_defaults=True):
    """The weights that a trial begins with, where they are not random.

    Each is ``shrink`` times what the file has, and ``perturb`` times what it would be at random.

    Attributes:
        name: What they are called, for people.
        digest: Of the file.
        shrink: How much of the weights is taken.
        perturb: How much of random ones is added.
        ancestors: Whose weights they were: study, trial, and epochs that it had trained for.
        holder: The trial in whose folder the file lies (``START``), for all that begin with it.
        optimizers: The digest of the file with the states of optimizers, which lies beside it (``OPTIMIZERS``); empty
            if these begin anew.
    """

    name: str
    digest: str
    shrink: float = 1.0
    perturb: float = 0.0
    ancestors: tuple[tuple[str, int, int], ...] = ()
    holder: int = 0
    optimizers: str = ""


START: Final = "attempt-0/weights.safetensors"
"""Where in a trial's folder the weights lie that it, and others, begin with: there before its first attempt."""

OPTIMIZERS: Final = "attempt-0/optimizers.safetensors"
"""The same of the states of optimizers that go with these weights."""


class Probe(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much of a run a trial is that only shows how a run would begin: of its first epoch, as much as its share.

    Attributes:
        share: Of the run's epochs, what all probes may take together.
        among: How many probes share it.
    """

    share: float
    among: int

    def portion(self, epochs: int) -> float:
        """Return how much of its first epoch a probe of a run with so many epochs has.

        Example:
            >>> Probe(share=0.05, among=4).portion(20)
            0.25
            >>> Probe(share=0.05, among=4).portion(200)
            1.0
        """
        return min(1.0, self.share * epochs / self.among)


# --- facts: what the journal keeps -------------------------------------------------------------


class Fact(msgspec.Struct, frozen=True, kw_only=True, tag=str.lower, omit_defaults=True):
    """Something that happened, at ``at`` seconds of the driver's clock (Unix time)."""

    at: float


class Opened(Fact, frozen=True):
    """A driver took the study up; workers and attempts of its predecessor are gone.

    Attributes:
        driver: Its host and process.
        epoch: Which driver of the study it is, from 1.
        keep: Whose weights are kept while it works.
    """

    driver: str
    epoch: int
    keep: Keep = USUAL


class Joined(Fact, frozen=True):
    """A worker came.

    Attributes:
        worker: Its name.
        replaces: The worker in whose place it came, if any.
        machine: The machine that it runs on.
        memory_mb: The memory that trials may take there in all, in MB; 0 if that is not known.
        gpus_mb: The GPUs that its trials see, and the memory of each in MB, 0 if that is not known. None are named
            where nobody minds.
    """

    worker: str
    replaces: str = ""
    machine: str = ""
    memory_mb: float = 0.0
    gpus_mb: dict[str, float] = {}


class Left(Fact, frozen=True):
    """A worker is gone, with the reason that is known.

    ``began`` is False if the attempt that it holds, as far as the driver knows, never reached it: then nobody is to
    blame for that attempt.
    """

    worker: str
    reason: str = ""
    began: bool = True


class StoodStill(Fact, frozen=True):
    """The driver, and most likely all of the study, stood still for ``seconds`` until now."""

    seconds: float


class Quarantined(Fact, frozen=True):
    """A worker gets no more work: trials that it lost did well elsewhere."""

    worker: str
    reason: str


class Queued(Fact, frozen=True):
    """A trial exists.

    Attributes:
        trial: Its number, from 0.
        params: Its configuration.
        seed: Its training seed.
        upto: Number of the last fact that the sampler had seen; None for one that needs none.
        redraw: How many proposals before this one were already taken.
        same_as: The earlier trial with the same configuration, whose result it will share.
        promotes: The earlier trial that it carries on with a larger budget.
        because: Why the plan decided on it, where that was a decision.
        start: The weights that it begins with; None if they are random.
        probe: How much of a run it is, if it is none.
        arm: What is taken away; None if nothing but settings is.
        tunes: Whether it is one of a search within the study, which chooses with what others are run.
    """

    trial: int
    params: Params
    seed: int
    upto: int | None = None
    redraw: int = 0
    same_as: int | None = None
    promotes: int | None = None
    because: str = ""
    start: Start | None = None
    probe: Probe | None = None
    arm: Arm | None = None
    tunes: bool = False


class Assigned(Fact, frozen=True):
    """A worker was given an attempt.

    ``source`` is the earlier trial from whose state after ``epoch`` it is to go on, since both agree until then; None
    if that was not decided here, as with its own states and those of the trial that it promotes.
    """

    trial: int
    attempt: int
    worker: str
    source: int | None = None
    epoch: int = 0


class Reported(Fact, frozen=True):
    """A live attempt reported metrics. ``step`` counts reports of the study's metric, from 1."""

    trial: int
    attempt: int
    step: int
    metrics: dict[str, float]


class Checkpointed(Fact, frozen=True):
    """A live attempt saved its state."""

    trial: int
    checkpoint: Checkpoint


class Shared(Fact, frozen=True):
    """The state that a trial has just saved, after so many epochs, is kept for trials that agree with it so far."""

    trial: int
    epoch: int


class Resumed(Fact, frozen=True):
    """A live attempt goes on from a checkpoint, and what was reported after that is withdrawn."""

    trial: int
    attempt: int
    origin: Origin


class Judged(Fact, frozen=True):
    """The plan decided that a running trial is to stop or to pause, and why.

    ``enough`` says that it stops because it has shown what it can: its last report counts as its final value.
    """

    trial: int
    attempt: int
    turn: Turn
    reason: str
    enough: bool = False


class Settled(Fact, frozen=True):
    """Something ended for a trial: an attempt, or its waiting.

    Attributes:
        trial: The trial's number.
        turn: What it meant for the trial.
        attempt: The attempt that ended; None if none was running.
        outcome: What the attempt left behind.
        reason: Why this turn, for people.
        charged: Whether this counts as one of the trial's losses.
        alone: Whether no other trial may run on its machine from now on while it does.
        resumable: Whether another trial may go on from its newest state, so that this is kept.
        taken_from: The study and the trial whose outcome this is, where it is one of another study's.
    """

    trial: int
    turn: Turn
    attempt: int | None = None
    outcome: Outcome | None = None
    reason: str = ""
    charged: bool = False
    alone: bool = False
    resumable: bool = False
    taken_from: tuple[str, int] | None = None


class Tuned(Fact, frozen=True):
    """An epoch of a live attempt is over, and the machine is set for the next one.

    Attributes:
        trial: The trial's number.
        attempt: Which attempt of it.
        machine: Where it runs.
        taken: What the epoch took.
        order: The setting of the next one, and why.
    """

    trial: int
    attempt: int
    machine: str
    taken: Taken
    order: Order


class Freed(Fact, frozen=True):
    """No other trial will go on from the states of these, which have ended; nor from those shared as (trial, epoch)."""

    trials: tuple[int, ...] = ()
    states: tuple[tuple[int, int], ...] = ()


class Prepared(Fact, frozen=True):
    """Something was done for the study before its trials, by whoever writes its variants; trials know nothing of it.

    Attributes:
        what: What was done, such as ``planned``, ``asked`` or ``approved``.
        variant: For which variant; empty for all of them.
        body: All that there is to say of it.
    """

    what: str
    variant: str = ""
    body: dict[str, Any] = {}


class Closed(Fact, frozen=True):
    """The driver ended its work.

    Attributes:
        reason: Why, for people.
        complete: Whether the plan had no more trials to run.
        limit: The limit of the user's that was reached, if that was it.
    """

    reason: str
    complete: bool
    limit: str = ""


AnyFact = (
    Opened
    | Joined
    | Left
    | StoodStill
    | Quarantined
    | Queued
    | Assigned
    | Reported
    | Checkpointed
    | Shared
    | Resumed
    | Judged
    | Settled
    | Tuned
    | Freed
    | Prepared
    | Closed
)


# --- events: what the driver is told and keeps only as part of a fact -----------------------------


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something the shell tells the driver, at ``at`` seconds of its clock."""

    at: float


class Suggested(Event, frozen=True):
    """The sampler answered ``Suggest(k, redraw)``; ``forbidden`` is why `constraint=` rules it out."""

    k: int
    params: Params
    redraw: int = 0
    upto: int | None = None
    forbidden: str | None = None


class Ended(Event, frozen=True):
    """A worker says how an attempt ended."""

    worker: str
    trial: int
    attempt: int
    outcome: Outcome


class Measured(Event, frozen=True):
    """A live attempt says what an epoch took."""

    trial: int
    attempt: int
    taken: Taken


class Unsaved(Event, frozen=True):
    """A rank of a live attempt could not write its shard of a state: that counts for nothing, and goes."""

    trial: int
    checkpoint: Checkpoint


class Room(Event, frozen=True):
    """No more trials may run at a time than this: what others on the machine leave."""

    trials: int


class Ticked(Event, frozen=True):
    """Time went by."""


class Cancelled(Event, frozen=True):
    """Somebody asked for the study to wind down; it can go on later. ``limit`` names the limit that it was for."""

    reason: str
    limit: str = ""


AnyEvent = (
    Opened
    | Joined
    | Left
    | StoodStill
    | Reported
    | Checkpointed
    | Unsaved
    | Resumed
    | Measured
    | Suggested
    | Ended
    | Room
    | Ticked
    | Cancelled
)


# --- commands: what the driver asks of its shell --------------------------------------------------


class Command(msgspec.Struct, frozen=True):
    """Something the driver wants done."""


class Persist(Command, frozen=True):
    """Write ``fact`` down before any command that comes after it."""

    fact: AnyFact


class Suggest(Command, frozen=True):
    """Ask the sampler for proposal ``k``; for its ``redraw``-th other one if the first was taken."""

    k: int
    redraw: int = 0


class Assign(Command, frozen=True):
    """Have ``worker`` run an attempt.

    Attributes:
        worker: Its name.
        trial: The trial's number.
        attempt: Which attempt of it.
        params: Its configuration.
        seed: Its training seed.
        points: From where it may go on, the best first.
        source: The earlier trial whose they are; None if they are its own.
        start: The weights that it begins with; None if they are random.
        probe: How much of a run it is, if it is none.
        arm: What is taken away; None if nothing but settings is.
        order: The setting of its first epoch; None if its machine is not tuned.
    """

    worker: str
    trial: int
    attempt: int
    params: Params
    seed: int
    points: tuple[Checkpoint, ...] = ()
    source: int | None = None
    start: Start | None = None
    probe: Probe | None = None
    arm: Arm | None = None
    order: Order | None = None


class Retune(Command, frozen=True):
    """Tell the attempt the setting of its next epoch."""

    worker: str
    trial: int
    attempt: int
    order: Order


class Stop(Command, frozen=True):
    """Tell the attempt to stop at its next report."""

    worker: str
    trial: int
    attempt: int


class Pause(Command, frozen=True):
    """Tell the attempt to pause at its next turn of ``run.epochs``."""

    worker: str
    trial: int
    attempt: int


class Release(Command, frozen=True):
    """The attempt's outcome is written down: the worker may forget it."""

    worker: str
    trial: int
    attempt: int


class Discard(Command, frozen=True):
    """Remove files of checkpoints, as (trial, name): nobody needs them any more."""

    files: tuple[tuple[int, str], ...]


class Note(Command, frozen=True):
    """Tell an attempt that its checkpoint is in the journal, or is none, and what is surplus gone: it may go on."""

    worker: str
    trial: int
    checkpoint: Checkpoint


class Retire(Command, frozen=True):
    """Let a worker go; if it holds an attempt, end that too."""

    worker: str


class WaitUntil(Command, frozen=True):
    """Send a tick at ``at``: something becomes possible then."""

    at: float


class End(Command, frozen=True):
    """The study is over for this driver: complete, or wound down."""

    reason: str
    complete: bool


class WindDown(Command, frozen=True):
    """A limit of the user's is reached: end what runs, tell what has ended by then, and answer with ``Cancelled``."""

    reason: str
    limit: str


class Fail(Command, frozen=True):
    """Wind the study down with an error: its plan raised when it was asked, or no trial can go well."""

    error: Exception


AnyCommand = (
    Persist
    | Suggest
    | Assign
    | Retune
    | Stop
    | Pause
    | Release
    | Discard
    | Note
    | Retire
    | WaitUntil
    | WindDown
    | End
    | Fail
)
