"""Weights that a training run may begin with: of a trial, of several, or from a file.

search.best.weights                        # as they were after its best epoch
search.best.weights.at("last")             # or after another one that was kept
search.best.weights.shrunk(0.4, 0.1)       # shrink and perturb
etude.soup(search.top(3))                  # the mean of several
etude.weights("resnet.safetensors")        # from elsewhere
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from etude.core.errors import ConfigError, StateError
from etude.core.events import BEST, LAST, OPTIMIZERS, START, Start
from etude.core.numbers import is_number
from etude.core.text import brief
from etude.data.seen import Seen
from etude.frameworks.loading import Parts
from etude.frameworks.shards import join

Ancestor = tuple[str, int, int]
"""A study, a trial of it, and how many epochs that had trained."""

ANCESTORS: Final = "ancestors"
"""Where a file's metadata say whose weights it has."""

RANDOM: Final = "random"
"""What a call says for no weights of anybody's."""

GROUPS: Final = "param_groups"
"""What tells the state of an optimizer from others."""

SHRINK: Final = 0.4
PERTURB: Final = 0.1
"""What Zaidi et al. found to do well over many image tasks; see ``Weights.shrunk``."""


@dataclass(frozen=True)
class Weights:
    """Weights to begin with.

    Attributes:
        name: What they are called, for people.
        ancestors: Whose they were, as far as that is known.
        shrink: How much of them is taken.
        perturb: How much of random weights is added.
    """

    name: str
    ancestors: tuple[Ancestor, ...] = ()
    shrink: float = 1.0
    perturb: float = 0.0

    def load(self) -> Parts:
        """Return them: what a module is called -> name -> array, before anything is shrunk.

        Raises:
            StateError: They cannot be read.
        """
        raise NotImplementedError

    def optimizers(self) -> Mapping[str, Any]:
        """Return the states of the optimizers that go with them, by what they are called; usually none."""
        return {}

    def seen(self) -> Seen:
        """Return what rows they were trained on and chosen by, and those that they grew from, as far as it is known.

        Raises:
            StateError: They cannot be read.
        """
        raise NotImplementedError

    def read(self) -> tuple[Parts, Seen]:
        """Return what ``load`` and ``seen`` return, with each file opened once: those at a URL are fetched for that.

        Raises:
            StateError: They cannot be read.
        """
        return self.load(), self.seen()

    def shrunk(self, shrink: float = SHRINK, perturb: float = PERTURB) -> Weights:
        """Return the same, shrunk and perturbed: ``shrink`` times the weights plus ``perturb`` times random ones.

        It keeps what was learned, and gives back some of the ease with which a new network learns. Buffers, such as
        the means of batch norm, are taken as they are.

        Args:
            shrink: How much is taken of these weights, from 0 to 1.
            perturb: How much is taken of the random ones that the run would have begun with, 0 or more.

        Raises:
            ConfigError: One of them cannot be.

        Source:
            Ash and Adams 2020, "On Warm-Starting Neural Network Training", arXiv:1910.08475. As with Zaidi et al. 2022,
            "When Does Re-initialization Work?", arXiv:2206.10011, the noise is another initialisation; their values are
            the defaults.
        """
        if not is_number(shrink) or not 0 <= shrink <= 1:
            raise ConfigError(f"shrink={brief(shrink)} is no share of the weights. Pass a number from 0 to 1.")
        if not is_number(perturb) or not 0 <= perturb < float("inf"):
            raise ConfigError(
                f"perturb={brief(perturb)} is no share of random weights. Pass a number that is 0 or more."
            )
        name = f"{self.name}, shrunk to {shrink:g} and perturbed by {perturb:g}"
        return replace(self, name=name, shrink=float(shrink), perturb=float(perturb))

    def save(self, path: str | os.PathLike[str], **metadata: str) -> Path:
        """Write them as one safetensors file, which any tool reads, and return its path.

        Args:
            path: Of the file; one that is there is replaced.
            metadata: What else is written into it.

        Raises:
            StateError: They cannot be read.
            OSError: The file cannot be written.
        """
        from etude.frameworks import state_file
        from etude.frameworks.trees import take_apart

        ancestors = [{"study": study, "trial": trial, "epochs": epochs} for study, trial, epochs in self.ancestors]
        told = {"name": self.name, ANCESTORS: json.dumps(ancestors), **metadata}
        parts, seen = self.read()
        state_file.write(Path(path), *take_apart(dict(parts), path=""), metadata=told, beside=seen.plain())
        return Path(path)


