"""What a call of ``fit`` says: the weights to begin with, written down for a study to take, and the seeds."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etude.core.events import OPTIMIZERS, START, Start
from etude.core.numbers import seed_of, seeds_listed, whole
from etude.data.seen import Seen
from etude.fit.weights import Weights
from etude.frameworks.loading import Parts


class Prepared:
    """Weights to begin with, each written to a file that a study can take."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="etude-start-"))
        self.starts: list[Start | None] = []
        self.files: dict[tuple[int, str], Path] = {}
        """Trial that holds a file for all that begin with it, and its name in that trial's folder -> the file."""
        self._holders: dict[tuple[str, str], int] = {}

    def add_random(self) -> None:
        """Begin with random weights."""
        self.starts.append(None)

    def add(self, weights: Weights, parts: Parts, seen: Seen, *, holder: int) -> None:
        """Begin with weights, which have been read.

        Args:
            weights: What they are.
            parts: What was read of them.
            seen: What rows they have seen.
            holder: The trial that is to hold the files, if there are none like them.

        Raises:
            StateError: The states of optimizers cannot be read.
        """
        path, digest = self._written("weights", parts, beside=seen.plain())
        states = weights.optimizers()
        beside, optimizers = self._written("optimizers", states) if states else (None, "")
        holder = self._holders.setdefault((digest, optimizers), holder)
        self.files.setdefault((holder, START), path)
        if beside is not None:
            self.files.setdefault((holder, OPTIMIZERS), beside)
        told = (weights.shrink, weights.perturb, weights.ancestors)
        self.starts.append(Start(weights.name, digest, *told, holder, optimizers))

    def _written(self, what: str, tree: Mapping[str, Any], *, beside: Any = None) -> tuple[Path, str]:
        """Write a file; return its path and its digest."""
        from etude.frameworks import state_file
        from etude.frameworks.trees import take_apart

        path = self._folder / f"{len(self.starts)}.{what}.safetensors"
        return path, state_file.write(path, *take_apart(dict(tree), path=""), beside=beside)[0]

    def close(self) -> None:
        """Remove the files."""
        shutil.rmtree(self._folder, ignore_errors=True)


def read_seeds(seeds: int | Sequence[int] | None, seed: int) -> tuple[int, ...]:
    """Return the training seeds of a call: those it lists, or so many, the first of which is ``seed``.

    Raises:
        ConfigError: They are none.
    """
    if seeds is None:
        return (seed_of(seed),)
    if isinstance(seeds, list | tuple | range):
        return seeds_listed(seeds)
    return tuple(range(seed_of(seed), seed_of(seed) + whole("seeds", seeds, 1, "nothing would be run")))
