"""Weights that lie elsewhere are fetched when they are read, so each of their files is opened once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from etude.data.seen import Seen
from etude.fit.soups import Soup
from etude.fit.weights import File, Place, TrialWeights, of_trial
from etude.frameworks import state_file
from etude.frameworks.trees import take_apart


class Depot:
    """Keeps weights elsewhere, and counts how often a file is fetched."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.fetched = folder, list[str]()

    def weights(self, trial: int, value: float) -> TrialWeights:
        path = self.folder / f"{trial}.safetensors"
        parts, arrays = take_apart({"net": {"w": np.full(2, value)}}, path="")
        digest, _ = state_file.write(path, parts, arrays, beside=Seen(unknown=(f"of {trial}",)).plain())

        @contextlib.contextmanager
        def opened() -> Iterator[Path]:
            self.fetched.append(path.name)
            yield path

        return of_trial("study", trial, {"last": Place((File(opened, digest),), epoch=1)})


@pytest.fixture
def depot(tmp_path: Path) -> Depot:
    return Depot(tmp_path)


def test_what_is_in_a_file_and_beside_it_is_read_at_once(depot: Depot) -> None:
    weights = depot.weights(0, 1.0)
    parts, seen = weights.read()
    assert depot.fetched == ["0.safetensors"]
    np.testing.assert_array_equal(parts["net"]["w"], weights.load()["net"]["w"])
    assert seen == weights.seen()
    assert seen.unknown == ("of 0",)


def test_a_mean_reads_each_of_its_files_once_and_so_does_who_saves_it(depot: Depot, tmp_path: Path) -> None:
    mixed = Soup("both", of=(depot.weights(0, 1.0), depot.weights(1, 2.0)))
    parts, seen = mixed.read()
    assert depot.fetched == ["0.safetensors", "1.safetensors"]
    np.testing.assert_array_equal(parts["net"]["w"], [1.5, 1.5])
    assert seen.unknown == ("of 0", "of 1")
    depot.fetched.clear()
    mixed.save(tmp_path / "mixed.safetensors")
    assert depot.fetched == ["0.safetensors", "1.safetensors"]
