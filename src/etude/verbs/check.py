"""One batch through all three functions: what a study would meet, seen before it is started.

The functions run as in a trial, in this process, with two things cut short: each PyTorch loader to its
first batch, and ``run.epochs`` to one epoch. What they gave, took and said is written down on the way.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Never

from etude.core.data import Data
from etude.core.errors import ConfigError, EtudeError, ResultError
from etude.core.removal import Arm
from etude.core.signature import Definition, Kind, Signature, reports_by_itself
from etude.core.text import brief, count, seconds
from etude.definition import read_code
from etude.worker.bind import Bound
from etude.worker.result import read_result
from etude.worker.run import Run, default_device

LONGEST_LISTED: Final = 8
"""A list with more items is told as one thing, not item by item."""


@dataclass(frozen=True)
class Setting:
    """A parameter as the functions got it.

    Attributes:
        name: Its name.
        value: What it looks like, and its type.
        origin: ``"given"``, ``"default"`` or ``"derived"``.
        taken_by: The functions that take it.
    """

    name: str
    value: str
    origin: str
    taken_by: str


@dataclass(frozen=True)
class Piece:
    """Something that ``data()`` or ``model()`` returned.

    Attributes:
        name: Where in it this stands: ``"train"``, ``"[0]"``; empty if it is all of it.
        what: Its type, and its size as far as that can be told.
        batch: Types and shapes in a loader's first batch; empty for a loader that was not read, and for
            everything that is no loader.
    """

    name: str
    what: str
    batch: str = ""

    def __str__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        return f"{name}{self.what}{f', the first: {self.batch}' if self.batch else ''}"


@dataclass(frozen=True)
class Check:
    """What was found when one batch went through all three functions.

    Attributes:
        parameters: Every parameter with its value.
        data: What ``data()`` returned; empty if nobody called it.
        model: What ``model()`` returned; likewise.
        reported: Metric -> how often it was reported.
        returned: What the training function returned.
        metric: Name of the experiment's metric.
        value: Its value; None if it never came.
        problem: Why the result could not be used; empty if it can.
        unseen: What the functions use that cannot be part of a study's identity, such as a table among their globals.
        seconds: Part (``"data"``, ``"model"``, ``"train"``) -> seconds that it took.
    """

    parameters: tuple[Setting, ...]
    data: tuple[Piece, ...]
    model: tuple[Piece, ...]
    reported: Mapping[str, int]
    returned: str
    metric: str
    value: float | None
    problem: str
    seconds: Mapping[str, float]
    unseen: tuple[str, ...] = ()

    def __str__(self) -> str:
        took = ", ".join(f"{part} {seconds(s)}" for part, s in self.seconds.items())
        times = [f"{name} {'once' if n == 1 else f'{n:,} times'}" for name, n in self.reported.items()]
        judged = f"{self.metric}={self.value:.6g}" if self.value is not None else f"no {self.metric}"
        rows = {
            "parameters": [f"{p.name}={p.value}, {p.origin}, for {p.taken_by}" for p in self.parameters] or ["none"],
            "data": list(map(str, self.data)) or ["nobody asked for it"],
            "model": list(map(str, self.model)) or ["nobody asked for it"],
            "reported": [", ".join(times) or "nothing"],
            "returned": [f"{self.returned}: {judged}"],
            "took": [took],
            **({"problem": [self.problem]} if self.problem else {}),
            **({"unseen": list(self.unseen)} if self.unseen else {}),
        }
        return "\n".join(
            f"{title if first else '':<11} {text}"
            for title, texts in rows.items()
            for first, text in zip([True] + [False] * len(texts), texts, strict=False)
        )


def check(experiment: Definition, params: Mapping[str, Any], *, seed: int, arm: Arm | None = None) -> Check:
    """Run one batch through all three functions and return what was found.

    Args:
        experiment: The experiment.
        params: A configuration that its functions can be called with.
        seed: The training seed.
        arm: What is taken away; None if nothing is.

    Raises:
        ConfigError: ``data()`` raised; its own error is the cause.
        Exception: Whatever the other functions raise.
    """
    signature = experiment.signature
    watched = _Watched(experiment.functions, params)
    with tempfile.TemporaryDirectory(prefix="etude-check-") as place:
        run = _OneEpoch(
            metrics=experiment.metrics.names,
            params={**signature.defaults(), **params},
            seed=seed,
            device=default_device(),
            folder=lambda: Path(place),
            auto_report=reports_by_itself(experiment),
        )
        bound = Bound(watched.functions, signature, params, run, arm=arm)
        began = time.perf_counter()
        returned = bound.train()
        took = time.perf_counter() - began
    value, problem = None, ""
    try:
        value, _ = read_result(returned, metrics=experiment.metrics.names, reported=run.last, logged=run.logged)
    except ResultError as error:
        problem = str(error)
    return Check(
        parameters=tuple(_settings(signature, params, bound.derived)),
        data=tuple(piece() for piece in watched.data),
        model=tuple(watched.model),
        reported=dict(run.counts),
        returned=brief(returned),
        metric=experiment.metrics.main,
        value=value,
        problem=problem,
        seconds={**watched.seconds, "train": took - sum(watched.seconds.values())},
        unseen=read_code(experiment.functions).unseen,
    )


class _OneEpoch(Run):
    """A run handle that counts reports and gives out one epoch."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.counts: Counter[str] = Counter()

    def report(self, metrics: Mapping[str, float] | None = None, /, *more: Never, **named: float) -> None:
        super().report(metrics, *more, **named)
        self.counts.update({**(metrics or {}), **named}.keys())

    def epochs(self, n: int) -> Generator[int, bool | None, None]:
        return super().epochs(min(n, 1))


