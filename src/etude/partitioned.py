"""An experiment whose training examples are assigned to ranks by a partition."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from etude.core.errors import ConfigError
from etude.core.metrics import Metrics
from etude.core.signature import Definition, Signature
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


def counting(question: Question, partition: object) -> Question:
    """Return a question to whose identity a partition belongs."""
    if partition is None:
        return question
    ours = type(partition).__module__ == partitions.__name__  # what is in packages counts by their versions alone
    parts = {**question.parts, **({"partition": repr(partition)} if ours else {})}
    return dataclasses.replace(question, parts=parts, functions={**question.functions, "partition": partition})


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