@dataclass(frozen=True)
class File:
    """A file with a state, or with what one rank has of it.

    Attributes:
        opened: Gives a path of this machine at which it can be read for now.
        digest: What it had when it was written.
    """

    opened: Callable[[], AbstractContextManager[Path]]
    digest: str

    def read(self) -> Any:
        """Return what is in it.

        Raises:
            StateError: It cannot be read.
        """
        from etude.frameworks import state_file

        with self.opened() as path:
            return state_file.read(path, self.digest)

    def read_with_seen(self) -> tuple[Any, Seen]:
        """Return what is in it, and what rows its weights were trained on and chosen by.

        Raises:
            StateError: It cannot be read.
        """
        from etude.frameworks import state_file

        with self.opened() as path:
            return state_file.read(path, self.digest), Seen.read(state_file.beside(path))


@dataclass(frozen=True)
class Place:
    """Where weights are.

    Attributes:
        files: Those with the weights: one, or one of each rank if these had shards of them.
        epoch: How many epochs they had trained for.
        said: Gives the newest value of each metric that the trial had reported by then.
        rest: The files with the rest of the state; none if that was not kept.
    """

    files: tuple[File, ...]
    epoch: int
    said: Callable[[], Mapping[str, float]] = dict
    rest: tuple[File, ...] = ()


@dataclass(frozen=True)
class TrialWeights(Weights):
    """The weights of a trial that were kept.

    Attributes:
        study: The study's name.
        trial: The trial's number.
        kept: Name of an epoch -> where its weights are.
        chosen: Which of them these are.
        before: Whose weights the trial had begun with.
        optimized: Whether the states of its optimizers are taken along.
    """

    study: str = ""
    trial: int = 0
    kept: Mapping[str | int, Place] = None  # type: ignore[assignment] # fields with defaults come before it
    chosen: str | int = BEST
    before: tuple[Ancestor, ...] = ()
    optimized: bool = False

    def at(self, epoch: str | int) -> TrialWeights:
        """Return those after another epoch.

        Args:
            epoch: ``"best"``, ``"last"``, or how many epochs had been done.

        Raises:
            ConfigError: They were not kept; the message says which were.
        """
        found = epoch if epoch in self.kept else next((n for n, p in self.kept.items() if p.epoch == epoch), None)
        if found is None:
            there = ", ".join(f"{name!r} (epoch {place.epoch})" for name, place in self.kept.items())
            raise ConfigError(
                f"Trial {self.trial} of {self.study!r} kept no weights of epoch {epoch!r}. There are {there}. Say "
                f"which are kept when the study is run: tune(..., keep=etude.Keep(epochs=('last', 'best', {epoch!r})))."
            )
        return replace(
            self, chosen=found, optimized=False, **_told(self.study, self.trial, self.kept[found].epoch, self.before)
        )

    def is_of(self, other: TrialWeights) -> bool:
        """Return whether both are of one trial."""
        return (self.study, self.trial) == (other.study, other.trial)

    def with_optimizer(self) -> TrialWeights:
        """Return the same, with the states of the optimizers that the trial kept (``run.keep(optimizer=...)``).

        What an optimizer has learned of the gradients, such as moments, is taken; its learning rate and other settings
        are those of the new run. The function keeps optimizers of torch under the names that they had.

        Raises:
            ConfigError: They were not kept, or these weights are shrunk.
        """
        if (self.shrink, self.perturb) != (1.0, 0.0):
            raise ConfigError("An optimizer's state belongs to weights as they were. Take it, or shrink, not both.")
        if not self.kept[self.chosen].rest:
            raise ConfigError(
                f"Trial {self.trial} of {self.study!r} kept weights alone. Keep the states of optimizers as well when "
                "the study is run: tune(..., keep=etude.Keep(optimizers=True))."
            )
        return replace(self, optimized=True, name=f"{self.name}, with its optimizer")

    def shrunk(self, shrink: float = SHRINK, perturb: float = PERTURB) -> Weights:
        """As ``Weights.shrunk``; an optimizer's state does not go with them."""
        if self.optimized:
            raise ConfigError("An optimizer's state belongs to weights as they were. Take it, or shrink, not both.")
        return super().shrunk(shrink, perturb)

    def optimizers(self) -> Mapping[str, Any]:
        """Return the states of its optimizers, if they are taken along."""
        rest = self.kept[self.chosen].rest
        if not self.optimized or not rest:
            return {}
        objects = join([file.read()["rest"]["objects"] for file in rest])
        found = {name: state for name, state in objects.items() if isinstance(state, Mapping) and GROUPS in state}
        if not found:
            raise StateError(
                f"{self.name}: the function kept no optimizer. Keep it with the net, run.keep(net=net, "
                "optimizer=optimizer), or leave .with_optimizer() out."
            )
        return found

    @property
    def epoch(self) -> int:
        """How many epochs they had trained for."""
        return self.kept[self.chosen].epoch

    def load(self) -> Parts:
        """Return them."""
        found: Parts = join([file.read() for file in self.kept[self.chosen].files])
        return found

    def seen(self) -> Seen:
        """Return what rows they were trained on and chosen by."""
        from etude.frameworks import state_file

        with self.kept[self.chosen].files[0].opened() as path:
            return Seen.read(state_file.beside(path))

    def read(self) -> tuple[Parts, Seen]:
        """Return both."""
        first, *others = self.kept[self.chosen].files
        part, seen = first.read_with_seen()
        found: Parts = join([part, *(file.read() for file in others)])
        return found, seen


