"""Facts of small real programs, watched in this process by plain hooks: no sandbox, no files.

The judge is pure, and this is all that its tests need of a probe.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch.optim.lr_scheduler import LRScheduler, StepLR
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils.data import DataLoader

from etude.mage.facts import Ended, Facts, FitFacts, ModelFacts, ModuleFacts, ParameterFacts

FILE = "train.py"
F = torch.nn.functional
LIBRARY = ((torch.nn.utils, "clip_grad_norm_"), *((F, name) for name in dir(F) if name[0].islower()))
"""Functions that are watched: all that networks are made of."""


class Enough(BaseException):
    """Ends a program of which enough was seen."""


def digest(value: Any) -> str:
    array = value.detach().numpy() if isinstance(value, torch.Tensor) else np.ascontiguousarray(value)
    return hashlib.sha256(str((array.dtype, array.shape)).encode() + array.tobytes()).hexdigest()[:12]


class Watch(TorchDispatchMode):
    """Sees what a program does while it is entered."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.most = steps
        self.steps = 0
        self.models: list[torch.nn.Module] = []
        self.table: dict[int, dict[str, ParameterFacts]] = {}
        self.outermost: list[torch.nn.Module] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        self.groups: list[Any] = []
        self.rates: list[float] = []
        self.scheduled: list[str] = []
        self.stack: list[torch.nn.Module] = []
        self.calls: Counter[int] = Counter()
        self.operators: Counter[str] = Counter()
        self.elsewhere: Counter[str] = Counter()
        self.apart = False
        self.arguments: dict[str, list[str]] = {}
        self.inside: dict[int, Counter[str]] = {}
        self.functions: Counter[str] = Counter()
        self.live: set[int] = set()
        self.losses: list[float] = []
        self.seeds: list[str] = []
        self.fits: list[FitFacts] = []
        self.loaders: list[DataLoader[Any]] = []
        self.batches: list[Any] = []
        self.given_first: list[Any] = []
        self.settings: dict[str, Any] = {}

    def given(self, name: str, values: Any) -> None:
        text = " ".join(f"{key}={value}" for key, value in values if isinstance(value, bool | int | float | str | None))
        text = " ".join([text, *(f"{key}=tensor" for key, value in values if isinstance(value, torch.Tensor))]).strip()
        if text and text not in self.arguments.setdefault(name, []):
            self.arguments[name].append(text)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if str(func).startswith("aten."):
            self.operators[str(func)] += 1
            if not self.stack and not self.apart:
                self.elsewhere[str(func)] += 1
                floats = [(str(n), one) for n, one in enumerate(args) if isinstance(one, float)]
                if floats:
                    self.given(str(func), floats)
            if self.stack:
                self.inside.setdefault(id(self.stack[-1]), Counter())[str(func)] += 1
        return func(*args, **(kwargs or {}))

    def before_call(self, module: torch.nn.Module, given: Any) -> None:
        for row in module.parameters(recurse=False):
            if not hasattr(row, "_first"):
                with _disable_current_modes():
                    row._first = digest(row)
        if not self.stack and module not in self.outermost and not isinstance(module, torch.nn.modules.loss._Loss):
            self.outermost.append(module)
            with _disable_current_modes():
                self.given_first.append([one.detach().clone() for one in given if isinstance(one, torch.Tensor)])
        self.stack.append(module)

    def after_call(self, module: torch.nn.Module, *_: Any) -> None:
        self.stack.pop()
        self.calls[id(module)] += 1

    def before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self.apart = True
        self.rates.append(optimizer.param_groups[0]["lr"])
        if optimizer not in self.optimizers:
            self.optimizers.append(optimizer)
            self.groups.append(
                tuple({k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups)
            )
            owned = {id(one) for group in optimizer.param_groups for one in group["params"]}
            for module in self.outermost:
                if module not in self.models and any(id(one) in owned for one in module.parameters()):
                    self.models.append(module)
        with _disable_current_modes():
            for module in self.models:
                for row in module.parameters():
                    if row.grad is not None and bool(row.grad.ne(0).any()):
                        self.live.add(id(row))

    def after_step(self, *_: Any) -> None:
        self.apart = False
        self.steps += 1
        if self.steps >= self.most:
            raise Enough

    def model(self, module: torch.nn.Module) -> ModelFacts:
        return ModelFacts(
            type=type(module).__name__,
            parameters={
                name: ParameterFacts(
                    shape=tuple(row.shape),
                    trainable=row.requires_grad,
                    digest=getattr(row, "_first", ""),
                    got_gradient=id(row) in self.live if self.steps else None,
                    moved=getattr(row, "_first", "") != digest(row) if self.steps else None,
                )
                for name, row in module.named_parameters()
            },
            modules={
                name: ModuleFacts(
                    type=type(one).__name__,
                    calls=self.calls[id(one)],
                    values={
                        key: value for key, value in vars(one).items() if not key.startswith("_") and _is_plain(value)
                    },
                    operators=dict(self.inside.get(id(one), {})),
                )
                for name, one in module.named_modules()
            },
        )


@contextmanager
def _hooks(watch: Watch) -> Iterator[None]:  # noqa: C901 - one hook after the other
    with ExitStack() as stack:
        for handle in (
            torch.nn.modules.module.register_module_forward_pre_hook(watch.before_call),
            torch.nn.modules.module.register_module_forward_hook(watch.after_call, always_call=True),
            register_optimizer_step_pre_hook(watch.before_step),
            register_optimizer_step_post_hook(watch.after_step),
        ):
            stack.callback(handle.remove)

        def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
            stack.enter_context(patch.object(owner, name, make(getattr(owner, name))))

        def counting(name: str) -> Callable[[Any], Any]:
            def make(original: Any) -> Any:
                try:
                    known = inspect.signature(original)
                except ValueError:  # one that is written in another language
                    known = inspect.signature(lambda *args, **kwargs: None)

                def wrapped(*args: Any, **kwargs: Any) -> Any:
                    watch.functions[name] += 1
                    bound = known.bind(*args, **kwargs)
                    bound.apply_defaults()
                    plain = [
                        (key, value)
                        for key, value in bound.arguments.items()
                        if known.parameters[key].default is not inspect.Parameter.empty
                        or not isinstance(value, torch.Tensor)
                    ]
                    watch.given(name, [*plain, *bound.arguments.get("kwargs", {}).items()])
                    return original(*args, **kwargs)

                return wrapped

            return make

        for owner, name in LIBRARY:
            if inspect.isroutine(getattr(owner, name)):
                replace(owner, name, counting(f"{owner.__name__}.{name}"))

        def seeding(word: str) -> Callable[[Any], Any]:
            def make(original: Any) -> Any:
                def wrapped(seed: int, *args: Any) -> Any:
                    watch.seeds.append(f"{word} {seed}")
                    return original(seed, *args)

                return wrapped

            return make

        replace(torch, "manual_seed", seeding("torch"))
        replace(np.random, "seed", seeding("numpy"))
        replace(random, "seed", seeding("random"))

        def backward(original: Any) -> Any:
            def wrapped(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
                with _disable_current_modes():
                    watch.losses.append(float(self.detach()))
                watch.apart = True
                try:
                    return original(self, *args, **kwargs)
                finally:
                    watch.apart = False

            return wrapped

        replace(torch.Tensor, "backward", backward)
        replace(torch.optim.Optimizer, "zero_grad", counting("torch.optim.Optimizer.zero_grad"))

        def began(original: Any) -> Any:
            def wrapped(self: Any, params: Any, *args: Any, **kwargs: Any) -> None:
                original(self, params, *args, **kwargs)
                with _disable_current_modes():
                    for group in self.param_groups:
                        for row in group["params"]:
                            row._first = digest(row)

            return wrapped

        replace(torch.optim.Optimizer, "__init__", began)

        def scheduler(original: Any) -> Any:
            def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
                watch.scheduled.append(type(self).__name__)
                original(self, *args, **kwargs)
                plain = [(key, value) for key, value in vars(self).items() if isinstance(value, int | float)]
                watch.given(type(self).__name__, [one for one in plain if not one[0].startswith(("_", "last"))])

            return wrapped

        replace(LRScheduler, "__init__", scheduler)
        replace(StepLR, "step", counting("torch.optim.lr_scheduler.StepLR.step"))

        def first_batch(original: Any) -> Any:
            def wrapped(self: DataLoader[Any]) -> Any:
                new = not any(self is one for one in watch.loaders)
                if new:
                    watch.loaders.append(self)
                for nth, batch in enumerate(original(self)):
                    if new and not nth:
                        watch.batches.append([one.clone() for one in batch])
                    yield batch

            return wrapped

        replace(DataLoader, "__iter__", first_batch)

        def parsed(original: Any) -> Any:
            def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
                found = original(self, *args, **kwargs)
                watch.settings.update({f"args.{key}": value for key, value in vars(found).items()})
                return found

            return wrapped

        replace(argparse.ArgumentParser, "parse_args", parsed)

        def given(word: str) -> Callable[[Any], Any]:
            def make(original: Any) -> Any:
                def wrapped(self: BaseEstimator, x: Any, *args: Any, **kwargs: Any) -> Any:
                    array = np.asarray(x)
                    watch.fits.append(
                        FitFacts(
                            type=f"{type(self).__name__}{word}",
                            rows=len(array),
                            columns=tuple(map(str, getattr(x, "columns", range(array.shape[1])))),
                            target=digest(np.asarray(args[0])) if args else "",
                            values={
                                **self.get_params(),
                                **{f"fit.{key}": digest(np.asarray(value)) for key, value in kwargs.items()},
                            },
                            digests=tuple(digest(array[:, nth]) for nth in range(array.shape[1])),
                        )
                    )
                    return original(self, x, *args, **kwargs)

                return wrapped

            return make

        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler
        from xgboost import XGBClassifier

        for estimator in (LogisticRegression, StandardScaler, XGBClassifier):
            replace(estimator, "fit", given(""))
            if hasattr(estimator, "predict"):
                replace(estimator, "predict", given(".predict"))
        yield


def watch(source: str, *, steps: int = 3, argv: tuple[str, ...] = ()) -> Facts:
    """Return what a program did, given as the source of its one file."""
    seen = Watch(steps)
    space: dict[str, Any] = {"__name__": "__main__", "__file__": FILE}
    ended = Ended(code=0, why="finished")
    metrics: dict[str, float] = {}
    space["METRICS"] = metrics

    def profile(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename == FILE and "<" not in frame.f_code.co_qualname:
            seen.functions[f"{FILE}:{frame.f_code.co_qualname}"] += 1

    before = torch.get_rng_state(), np.random.get_state(), random.getstate()
    with _hooks(seen), patch.object(sys, "argv", [FILE, *argv]):
        try:
            code = compile(source, FILE, "exec")
            sys.setprofile(profile)
            with seen:
                exec(code, space)
        except Enough:
            ended = Ended(code=0, why="enough seen")
        except Exception as error:
            trace, line, name = error.__traceback__, 0, ""
            while trace is not None:
                if trace.tb_frame.f_code.co_filename == FILE:
                    line, name = trace.tb_lineno, trace.tb_frame.f_code.co_qualname
                trace = trace.tb_next
            ended = Ended(
                code=1,
                why="raised",
                error=type(error).__name__,
                message=str(error),
                frame=f"{FILE}, line {line}, {name}",
            )
        finally:
            sys.setprofile(None)
            torch.set_rng_state(before[0])
            np.random.set_state(before[1])
            random.setstate(before[2])
    batches = seen.batches or seen.given_first
    upper = {
        key: value
        for key, value in space.items()
        if key.isupper() and isinstance(value, bool | int | float | str | list | tuple)
    }
    return Facts(
        ended=ended,
        steps=seen.steps,
        models=tuple(seen.model(one) for one in seen.models),
        fits=tuple(seen.fits),
        optimizers=tuple(seen.groups),
        rates=tuple(seen.rates),
        scheduled=tuple(seen.scheduled),
        batches=tuple(tuple(tuple(one.shape) for one in batch) for batch in batches),
        batch_digests=tuple(",".join(map(digest, batch)) for batch in batches),
        arguments={name: tuple(sorted(one)) for name, one in seen.arguments.items()},
        batch_values=tuple(
            (float(one.double().mean()), float(one.double().std())) for batch in batches for one in batch
        ),
        lengths=tuple(len(one) for one in seen.loaders),
        losses=tuple(seen.losses),
        calls=dict(seen.functions),
        operators=dict(seen.operators),
        elsewhere=dict(seen.elsewhere),
        settings={**{f"{FILE}:{key}": _plain(value) for key, value in upper.items()}, **seen.settings},
        seeds=tuple(seen.seeds),
        metrics=metrics,
    )


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str) or (isinstance(value, tuple) and all(map(_is_plain, value)))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
