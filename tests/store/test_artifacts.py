"""Files of checkpoints: what nobody needs goes, and nothing else does."""

from __future__ import annotations

import threading
from pathlib import Path

from etude.places.depot import FolderDepot
from etude.store.artifacts import FAILURES, Artifacts

KEPT = (7, "attempt-1/checkpoints/0-00005.weights.safetensors")


def put(trials: Path, *names: str) -> None:
    for name in names:
        path = trials / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def there(trials: Path) -> set[str]:
    return {path.relative_to(trials).as_posix() for path in trials.rglob("*") if path.is_file()}


SURPLUS = (
    "00007/attempt-1/checkpoints/0-00005.rest.safetensors",
    "00007/attempt-1/checkpoints/.0-00006.rest.safetensors.part",
    "00007/attempt-1/checkpoints/.tmpA1b2",
    "00008/attempt-2/checkpoints/1-00001.weights.safetensors",
)
OTHERS = (
    "00007/attempt-1/checkpoints/mine.safetensors",
    "00007/attempt-1/checkpoints/best/0-00005.rest.safetensors",
    "00007/attempt-1/0-00005.rest.safetensors",
    "00007/attempt-1/log.txt",
)


def test_a_sweep_removes_what_nobody_needs_and_nothing_of_the_users(tmp_path: Path) -> None:
    put(tmp_path, f"00007/{KEPT[1]}", *SURPLUS, *OTHERS)
    artifacts = Artifacts(FolderDepot(tmp_path), note=print)
    artifacts.sweep({KEPT})
    assert there(tmp_path) == {f"00007/{KEPT[1]}", *OTHERS}
    artifacts.close()


def test_what_an_attempt_left_behind_goes_when_it_is_over(tmp_path: Path) -> None:
    put(tmp_path, f"00007/{KEPT[1]}", *SURPLUS, *OTHERS)
    artifacts = Artifacts(FolderDepot(tmp_path), note=print)
    artifacts.tidy(7, 1, {KEPT[1]})
    artifacts.tidy(7, 2, set())  # which had nothing
    artifacts.close()
    assert there(tmp_path) == {f"00007/{KEPT[1]}", SURPLUS[3], *OTHERS}


def test_what_comes_after_a_removal_finds_it_done(tmp_path: Path) -> None:
    put(tmp_path, f"00007/{KEPT[1]}")
    artifacts, found = Artifacts(FolderDepot(tmp_path), note=print), []
    done = threading.Event()

    def look() -> None:
        found.append(there(tmp_path))
        done.set()

    artifacts.discard([KEPT, (9, "attempt-1/checkpoints/0-00001.rest.safetensors")])
    artifacts.then(look)
    assert done.wait(30.0)
    assert found == [set()]
    artifacts.close()


class Stuck(FolderDepot):
    """A depot from which little can be removed."""

    tried = 0

    def remove(self, trial: int, name: str) -> None:
        self.tried += 1
        raise OSError(30, "Read-only file system")


def test_what_cannot_be_removed_is_said_once_and_not_tried_for_ever(tmp_path: Path) -> None:
    put(tmp_path, *SURPLUS)
    told: list[str] = []
    depot = Stuck(tmp_path)
    artifacts = Artifacts(depot, note=told.append)
    artifacts.sweep(set())
    assert depot.tried == FAILURES < len(SURPLUS)
    artifacts.discard([KEPT])
    artifacts.close()
    assert told == [
        "Files of checkpoints that nobody needs any more cannot be removed (OSError: [Errno 30] Read-only file "
        "system). Those that stay are removed when the study goes on, or by `etude gc`."
    ]
