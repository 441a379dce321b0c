"""Every message there is. Data only: what comes from a worker is checked, never unpickled.

    driver  -> worker   Serve, Run, Meet, Retune, Halt, Hold, Abandon, Noted, Forget, Rest, Bye
    worker  -> driver   Hello, Ready, Broken, Meeting, Reports, Measured, Saved, TakenUp, Warned, Ended, Beat

A worker passes ``Run``, ``Meet``, ``Retune``, ``Halt``, ``Hold`` and ``Noted`` on to the child that runs the attempt,
and what the child says back to the driver.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeVar

import msgspec

from etude.core.events import Assign, Checkpoint, Key, Origin, Outcome, Params, Probe, Start
from etude.core.exact import exact
from etude.core.ranks import Parallel, Rank
from etude.core.removal import Arm
from etude.core.resources import Resources
from etude.core.system import Order, Taken, Watched

T = TypeVar("T")


class Message(msgspec.Struct, frozen=True, tag=str.lower, omit_defaults=True):
    """Something that one process tells another."""


class Logging(msgspec.Struct, frozen=True, omit_defaults=True):
    """How log records are printed, in the words of ``logging.basicConfig``."""

    level: int
    format: str
    datefmt: str | None = None
    style: Literal["%", "{", "$"] = "%"


class Serve(Message, frozen=True):
    """Work for this study from now on.

    Attributes:
        study: The study's id.
        functions: The experiment's functions, pickled by value; the only pickle there is.
        preload: Modules that a warm process may import ahead.
        path: Where Python finds the user's modules, and the directory to work in.
        metrics: Names of the study's metrics, the main one first.
        watched: The one whose reports are counted as steps.
        spool: Folder for outcomes that nobody has acknowledged yet.
        trials: Folder for the files of attempts.
        states: The URL where states lie; empty if that is beside the files of attempts.
        threads: Threads that an attempt may use.
        timeout_s: Seconds after which an attempt is ended; None for no limit.
        grace_s: Seconds that an attempt has for a stop before it is killed.
        reuse_child: Whether one process runs attempt after attempt.
        log_limit: Bytes of output that are kept of an attempt, half from its start, half from its end.
        files: The sha256 of each file that workers import for the functions, by its absolute path.
        logging: How attempts print log records; None to leave that to them.
        silence_s: Seconds for which a process that everybody relies on may give no sign of life: a worker to its
            driver, a template to its worker.
        resources: What each trial needs; None if the call does not say.
        gpus: The GPUs that this worker's attempts see; None for those that it sees itself. A node says it to each of
            its workers.
        named: Epochs whose weights are wanted, by how many are done.
        joins: Whether training functions get the training and the validation part of the data as one.
        parallel: How several ranks train each trial; None if it is one.
        system: How machines are tuned while trials run; None if they are left alone.
        auto_report: Whether trainers of models are reported without a call in the training function.
    """

    study: str
    functions: bytes
    preload: tuple[str, ...]
    path: tuple[str, ...]
    cwd: str
    metrics: tuple[str, ...]
    watched: str
    spool: str
    trials: str
    threads: int = 1
    timeout_s: float | None = None
    grace_s: float = 10.0
    reuse_child: bool = False
    log_limit: int = 2 * 2**20
    files: dict[str, str] = {}
    logging: Logging | None = None
    silence_s: float = 30.0
    resources: Resources | None = None
    gpus: tuple[str, ...] | None = None
    named: tuple[int, ...] = ()
    states: str = ""
    joins: bool = False
    parallel: Parallel | None = None
    system: Watched | None = None
    auto_report: bool = True


class Run(Message, frozen=True):
    """Run an attempt.

    Attributes:
        trial: The trial's number.
        attempt: Which attempt of it.
        params: Its configuration.
        seed: Its training seed.
        points: From where it may go on, the best first.
        source: The earlier trial whose they are; None if they are its own.
        start: The weights that it begins with; None if they are random.
        probe: How much of a run it is, if it is none.
        arm: What is taken away; None if nothing but settings is.
        rank: Which rank of it; None if it has one alone.
        order: The setting of its first epoch; None if its machine is not tuned.
    """

    trial: int
    attempt: int
    params: Params
    seed: int
    points: tuple[Checkpoint, ...] = ()
    source: int | None = None
    start: Start | None = None
    probe: Probe | None = None
    arm: Arm | None = None
    rank: Rank | None = None
    order: Order | None = None

    @property
    def leads(self) -> bool:
        """Whether it is the rank, or the only one, that speaks for the trial."""
        return self.rank is None or self.rank.number == 0

    @property
    def brings(self) -> bool:
        """Whether it needs files that may lie elsewhere."""
        return bool(self.points) or self.start is not None

    @classmethod
    def of(cls, assigned: Assign) -> Run:
        """Return what a worker is told of an attempt that it is given."""
        return cls(**{name: getattr(assigned, name) for name in cls.__struct_fields__ if name != "rank"})


class Retune(Message, frozen=True):
    """The setting of the attempt's next epoch."""

    trial: int
    attempt: int
    order: Order


class Halt(Message, frozen=True):
    """The attempt is to stop at its next report."""

    trial: int
    attempt: int


class Hold(Message, frozen=True):
    """The attempt is to pause at its next turn of ``run.epochs``."""

    trial: int
    attempt: int


class Abandon(Message, frozen=True):
    """Another rank of the attempt came to a bad end: end it soon, whatever it does."""

    trial: int
    attempt: int


class Meet(Message, frozen=True):
    """Rank 0 of the attempt awaits the others at this port of its host."""

    trial: int
    attempt: int
    port: int


