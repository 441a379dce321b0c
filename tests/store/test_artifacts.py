"""Files of checkpoints: what nobody needs goes, and nothing else does."""

from __future__ import annotations

import threading
from pathlib import Path

from etude.store.artifacts import Artifacts

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
    artifacts = Artifacts(tmp_path)
    assert artifacts.sweep({KEPT}) == len(SURPLUS)
    assert there(tmp_path) == {f"00007/{KEPT[1]}", *OTHERS}
    assert artifacts.sweep({KEPT}) == 0
    artifacts.close()


def test_what_an_attempt_left_behind_goes_when_it_is_over(tmp_path: Path) -> None:
    put(tmp_path, f"00007/{KEPT[1]}", *SURPLUS, *OTHERS)
    artifacts = Artifacts(tmp_path)
    artifacts.tidy(7, 1, {KEPT[1]})
    artifacts.tidy(7, 2, set())  # which had nothing
    artifacts.close()
    assert there(tmp_path) == {f"00007/{KEPT[1]}", SURPLUS[3], *OTHERS}


def test_what_comes_after_a_removal_finds_it_done(tmp_path: Path) -> None:
    put(tmp_path, f"00007/{KEPT[1]}")
    artifacts, found = Artifacts(tmp_path), []
    done = threading.Event()

    def look() -> None:
        found.append(there(tmp_path))
        done.set()

    artifacts.discard([KEPT, (9, "attempt-1/checkpoints/0-00001.rest.safetensors")])
    artifacts.then(look)
    assert done.wait(30.0)
    assert found == [set()]
    artifacts.close()