class _Watched:
    """Functions that write down what they return, and how long it took."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]], params: Mapping[str, Any]) -> None:
        self.functions = dict(functions)
        self.data: list[Callable[[], Piece]] = []  # pieces are made at the end, when loaders have been read
        self.model: list[Piece] = []
        self.seconds: dict[str, float] = {}
        self._params = params
        if "data" in functions:
            self.functions["data"] = lambda **given: self._load(functions["data"], given)
        if "model" in functions:
            self.functions["model"] = lambda **given: self._build(functions["model"], given)

    def _load(self, function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
        began = time.perf_counter()
        try:
            found = function(**given)
        except EtudeError:
            raise
        except Exception as error:
            shown = ", ".join(f"{name}={brief(value, 40)}" for name, value in given.items())
            raise ConfigError(
                f"data({shown}) raised {type(error).__name__}: {error}. Its traceback stands above; every trial with "
                "these parameters would end there. Mend data(), or give it other parameters."
            ) from error
        self.seconds["data"] = time.perf_counter() - began
        self.data = [_watch(name, leaf) for name, leaf in _leaves("", found)]
        return found

    def _build(self, function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
        began = time.perf_counter()
        built = function(**given)
        self.seconds["model"] = self.seconds.get("model", 0.0) + time.perf_counter() - began
        self.model = [Piece(name, _described(leaf)) for name, leaf in _leaves("", built)]
        return built


def _watch(name: str, leaf: Any) -> Callable[[], Piece]:
    """Cut a loader to its first batch; return what tells, later, what the leaf was."""
    what = _described(leaf)
    if not _is_loader(leaf):
        return lambda: Piece(name, what)
    seen: list[str] = []
    _cut(leaf, seen)
    return lambda: Piece(name, what, seen[0]) if seen else Piece(name, f"{what}, not read")


def _cut(loader: Any, seen: list[str]) -> None:
    """Let a loader yield its first batch alone; it stays the object and, by name, the type that it was."""
    cls = type(loader)

    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807 - looked up on the type, so it has to be there
        for batch in cls.__iter__(self):
            seen.append(", ".join(_described(leaf) for _, leaf in _leaves("", batch)))
            yield batch
            return

    def __len__(self: Any) -> int:  # noqa: N807
        return min(1, int(cls.__len__(self)))

    loader.__class__ = type(
        cls.__name__, (cls,), {"__iter__": __iter__, "__len__": __len__, "__module__": cls.__module__}
    )


def _is_loader(value: Any) -> bool:
    """Say whether this is a PyTorch loader; if nobody has loaded PyTorch, it is none."""
    torch_data = sys.modules.get("torch.utils.data")
    return torch_data is not None and isinstance(value, torch_data.DataLoader)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what is in nested containers, with where it stands."""
    inner: dict[str, Any] | None = None
    if isinstance(value, Data):
        inner = {part: getattr(value, part) for part in ("train", "valid", "test")}
        inner = {part: found for part, found in inner.items() if found is not None}
    elif isinstance(value, dict) and len(value) <= LONGEST_LISTED:
        inner = {str(key): found for key, found in value.items()}
    elif isinstance(value, tuple | list) and 0 < len(value) <= LONGEST_LISTED:
        names = getattr(value, "_fields", [f"[{i}]" for i in range(len(value))])
        inner = dict(zip(names, value, strict=True))
    if inner is None:
        yield name, value
        return
    for part, found in inner.items():
        yield from _leaves(f"{name}{'.' if name and not part.startswith('[') else ''}{part}", found)


def _described(value: Any) -> str:
    """Return the type of something, and its size as far as that can be told without reading it."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    name = type(value).__name__ if dtype is None else str(dtype).removeprefix("torch.")
    if shape is not None:
        return f"{name} {tuple(shape)}"
    if value is None or isinstance(value, bool | int | float | str):
        return brief(value, 40)
    size = _size(value)
    return f"{name}, {size}" if size else name


def _size(value: Any) -> str:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.nn.Module):
        return count(sum(p.numel() for p in value.parameters()), "parameter")
    try:
        n = len(value)
    except Exception:  # a stream, an estimator that is not fitted yet: whatever its author chose to raise
        return ""
    if _is_loader(value):
        return f"{n:,} {'batch' if n == 1 else 'batches'}"
    return count(n, "item")


def _settings(signature: Signature, params: Mapping[str, Any], derived: Mapping[str, Any]) -> Iterator[Setting]:
    defaults = signature.defaults()
    for name, parameter in signature.parameters.items():
        if parameter.kind is Kind.DERIVED:
            yield Setting(name, brief(derived.get(name)), "derived", parameter.taken_by)
        else:
            origin = "given" if name in params else "default"
            yield Setting(name, brief(params.get(name, defaults.get(name))), origin, parameter.taken_by)
    for name in params:
        if name not in signature.parameters:
            taken_by = " and ".join(f"{role}()" for role in signature.open)
            yield Setting(name, brief(params[name]), "given", taken_by)
