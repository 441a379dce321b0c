"""What a program did while it was watched: plain facts, no opinions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etude.mage.values import Value


class ParameterFacts(Value, frozen=True):
    """A parameter of a model.

    Attributes:
        shape: Its shape.
        trainable: Whether it wants a gradient.
        digest: Of the values that it begins with; empty where nobody could tell.
        got_gradient: Whether it had a gradient that is not 0 in some watched step; None if no step was seen.
        moved: Whether its values were others after the watched steps; None where nobody looked.
        begins: Mean and standard deviation of the values that it begins with, of numbers that lie evenly among them;
            None where nobody could tell.
        group: Which optimizer has it, and in which of its groups, by number; None where none has it or nobody looked.
    """

    shape: tuple[int, ...]
    trainable: bool = True
    digest: str = ""
    got_gradient: bool | None = None
    moved: bool | None = None
    begins: tuple[float, float] | None = None
    group: tuple[int, int] | None = None


class ModuleFacts(Value, frozen=True):
    """A module of a model.

    Attributes:
        type: The name of its class.
        calls: How often it was called in the watched steps.
        apart: How often of these no other module's call was running, as when a method of the model is called itself.
        values: Its plain attributes: numbers, texts, truth values, and tuples of these.
        operators: How often operators ran in its calls, those of modules inside it apart; empty where nobody counted.
        dtypes: The types of the numbers with a fraction that it gave; empty where nobody looked, or it gave none.
        buffers: How many tensors it keeps that are no parameters, without those of modules inside it.
        hides: Methods of every module that it has in a way of its own, such as ``eval``.
    """

    type: str
    calls: int = 0
    apart: int = 0
    values: Mapping[str, Any] = {}
    operators: Mapping[str, int] = {}
    dtypes: tuple[str, ...] = ()
    buffers: int = 0
    hides: tuple[str, ...] = ()


class ModelFacts(Value, frozen=True):
    """A model: the outermost modules that were trained, or estimators that were fitted.

    Attributes:
        type: The name of its class.
        parameters: By name.
        modules: By path; the model itself is the empty one.
    """

    type: str
    parameters: Mapping[str, ParameterFacts] = {}
    modules: Mapping[str, ModuleFacts] = {}


class FitFacts(Value, frozen=True):
    """A call of an estimator's ``fit``, or of a library's ``train``; of its ``predict`` and the like, too.

    Attributes:
        type: The estimator; ``XGBClassifier.predict`` for what it was asked.
        rows: How many rows reached it.
        columns: Their columns by name, or by number where they have none.
        target: A digest of the labels.
        values: The estimator's settings, with ``Ridge()`` for an estimator that it holds, whose own settings stand
            behind its name; ``fit.sample_weight`` and so on for what else it was called with.
        digests: Of each column's values in rows that lie evenly, in the order of the columns; empty where nobody could
            tell, and for what is asked of an estimator.
        within: The chain of estimators that called it; empty where the program did.
    """

    type: str
    rows: int
    columns: tuple[str, ...]
    target: str = ""
    values: Mapping[str, Any] = {}
    digests: tuple[str, ...] = ()
    within: str = ""


class Ended(Value, frozen=True):
    """How a program ended.

    Attributes:
        code: Its exit code; None if it was killed.
        why: In words: ``finished``, ``enough seen``, ``raised``, ``time limit``, ``killed by signal 9``.
        error: The type of what it raised.
        message: Its message.
        frame: The innermost frame of the project: file, line, function.
        traceback: The last lines.
    """

    code: int | None
    why: str
    error: str = ""
    message: str = ""
    frame: str = ""
    traceback: str = ""


class Facts(Value, frozen=True):
    """What was seen of a run.

    Attributes:
        ended: How it ended.
        steps: How many optimizer steps were watched.
        models: The models, in the order in which they were first trained.
        fits: Calls of ``fit``.
        optimizers: The groups of each optimizer, without their parameters, at the first step.
        rates: The learning rate of the first group at each watched step.
        scheduled: What schedulers there are, by class.
        batches: Shapes of what the loaders gave first, by order of the loaders; without any, of what the models were
            called with first. So are the digests and the values.
        batch_digests: Digests of the first batches.
        lengths: How many batches the loaders have.
        examples: How many examples they give in an epoch; -1 where nobody knows.
        losses: The values that ``backward`` was called on.
        calls: How often functions were called: those of the project as ``file.py:name``, those of libraries that are
            watched by their dotted names.
        operators: How often operators ran.
        elsewhere: How often those of them ran that were neither in a module nor in a backward pass nor in a step of an
            optimizer: where data are made, the loss, metrics, initial values. Empty where nobody told them apart.
        arguments: What watched functions, and operators elsewhere, were called with beside tensors, each way once:
            plain values by name, ``tensor`` for a tensor that is optional. ``p=0.5 training=True`` of a dropout. Of
            losses also how many rows tensors have, as ``input.rows=32``, and a digest of optional ones. Of metrics
            whether arrays are what an estimator gave, as ``y_prob=predict_proba[1]``, or calculated. ``...`` where
            there were more ways than are kept.
        batch_values: Mean and standard deviation of each tensor of numbers in the first batches, of numbers that lie
            evenly in it; of those that are finite.
        settings: Values of the program's settings: flags by name, fields of configurations, upper-case globals.
        seeds: What generators were seeded with, as ``torch 0``.
        metrics: What it reported or wrote into the agreed file.
        versions: Of Python and of libraries.
        wall_s: How long it took.
        peak_mb: How much memory.
        unseen: What could not be watched, and why.
        other: What was seen of it with another seed; None if nobody looked.
    """

    ended: Ended
    steps: int = 0
    models: tuple[ModelFacts, ...] = ()
    fits: tuple[FitFacts, ...] = ()
    optimizers: tuple[tuple[Mapping[str, Any], ...], ...] = ()
    rates: tuple[float, ...] = ()
    scheduled: tuple[str, ...] = ()
    batches: tuple[tuple[tuple[int, ...], ...], ...] = ()
    batch_digests: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()
    examples: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()
    calls: Mapping[str, int] = {}
    operators: Mapping[str, int] = {}
    elsewhere: Mapping[str, int] = {}
    arguments: Mapping[str, tuple[str, ...]] = {}
    batch_values: tuple[tuple[float, float], ...] = ()
    settings: Mapping[str, Any] = {}
    seeds: tuple[str, ...] = ()
    metrics: Mapping[str, float] = {}
    versions: Mapping[str, str] = {}
    wall_s: float = 0.0
    peak_mb: float = 0.0
    unseen: tuple[str, ...] = ()
    other: Facts | None = None
    schema: int = 1
