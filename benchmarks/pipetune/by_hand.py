"""A training whose setting is changed by hand between its epochs, and what each epoch took.

The functions are those of an ordinary experiment. In place of a study's ``run`` they get one that asks before each
epoch for its setting, and in place of their loaders ones that begin each epoch with the workers that were asked for.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, RandomSampler

from benchmarks.pipetune.workloads import Workload
from etude.system.knobs import Setting
from etude.system.meters.modelled import Modelled
from etude.system.profile import Profile, profiler
from etude.system.sources.counted import Counted

WORKERS: Final = "loader_workers"
PERSISTENT: Final = "persistent_workers"
THREADS: Final = "threads"


@dataclass(frozen=True)
class Epoch:
    """What an epoch took.

    Attributes:
        setting: The setting that it ran with.
        seconds: How long it took, with its validation and its report.
        steps: Training steps; 1 where there is no loader.
        joules: Modelled: CPU seconds of the training and its loader workers, times the watts of a core.
        profile: What it took of its machine; None where nobody asked for it.
        begun_s: How much of the seconds went to workers that were begun, and stay.
        metrics: What the training reported after it.
    """

    setting: Setting
    seconds: float
    steps: int
    joules: float | None
    profile: Profile | None
    begun_s: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)


class Feed:
    """Gives out the batches of a loader, by as many workers as the setting says.

    Args:
        loader: The user's loader; it is rebuilt for each setting, so its dataset has to be one that is indexed.
        stepped: Told of each batch that is trained with: seconds since the one before, and of those how many the
            training waited for this one.
    """

    def __init__(self, loader: DataLoader[Any], stepped: Callable[[float, float], None]) -> None:
        self._loader, self._stepped = loader, stepped
        self._now: DataLoader[Any] = loader
        self._how: tuple[int, bool] = (loader.num_workers, False)
        self._begins = False
        self.begun_s = 0.0

    def set(self, workers: int, *, persistent: bool) -> None:
        """Let the next epoch be loaded by so many workers."""
        how = (workers, persistent and workers > 0)
        if how == self._how:
            return
        was = self._loader
        self._begins = how[1]
        self._how, self._now = how, DataLoader(
            was.dataset,
            batch_size=was.batch_size,
            shuffle=isinstance(was.sampler, RandomSampler),
            num_workers=how[0],
            persistent_workers=how[1],
            collate_fn=was.collate_fn,
            drop_last=was.drop_last,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self._now)

    def __iter__(self) -> Iterator[Any]:
        before_s = time.perf_counter()
        batches = iter(self._now)
        while True:
            asked_s = time.perf_counter()
            batch = next(batches, None)
            if batch is None:
                return
            waited_s = time.perf_counter() - asked_s
            if self._begins:
                self._begins, self.begun_s = False, time.perf_counter() - before_s
            trains = torch.is_grad_enabled()
            yield batch
            if trains:
                now_s = time.perf_counter()
                self._stepped(now_s - before_s, waited_s)
                before_s = now_s


class ByHand:
    """Stands in for a study's ``run``.

    Args:
        next_setting: Asked before each epoch for its setting; None ends the training.
        ended: Told of each epoch.
        profiled: Says of an epoch, by its number from 0, whether it is profiled.
    """

    def __init__(
        self,
        next_setting: Callable[[], Setting | None],
        ended: Callable[[Epoch], None],
        *,
        profiled: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._next, self._ended, self._profiled = next_setting, ended, profiled
        self._feeds: list[Feed] = []
        self._counted = Counted()
        self._steps = 0
        self.last: Mapping[str, float] = {}

    def train(self, workload: Workload, **params: Any) -> None:
        """Call a workload's training function with this in place of its run.

        Args:
            workload: What to train.
            params: Hyperparameters; others have the defaults of the functions that ask for them.
        """
        given = {**workload.fixed, "epochs": 10**6, **params}
        asked: dict[str, Any] = {"run": self}
        if workload.model is not None:
            asked["model"] = _bound(workload.model, given)
        if workload.data is not None:
            data = _bound(workload.data, given)
            asked["data"] = lambda: self._taken_in_hand(data())
        _bound(workload.train, given)(**asked)

    def epochs(self, most: int) -> Iterator[int]:
        """Give the numbers of epochs, each with the setting that is asked for."""
        watch, meter = profiler(self._counted), Modelled()
        with contextlib.closing(watch):
            for nth in range(most):
                setting = self._next()
                if setting is None:
                    return
                self._apply(setting)
                self._steps = 0
                is_profiled = self._profiled(nth)
                if is_profiled:
                    watch.begin()
                meter.begin()
                began_s = time.perf_counter()
                yield nth
                seconds = time.perf_counter() - began_s
                joules = meter.end().joules
                if not self._feeds:
                    self._stepped(seconds, 0.0)
                profile = watch.end() if is_profiled else None
                begun_s = sum(feed.begun_s for feed in self._feeds)
                self._ended(Epoch(setting, seconds, self._steps, joules, profile, begun_s, dict(self.last)))

    def report(self, **metrics: float) -> None:
        """Keep what was reported last."""
        self.last = metrics

    def keep(self, **_: Any) -> None:
        """Do nothing: nothing is resumed."""

    def _apply(self, setting: Setting) -> None:
        threads = setting.get(THREADS)
        if isinstance(threads, int):
            torch.set_num_threads(threads)
        for feed in self._feeds:
            feed.begun_s = 0.0
            feed.set(int(setting.get(WORKERS) or 0), persistent=bool(setting.get(PERSISTENT)))

    def _taken_in_hand(self, loaders: Any) -> Any:
        self._feeds = [Feed(loader, self._stepped) for loader in loaders]
        return tuple(self._feeds)

    def _stepped(self, seconds: float, waited_s: float) -> None:
        self._steps += 1
        self._counted.step(seconds, waited_s=waited_s)


def _bound(function: Callable[..., Any], given: Mapping[str, Any]) -> Callable[..., Any]:
    asked = inspect.signature(function).parameters
    return functools.partial(function, **{name: value for name, value in given.items() if name in asked})