class Noted(Message, frozen=True):
    """The attempt's checkpoint is in the journal, or counts for nothing and is gone: it may write the next."""

    trial: int
    attempt: int
    key: Key


class Forget(Message, frozen=True):
    """The attempt's outcome is in the journal."""

    trial: int
    attempt: int


class Rest(Message, frozen=True):
    """The study is over: end what runs and stay warm for the next."""


class Bye(Message, frozen=True):
    """End what runs and leave."""


class Hello(Message, frozen=True):
    """A worker is there."""

    pid: int


class Ready(Message, frozen=True):
    """The worker has the study's functions.

    Attributes:
        study: The study's id.
        note: What is unusual about how it starts attempts.
        pid: Its process, where it runs; also of one that served another study before, and said hello then.
        machine: The machine that it runs on.
        memory_mb: The memory that trials may take there in all, in MB; 0 if that is not known.
        gpus_mb: The GPUs that its trials see, and the memory of each in MB, 0 if that is not known. They are named
            where the memory of trials is learned.
    """

    study: str
    note: str = ""
    pid: int = 0
    machine: str = ""
    memory_mb: float = 0.0
    gpus_mb: dict[str, float] = {}


class Broken(Message, frozen=True):
    """The worker cannot work for this study, and why.

    Attributes:
        study: The study's id.
        reason: A text for users.
        edited: Whether it is that a file was edited, so that no other worker could either.
    """

    study: str
    reason: str
    edited: bool = False


class Meeting(Message, frozen=True):
    """Rank 0 of an attempt awaits the others, at this port of its machine."""

    trial: int
    attempt: int
    port: int


class Reports(Message, frozen=True):
    """Reports of an attempt, in order: pairs of step and metrics."""

    trial: int
    attempt: int
    rows: list[tuple[int, dict[str, float]]]


class Measured(Message, frozen=True):
    """What an epoch of an attempt took."""

    trial: int
    attempt: int
    taken: Taken


class Saved(Message, frozen=True):
    """An attempt has saved its state; where that is in shards, each rank says so of its own.

    Attributes:
        trial: The trial's number.
        checkpoint: The state; its digests are empty if this rank could not write its shard.
    """

    trial: int
    checkpoint: Checkpoint


class TakenUp(Message, frozen=True):
    """An attempt goes on from a checkpoint, or starts over although there were some."""

    trial: int
    attempt: int
    origin: Origin


class Ended(Message, frozen=True):
    """How an attempt ended.

    Attributes:
        trial: The trial's number.
        attempt: Which attempt of it.
        outcome: How it ended.
        rows: What it reported, as in ``Reports``; only in the spool, for a driver that did not live to hear it.
        taken_up: From where it went on, if it did; only there, too.
    """

    trial: int
    attempt: int
    outcome: Outcome
    rows: list[tuple[int, dict[str, float]]] = []
    taken_up: TakenUp | None = None


class Warned(Message, frozen=True):
    """Something about an attempt that users should be told, and that ends nothing."""

    trial: int
    text: str


class Beat(Message, frozen=True):
    """The worker is alive."""


ToWorker = Serve | Run | Meet | Retune | Halt | Hold | Abandon | Noted | Forget | Rest | Bye
FromWorker = Hello | Ready | Broken | Meeting | Reports | Measured | Saved | TakenUp | Warned | Ended | Beat

encode = msgspec.msgpack.Encoder().encode
_to_worker: Final[msgspec.msgpack.Decoder[ToWorker]] = msgspec.msgpack.Decoder(ToWorker)
_from_worker: Final[msgspec.msgpack.Decoder[FromWorker]] = msgspec.msgpack.Decoder(FromWorker)


def decode_to_worker(content: bytes) -> ToWorker:
    """Read a message to a worker.

    Raises:
        msgspec.DecodeError: The content is none.
    """
    message = decoded(_to_worker, content)
    return msgspec.structs.replace(message, params=exact(message.params)) if type(message) is Run else message


def decode_from_worker(content: bytes) -> FromWorker:
    """Read a message from a worker.

    Raises:
        msgspec.DecodeError: The content is none.
    """
    return decoded(_from_worker, content)


def decoded(decoder: msgspec.msgpack.Decoder[T], content: bytes) -> T:
    """Read what a decoder is for.

    Raises:
        msgspec.DecodeError: The content is something else.
    """
    try:
        return decoder.decode(content)
    except (UnicodeDecodeError, RecursionError) as error:  # which msgspec lets through
        raise msgspec.DecodeError(str(error)) from error


def pack_outcome(ended: Ended) -> bytes:
    """Return an outcome as it lies in the spool."""
    try:
        return encode(ended)
    except UnicodeEncodeError:  # text made of file names, of which not all are Unicode
        return encode(msgspec.convert(_in_unicode(msgspec.to_builtins(ended)), Ended))


def unpack_outcome(content: bytes) -> Ended:
    """Read an outcome from the spool.

    Raises:
        msgspec.DecodeError: The content is none.
    """
    message = decode_from_worker(content)
    if not isinstance(message, Ended):
        raise msgspec.ValidationError(f"an outcome was expected, and this is {type(message).__name__}")
    return message


def plain_frame(value: Any) -> bytes:
    """Return any plain value as bytes, for the channel between a supervisor and its templates."""
    return encode(value)


def _in_unicode(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_in_unicode(k): _in_unicode(v) for k, v in value.items()}
    return [_in_unicode(v) for v in value] if isinstance(value, list) else value
