"""Two of the paper's programs on the data that they were written for, where that is at hand, with authored replies.

One variant each, and few steps: it is shown that the whole way holds on real data, to a run to the
end of the variant, and nothing of how accurate anything is.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from benchmarks.common import ROOT
from benchmarks.mage_written import ENTRY, EXAMPLES, copied, follow_ups_by_hand, written
from watched_programs import sandbox_of_tests

from etude.mage.loop.book import Record
from etude.mage.verdicts import Outcome, Rung

CIFAR10 = Path(os.environ.get("CIFAR10") or ROOT / "../shared/data/cifar10")
CORA = Path(os.environ.get("CORA") or ROOT / "../shared/data/cora/cora.npz")


def climbed(record: Record, name: str) -> tuple[float, tuple[int, ...]]:
    """Return what a variant came to that passed every rung, and the shape of the first that its model was given."""
    assert record.standings[name].calls == 2  # the first reply has the paper's mistake
    assert follow_ups_by_hand(record) == 0
    assert [one.rung for one in record.verdicts_of(name)][-2:] == [Rung.GONE, Rung.SHORT_RUN]
    assert {one.outcome for one in record.verdicts_of(name)} == {Outcome.PASSED}
    patch = record.patch_of(name)
    assert patch is not None
    metric = record.completions[patch.digest].metric
    assert metric is not None
    return metric, record.facts[patch.digest].batches[0][0]


def test_a_network_loses_a_layer_on_the_images_of_cifar_10(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    parts = [CIFAR10 / "train-0.npz", CIFAR10 / "test.npz"]
    if not all(part.is_file() for part in parts):
        pytest.skip(f"CIFAR-10 is not in {CIFAR10}: set CIFAR10 to a folder with train-*.npz and test.npz")
    root = copied("mage_cnn", tmp_path)
    (root / "data").mkdir()
    for part in parts:
        shutil.copyfile(part, root / "data" / part.name)
    record = written(
        tmp_path / "study",
        root,
        EXAMPLES / "mage_cnn" / "authored",
        sandbox=sandbox_of_tests,
        only=["without-conv2"],
        choices={"conv2": "none", "fc1": "none"},
        entry=f"{ENTRY} --data data",
    )
    metric, batch = climbed(record, "without-conv2")
    assert 0.0 <= metric <= 1.0
    assert batch == (64, 3, 32, 32)


def test_graphsage_loses_a_layer_on_the_papers_of_cora(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if not CORA.is_file():
        pytest.skip(f"Cora is not at {CORA}: set CORA to cora.npz")
    root = copied("mage_graphsage", tmp_path)
    shutil.copyfile(CORA, root / "cora.npz")
    record = written(
        tmp_path / "study",
        root,
        EXAMPLES / "mage_graphsage" / "authored",
        sandbox=sandbox_of_tests,
        only=["without-sage2"],
        entry="python train.py --seed {seed} --epochs 3 --data cora.npz",  # ten of the whole graph take a while
    )
    metric, nodes = climbed(record, "without-sage2")
    assert 0.0 <= metric <= 1.0
    assert nodes == (2_708, 1_433)