def of_trial(
    study: str, trial: int, kept: Mapping[str | int, Place], *, before: tuple[Ancestor, ...] = ()
) -> TrialWeights:
    """Return the weights that were kept of a trial: those after its best epoch, unless another one is asked for.

    Args:
        study: The study's name.
        trial: The trial's number.
        kept: Name of an epoch -> where its weights are.
        before: Whose weights it had begun with.

    Raises:
        ConfigError: There are none.
    """
    if not kept:
        raise ConfigError(
            f"Trial {trial} of {study!r} has no weights: its function kept none, or others were better. Keep them with "
            "kept = run.keep(net=net) and run.epochs(n); tune(..., keep=5) keeps those of the five best trials, "
            "as far as max_gb= leaves room for them."
        )
    chosen = next((name for name in (BEST, LAST) if name in kept), None) or max(kept, key=lambda name: kept[name].epoch)
    told = _told(study, trial, kept[chosen].epoch, before)
    return TrialWeights(study=study, trial=trial, kept=kept, chosen=chosen, before=before, **told)


def _told(study: str, trial: int, epoch: int, before: tuple[Ancestor, ...]) -> dict[str, Any]:
    return {"name": f"epoch {epoch} of trial {trial} of {study}", "ancestors": (*before, (study, trial, epoch))}


@dataclass(frozen=True)
class FileWeights(Weights):
    """Weights from a safetensors file.

    Attributes:
        path: Of the file.
    """

    path: Path = Path()

    def load(self) -> Parts:
        """Return them; what the file does not tell apart is one module's."""
        from etude.frameworks import state_file

        found: Parts = state_file.read_weights(self.path)
        return found

    def seen(self) -> Seen:
        """Return what rows they were trained on and chosen by, if the file is one of ours that says so."""
        from etude.frameworks import state_file

        return Seen.read(state_file.beside(self.path))


@dataclass(frozen=True)
class BegunWith(FileWeights):
    """Weights that trials of a final training began with, where that has them.

    Attributes:
        beside: The file with the states of their optimizers; None if there is none.
    """

    beside: Path | None = None

    def optimizers(self) -> Mapping[str, Any]:
        """Return the states of the optimizers that go with them."""
        from etude.frameworks import state_file

        return state_file.read(self.beside) if self.beside is not None else {}


def begun_with(start: Start, trials: Path) -> BegunWith:
    """Return the weights that trials of a final training began with.

    Args:
        start: What its journal says of them.
        trials: The folder of its trials.
    """
    folder = trials / f"{start.holder:05d}"
    beside = folder / OPTIMIZERS if start.optimizers else None
    return BegunWith(start.name, start.ancestors, start.shrink, start.perturb, path=folder / START, beside=beside)


def weights(path: str | os.PathLike[str]) -> FileWeights:
    """Return the weights in a safetensors file, of Étude or of any other tool.

    Args:
        path: Of the file.

    Raises:
        ConfigError: There is no such file.
    """
    there = Path(path)
    if not there.is_file():
        raise ConfigError(
            f"weights={str(path)!r}: there is no such file. Pass a safetensors file, or search.best.weights."
        )
    return FileWeights(str(there), _ancestors_in(there), path=there)


def _ancestors_in(path: Path) -> tuple[Ancestor, ...]:
    """Return whose weights a file of ours says that it has."""
    from etude.frameworks import state_file

    try:
        told = json.loads(state_file.metadata_of(path).get(ANCESTORS, "[]"))
        return tuple((one["study"], one["trial"], one["epochs"]) for one in told)
    except (StateError, ValueError, KeyError, TypeError):
        return ()  # what is wrong with it is said when it is read


def read_weights(given: object) -> Weights | None:
    """Return what a call says of weights to begin with; None for random ones.

    Raises:
        ConfigError: It is no weights.
    """
    if given is None or (isinstance(given, str) and given == RANDOM):
        return None
    if isinstance(given, Weights):
        return given
    if isinstance(given, str) and given == "auto":
        raise ConfigError(
            "weights='auto' chooses in fit() alone, and a comparison is of starts that are known. List them: "
            "starts=[search.best.weights, search.best.weights.shrunk()]."
        )
    if isinstance(given, str | os.PathLike):
        return weights(given)
    if hasattr(given, "weights"):
        found = given.weights
        if isinstance(found, Weights):
            return found
    raise ConfigError(
        f"weights={brief(given)} is no weights. Pass search.best.weights, etude.soup(search.top(3)), the path of a "
        "safetensors file, or 'random'."
    )
