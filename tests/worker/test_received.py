"""Pieces of files from elsewhere: they land in their attempt's folder, and nowhere else."""

import os
from pathlib import Path

import pytest

from etude.wire.node_messages import Piece
from etude.worker.received import keep


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
