"""An experiment whose training examples are assigned to ranks by a partition."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from etude.core.errors import ConfigError
from etude.core.metrics import Metrics
from etude.core.signature import Definition, Signature, reports_by_itself
from etude.fit.importance import partitions
from etude.fit.importance.asked import as_function
from etude.tune.question import Question


class Partitioned:
    """The definition of an experiment, with a partition; its parameters are hyperparameters like others.

    Args:
        experiment: The experiment.
        partition: A partition, or a function of hyperparameters that returns one.

    Raises:
        ConfigError: It is neither.
        SignatureError: Its parameters do not fit the others.
    """

    def __init__(self, experiment: Definition, partition: object) -> None:
        self.functions: Mapping[str, Callable[..., Any]] = {
            **experiment.functions,
            "partition": as_function(partition),
        }
        self.signature = Signature.read(self.functions)
        self.metrics: Metrics = experiment.metrics
        self.reference: float | None = getattr(experiment, "reference", None)
        self.auto_report = reports_by_itself(experiment)


def counting(question: Question, partition: object) -> Question:
    """Return a question to whose identity a partition belongs."""
    if partition is None:
        return question
    counts = identity(partition)
    parts = {**question.parts, **({"partition": counts.text} if counts.text else {})}
    own = {f"partition {name}": one for name, one in counts.own.items()}
    return dataclasses.replace(question, parts=parts, functions={**question.functions, "partition": partition, **own})


class Identity(NamedTuple):
    """What of a partition can change the numbers.

    Attributes:
        text: All of one of ours, as text that can be compared; empty for others, whose code says it.
        own: What of one of ours is the user's, such as a measure, by name.
    """

    text: str
    own: dict[str, Any]


def identity(partition: object) -> Identity:
    """Return what of a partition can change the numbers: what is in packages counts by their versions alone."""
    if type(partition).__module__ != partitions.__name__ or not dataclasses.is_dataclass(partition):
        return Identity("", {})
    values = {field.name: getattr(partition, field.name) for field in dataclasses.fields(partition)}
    own = {name: value for name, value in values.items() if callable(value) and not _is_ours(value)}
    told = (f"{name}={called(value)}" for name, value in values.items())
    return Identity(f"{type(partition).__name__}({', '.join(told)})", own)


def called(value: Any) -> str:
    """Return what stands for a value of a partition in text: its name, if it is the user's code."""
    return repr(value) if not callable(value) or _is_ours(value) else getattr(value, "__name__", type(value).__name__)


def _is_ours(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == __name__.partition(".")[0]


def check_ranks(partition: object, ranks: int) -> None:
    """Refuse a partition for a single rank.

    Raises:
        ConfigError: There is one.
    """
    if partition is not None and ranks == 1:
        raise ConfigError(
            "partition= assigns training examples to ranks, and ranks=1 has them all. Pass ranks=2 or more, or leave "
            "partition= out."
        )
