"""What partitions save: counted as it is said, and fetched as it is counted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import importance_io, importance_moved
from benchmarks.page import section
from benchmarks.paper4.overheads import TABLE_6

torch = pytest.importorskip("torch")

from benchmarks.moved.blocks import Records  # noqa: E402 - it needs torch
from benchmarks.moved.images import RECORD_B, made_up  # noqa: E402

ROOT = Path(__file__).parent.parent
N = 60


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    pixels, classes = made_up(N, RECORD_B - 1)
    np.hstack([pixels, classes[:, None]]).tofile(tmp_path / "file")
    command = [sys.executable, "-m", "benchmarks.moved.blocks", str(tmp_path / "file"), str(RECORD_B)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = Records(("127.0.0.1", int(server.stdout.readline())), tmp_path / "cache", N, RECORD_B)
        yield found
        found.close()
        server.kill()


def test_a_node_fetches_what_it_did_not_draw_in_the_epoch_before(records: Records, tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    pixels, classes = made_up(N, RECORD_B - 1)
    held: set[int] = set()
    fetched = 0
    parts = [draws.choice(N, N // 2, replace=False) for _ in range(3)]
    for part in [draws.permutation(parts[epoch // 2]).tolist() for epoch in range(6)]:
        for at in range(0, len(part), 10):
            for example, (x, y) in zip(part[at : at + 10], records.__getitems__(part[at : at + 10]), strict=True):
                assert torch.equal(x, torch.from_numpy(pixels[example].astype(np.float32) / 255))
                assert y == classes[example]
        fetched += len(set(part) - held)
        assert records.fetched == fetched
        records.keep_drawn()
        held = set(part)
    assert (tmp_path / "cache" / "records").stat().st_size <= N * RECORD_B, "places are used again"


def test_an_example_that_a_batch_has_twice_is_fetched_once(records: Records) -> None:
    one, other, again = records.__getitems__([3, 4, 3])
    assert torch.equal(one[0], again[0])
    assert not torch.equal(one[0], other[0])
    assert records.fetched == 2


def test_where_all_are_shuffled_each_rank_has_its_slice_of_every_batch() -> None:
    parts = importance_moved.shuffled_over(2_000, epoch=3)
    drawn = np.random.default_rng([1, 3]).permutation(2_000)
    batches = drawn.reshape(-1, importance_moved.BATCH)
    assert sorted(np.concatenate(parts)) == list(range(2_000))
    for rank, part in enumerate(parts):
        assert set(part) == {e for batch in batches for e in np.array_split(batch, importance_moved.RANKS)[rank]}


def test_vanilla_fetches_what_a_rank_has_not_and_partitions_fetch_in_the_first_epoch_of_an_interval_alone() -> None:
    args: dict[str, Any] = {"n": 2_000, "epochs": 12, "warmup": 3, "interval": 4}
    shuffled = [importance_moved.shuffled_over(2_000, epoch) for epoch in range(12)]
    losses = np.random.default_rng(0).random((12, 2_000))
    vanilla = importance_moved.fetched(shuffled)
    assert vanilla[0] == 2_000
    assert sum(vanilla[1:]) / 11 / 2_000 == pytest.approx(0.75, abs=0.02)
    stripes = importance_moved.fetched(importance_moved.divided("Stripes", args, losses, shuffled))
    sticky = importance_moved.fetched(importance_moved.divided("StickyStripes", args, losses, shuffled))
    assert stripes[:3] == sticky[:3] == vanilla[:3]
    assert [at for at, moved in enumerate(stripes) if moved] == [0, 1, 2, 3, 7]
    assert stripes[7] / 2_000 == pytest.approx(0.75, abs=0.04)
    assert sticky[7] / 2_000 == pytest.approx((1 - 1 / 4) ** 4, abs=0.03)


def test_what_nodes_note_is_compared_with_both_counts() -> None:
    args = {"n": 100, "warmup": 1, "interval": 2, "epochs": 5}
    told = {"metrics": {"repartitions": 2.0, "examples_moved": 20.0}}
    fetched = [0, 50, 70, 70, 80, 80]  # 10 on each node in the first epoch of the last interval
    notes = [[(each, 7_000 + 101 * each) for each in fetched] for _ in range(2)]
    assert importance_io.counted(args, told, notes, 100) == pytest.approx(
        {
            "link_mb": 2 * 80 * 101 / 1e6,
            "counted_mb": 2 * 80 * 100 / 1e6,
            "off_percent": 1.0,
            "kb_per_epoch": 2 * 10 * 101 / 2 / 1e3,
            "moved_percent": 20.0,
            "told_off_percent": 1.0,
        }
    )
    with pytest.raises(SystemExit, match=r"noted \[6, 3\] times, and not 6"):
        importance_io.counted(args, told, [notes[0], notes[1][:3]], 100)


def test_the_rows_of_table_6_stand_beside_ours() -> None:
    row = {"median": 0.0123, "min": 0.01, "max": 0.02, "runs": 3, "unit": "s", "probe": 1.0, "digits": 4}
    rows = [{**row, "name": f"étude stripes: {what}"} for what in TABLE_6]
    machine = {"cores": 2, "cpu": "a cpu", "python": "3.11"}
    result = {"benchmark": "importance_repartition", "commit": "c", "changed": False, "machine": machine}
    text = section({**result, "rows": rows, "targets": []})
    assert "| recording (paper: importance tracking overhead), each epoch | 0.979 | 1.052 | 1.407 | 0.0123 |" in text
    assert "| assigning (paper: heuristic overhead), each interval | 2.456 | 2.643 | 5.213 | 0.0123 |" in text
