"""Pieces of files from elsewhere: they land in their attempt's folder, and nowhere else."""

import os
from pathlib import Path

import msgspec
import pytest

from etude.core.events import PARTS, START, Checkpoint, Start
from etude.core.ranks import Rank
from etude.places.depot import FolderDepot
from etude.wire.messages import Run
from etude.wire.node_messages import Piece
from etude.worker.received import PIECE_B, Brought, keep, names_of, pieces_of


def piece(path: str, data: bytes = b"x", *, first: bool = True) -> Piece:
    return Piece(1, 7, 2, path, data, first)


def test_pieces_make_a_file_and_a_first_one_makes_it_anew(tmp_path: Path) -> None:
    place = tmp_path / "00007" / "attempt-2" / "sub" / "weights.bin"
    for data, first in ((b"old", True), (b"ab", True), (b"cd", False)):
        keep(piece("sub/weights.bin", data, first=first), str(tmp_path))
    assert place.read_bytes() == b"abcd"


def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    keep(piece("empty", b""), str(tmp_path))
    assert (tmp_path / "00007" / "attempt-2" / "empty").read_bytes() == b""


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "", ".", "..", "a\0b"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match="is no name of a file in a folder"):
        keep(piece(name), str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "00007" / "attempt-2"
    folder.mkdir(parents=True)
    (tmp_path / "secret").write_text("untouched")
    os.symlink(tmp_path / "secret", folder / "log.txt")
    with pytest.raises(OSError, match="symbolic links"):
        keep(piece("log.txt"), str(tmp_path))
    assert (tmp_path / "secret").read_text() == "untouched"


def a_point(attempt: int, epoch: int) -> Checkpoint:
    return Checkpoint(attempt, 0, epoch, epoch, ("", ""), (1, 1))


def bring(brought: Brought, trial: int, point: Checkpoint) -> None:
    for part in PARTS:
        attempt, _, name = point.name(part).partition("/")
        brought.keep(Piece(0, trial, int(attempt.removeprefix("attempt-")), name, b"state", True))


def there(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_what_was_brought_for_an_attempt_goes_with_it_unless_another_needs_it(tmp_path: Path) -> None:
    brought, point = Brought(str(tmp_path)), a_point(1, 5)
    bring(brought, 7, point)
    brought.begin(1, Run(8, 1, {}, 0, (point,), 7))
    brought.begin(2, Run(9, 1, {}, 0, (point,), 7))
    brought.end(1)
    assert len(there(tmp_path)) == 2
    brought.end(2)
    assert there(tmp_path) == set()


def test_an_attempt_that_is_forgotten_leaves_what_others_are_to_begin_with(tmp_path: Path) -> None:
    """With a mirror a node is told late to forget: what was brought to it meanwhile may lie in the same folder."""
    brought, point = Brought(str(tmp_path)), a_point(1, 5)
    own = tmp_path / "00007" / "attempt-1" / "log.txt"
    bring(brought, 7, point)
    own.write_text("what it printed")
    brought.forget(7, 1)
    assert there(tmp_path) == {f"00007/{point.name(part)}" for part in PARTS}, "it is on its way, and nobody has it yet"
    brought.begin(1, Run(7, 2, {}, 0, (point,)))
    brought.forget(7, 1)
    assert len(there(tmp_path)) == 2
    brought.end(1)
    brought.forget(7, 1)
    assert there(tmp_path) == set()


def test_a_worker_that_is_given_the_next_attempt_needs_the_one_before_no_more(tmp_path: Path) -> None:
    brought = Brought(str(tmp_path))
    first, second = a_point(1, 1), a_point(1, 2)
    bring(brought, 0, first)
    brought.begin(1, Run(1, 1, {}, 0, (first,), 0))
    bring(brought, 0, second)
    brought.begin(1, Run(2, 1, {}, 0, (second,), 0))
    assert there(tmp_path) == {f"00000/{second.name(part)}" for part in PARTS}


def test_the_weights_that_a_trial_begins_with_are_brought_as_well(tmp_path: Path) -> None:
    here, away = tmp_path / "here", tmp_path / "away"
    start = here / "00003" / START
    start.parent.mkdir(parents=True)
    content = b"weights" * PIECE_B  # in several pieces
    start.write_bytes(content)
    job = Run(3, 1, {}, 0, start=Start("w", "d", holder=3))
    brought = Brought(str(away))
    for piece in pieces_of(job, FolderDepot(here), str(here)):
        brought.keep(piece)
    brought.begin(1, job)
    assert (away / "00003" / START).read_bytes() == content
    before = (away / "00003" / START).stat()
    other = Run(4, 1, {}, 0, start=Start("w", "d", holder=3))
    for nth, piece in enumerate(pieces_of(other, FolderDepot(here), str(here))):
        brought.keep(piece)
        if nth == 2:
            brought.end(1)
    brought.begin(2, other)
    assert (away / "00003" / START).stat().st_mtime_ns == before.st_mtime_ns, "the first one may be reading it"
    assert (away / "00003" / START).read_bytes() == content
    brought.begin(1, job)
    brought.end(2)
    assert there(away) == {f"00003/{START}"}
    brought.end(1)
    assert there(away) == set()


@pytest.mark.parametrize(("digests", "names"), [(2, ["", "", ""]), (6, ["", ".rank-1", ".rank-2"])])
def test_a_rank_is_brought_its_own_shard_of_a_state(digests: int, names: list[str]) -> None:
    point = msgspec.structs.replace(a_point(1, 5), digests=("x",) * digests)
    for rank, name in enumerate(names):
        job = Run(7, 2, {}, 0, (point,), rank=Rank(rank, 3, 0, 1, "10.0.0.1"))
        assert names_of(job) == [(7, f"attempt-1/checkpoints/0-00005{name}.{part}.safetensors") for part in PARTS]
