"""Everything of a running PyTorch training that can be changed, by the names of knobs.

One thing that fails is put back, said once and left alone from then on; the training never notices.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import torch
from torch.utils.data import BatchSampler, DataLoader, IterDataPipe, MapDataPipe

from etude.frameworks.coats import plain_class
from etude.frameworks.thread_knobs import ThreadKnobs, Value
from etude.frameworks.torch import every
from etude.frameworks.torch_feeding import Feeding
from etude.frameworks.torch_feeds import hold, release
from etude.frameworks.torch_layout import ChannelsLast, Compiled, LowerPrecision
from etude.frameworks.torch_stretches import Way
from etude.frameworks.torch_updates import Gathering
from etude.frameworks.torch_views import is_iterable

LOADERS: Final = ("loader_workers", "prefetch", "persistent_workers", "pin_memory", "cache")
KINDS: Final = {"channels_last": ChannelsLast, "compile": Compiled, "amp": LowerPrecision}
MODELS: Final = tuple(KINDS)

NO_LOADER: Final = "data() gave no DataLoader of torch. Return the loaders themselves."
NO_MODEL: Final = "model() has given no module of torch yet. Take the model from model()."
NO_OPTIMIZER: Final = "no optimizer is known that could gather gradients. Pass it to run.keep(optimizer=optimizer)."
NO_GPU: Final = "torch sees no GPU, so that nothing would be fetched from there. Let the trial see one."


class TorchKnobs:
    """Applies settings to the loaders, models and optimizers of a training, and to its threads.

    Args:
        say: Called with a line where something goes wrong.
        stepped: Called for each batch of a loader in hand that is drawn while gradients are enabled, with the seconds
            since the batch before (for the first one of a pass: since the pass began), and the seconds that the
            training waited for this one.
        share: How many threads it may compute with; 0 for as many as it has now.
    """

    def __init__(self, *, say: Callable[[str], None], stepped: Callable[[float, float], None], share: int = 0) -> None:
        self._say = say
        self._stepped = stepped
        self._threads = ThreadKnobs(say=say, share=share)
        self._feeds: list[Feeding] = []
        self._models: list[torch.nn.Module] = []
        self._optimizers: list[torch.optim.Optimizer] = []
        self._on: dict[str, list[Any]] = {}  # knob -> what is in use
        self._failed: dict[str, str] = {}
        self._left: dict[str, str] = dict.fromkeys((*LOADERS, "batch_size"), NO_LOADER)
        self._setting: dict[str, Value] = {}

    def data(self, data: Any) -> Any:
        """Take the loaders of the data in hand; called once, with what is to be given to the training function.

        Args:
            data: Loaders in any nesting. It is returned as it is.
        """
        refused = ""
        for loader in every(DataLoader, data):
            try:
                refused = refused or self._refused(loader)
                if not self._refused(loader):
                    self._feeds.append(hold(loader, stepped=self._stepped, barred=self._say_barred))
            except Exception as error:
                refused = refused or f"a loader cannot be taken in hand: {error}. Pass a plain DataLoader."
        if self._feeds:
            self._left = {}
            if not torch.cuda.is_available():
                self._left["pin_memory"] = NO_GPU
            if not any(type(feed.loader.batch_sampler) is BatchSampler for feed in self._feeds):
                self._left["batch_size"] = (
                    "batches come from a sampler of another kind, or are divided. Give the loader a batch_size."
                )
        elif refused:
            self._left = dict.fromkeys((*LOADERS, "batch_size"), refused)
        return data

    @staticmethod
    def _refused(loader: DataLoader[Any]) -> str:
        """Return why a loader is left alone; empty if it is not."""
        if is_iterable(loader.dataset) or isinstance(loader.dataset, IterDataPipe | MapDataPipe):
            return (
                f"the data set {type(loader.dataset).__name__} can only be gone through, so that each process would go"
                " through it anew. Use a data set that has examples by index."
            )
        if plain_class(loader) is not DataLoader:
            return f"the loader is a {type(loader).__name__}, which may do more than torch's own. Use a DataLoader."
        if not getattr(loader, "in_order", True):
            return "the loader has in_order=False, so that batches come as they may. Leave in_order out."
        return ""

    def model(self, model: Any) -> Any:
        """Take modules in hand that the model function gave, placed and loaded; they are returned as they are."""
        new = [module for module in every(torch.nn.Module, model) if all(module is not one for one in self._models)]
        self._models += new
        for knob in MODELS:
            if self._setting.get(knob):
                self._put_on(knob, new)
        return model

    def kept(self, things: Mapping[str, Any]) -> None:
        """Take in what the training function keeps: optimizers may be among it."""
        known = {id(optimizer) for optimizer in self._optimizers}
        new = [optimizer for optimizer in every(torch.optim.Optimizer, dict(things)) if id(optimizer) not in known]
        self._optimizers += new
        steps = self._setting.get("accumulation")
        if isinstance(steps, int) and steps > 1:
            self._attempt("accumulation", lambda: self._gather(steps, new))

    @property
    def now(self) -> dict[str, Value]:
        """Knob -> its value as the training function has it, for each knob that has something to act on."""
        found: dict[str, Value] = dict(self._threads.now)
        if self._feeds:
            own = self._feeds[0].own
            found |= dict(zip(LOADERS, (own.workers, own.prefetch, own.persistent, own.pin, False), strict=True))
            found["batch_size"] = self._feeds[0].own_size
        if self._models:
            found |= dict.fromkeys(MODELS, False)
        if self._optimizers:
            found["accumulation"] = 1
        lacks = self.lacks
        return {knob: value for knob, value in found.items() if knob not in lacks}

    @property
    def lacks(self) -> dict[str, str]:
        """Knob -> why it cannot be set in this training, and the mend."""
        found = {**self._threads.lacks, **self._left}
        for knob in LOADERS:
            bars = [feed.bars.get(knob, "") for feed in self._feeds]
            if bars and all(bars):  # else there is one that it acts on
                found.setdefault(knob, bars[0])
        for knob in MODELS:
            kind: Any = KINDS[knob]
            reasons = [kind.lacks(model) for model in self._models]
            if not self._models:
                found[knob] = NO_MODEL
            elif all(reasons):
                found[knob] = reasons[0]
        if not self._optimizers:
            found["accumulation"] = NO_OPTIMIZER
        return {**found, **self._failed}

    def apply(self, setting: Mapping[str, Value]) -> None:
        """Set knobs; those that the setting does not name go back to what the training function has.

        It is called from the thread that trains, between two steps or epochs. Loaders change with their next batch, or
        with their next pass where they have workers that stay; the batch size changes with their next pass.

        Args:
            setting: Knob -> value. Knobs that cannot be set are left alone, and so are names that are not known.
        """
        lacks = self.lacks
        wanted: dict[str, Value] = {
            knob: value for knob, value in setting.items() if knob not in lacks and value is not None
        }
        self._setting = wanted
        self._threads.apply(wanted)
        for feed in self._feeds:
            self._attempt("loader_workers", functools.partial(_feed, feed, wanted))
        for knob in MODELS:
            if bool(wanted.get(knob)) == (knob in self._on):
                continue
            if knob in self._on:
                self._take_off(knob)
            else:
                self._put_on(knob, self._models)
        steps = wanted.get("accumulation", 1)
        if steps != self._gathers:
            self._take_off("accumulation")
            if isinstance(steps, int) and steps > 1:
                self._attempt("accumulation", lambda: self._gather(steps, self._optimizers))

    def close(self) -> None:
        """Put everything back; loaders, models and optimizers are as they were."""
        self._setting = {}
        for knob in list(self._on):
            self._take_off(knob)
        for feed in self._feeds:
            with contextlib.suppress(Exception):
                release(feed)
        self._feeds, self._models, self._optimizers = [], [], []
        self._threads.close()

    # --- one knob -------------------------------------------------------------------------------------

    def _put_on(self, knob: str, models: Iterable[torch.nn.Module]) -> None:
        for model in models:
            thing = self._made(knob, model)
            if thing is not None:
                self._on.setdefault(knob, []).append(thing)
                self._attempt(knob, thing.on)

    def _made(self, knob: str, model: torch.nn.Module) -> Any:
        kind: Any = KINDS[knob]
        if kind.lacks(model):
            return None
        return Compiled(model, lambda why: self._fail("compile", why)) if kind is Compiled else kind(model)

    @property
    def _gathers(self) -> int:
        return next((one.steps for one in self._on.get("accumulation", ())), 1)

    def _gather(self, steps: int, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        for optimizer in optimizers:
            self._on.setdefault("accumulation", []).append(Gathering(optimizer, steps))

    def _take_off(self, knob: str) -> None:
        for thing in reversed(self._on.pop(knob, [])):
            with contextlib.suppress(Exception):
                thing.off()

    def _attempt(self, knob: str, act: Callable[[], object]) -> bool:
        try:
            act()
        except Exception as error:  # the training goes on with what it had
            self._fail(knob, f"{type(error).__name__}: {error}")
            return False
        return True

    def _fail(self, knob: str, why: str) -> None:
        if knob not in self._failed:
            self._failed[knob] = f"it failed, {why.rstrip('.')}. Leave it out of the knobs."
            self._say(f"{knob} could not be set, and stays as it was: {why}")
        self._take_off(knob)

    def _say_barred(self, why: str) -> None:
        self._say(f"a loader stays as the training function has it: {why}. No batch was changed by it.")


def _feed(feed: Feeding, wanted: Mapping[str, Any]) -> None:
    own = feed.own
    feed.wanted = Way(
        int(wanted.get("loader_workers", own.workers)),
        int(wanted.get("prefetch", own.prefetch)),
        bool(wanted.get("persistent_workers", own.persistent)),
        bool(wanted.get("pin_memory", own.pin)),
        bool(wanted.get("cache", False)),
    )
    size = wanted.get("batch_size")
    feed.batch_size = None if size is None else int(size)
