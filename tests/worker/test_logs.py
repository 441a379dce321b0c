"""Attempt logs: head and tail are kept to the byte, what is missing is counted, and no disk can hurt the worker."""

import os
import re
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.worker.logs import FLUSH_EVERY, PIECE, AttemptLog

NOTE = re.compile(rb"\n\.\.\. ([\d,]+) bytes left out \.\.\.\n")


@pytest.fixture
def make() -> Iterator[Callable[[int], AttemptLog]]:
    made: list[AttemptLog] = []

    def new(limit: int) -> AttemptLog:
        made.append(AttemptLog(limit))
        return made[-1]

    yield new
    for log in made:
        log.close()
        os.close(log.write_end)


def write(log: AttemptLog, text: bytes) -> None:
    """Print ``text``, as a child would, and have it read."""
    for start in range(0, len(text), 4096):
        os.write(log.write_end, text[start : start + 4096])
        assert log.drain()


def numbered(size: int) -> bytes:
    return b"".join(b"%07d\n" % n for n in range(size // 8 + 1))[:size]


def parts(content: bytes) -> tuple[bytes, int, bytes]:
    """Return head, the number of bytes left out, and tail."""
    match = NOTE.search(content)
    if match is None:
        return content, 0, b""
    return content[: match.start()], int(match[1].replace(b",", b"")), content[match.end() :]


def test_who_prints_nothing_has_no_file_and_no_folder(tmp_path: Path, make: Callable[[int], AttemptLog]) -> None:
    log = make(100)

    def folder() -> Path:
        raise AssertionError("nobody needs it")

    log.belong_to(folder)
    assert log.drain()
    log.finish()
    assert list(tmp_path.iterdir()) == []


def test_what_fits_is_kept_whole(tmp_path: Path, make: Callable[[int], AttemptLog]) -> None:
    log = make(1000)
    log.belong_to(lambda: tmp_path)
    write(log, numbered(1000))
    log.finish()
    assert (tmp_path / "log.txt").read_bytes() == numbered(1000)
    assert [p.name for p in tmp_path.iterdir()] == ["log.txt"]


def test_the_head_is_in_the_file_as_it_comes(tmp_path: Path, make: Callable[[int], AttemptLog]) -> None:
    log = make(1000)
    log.belong_to(lambda: tmp_path)
    write(log, b"loss 0.5\n")
    assert (tmp_path / "log.txt").read_bytes() == b"loss 0.5\n"


def test_of_much_output_head_and_tail_are_kept_and_the_rest_is_counted(
    tmp_path: Path, make: Callable[[int], AttemptLog]
) -> None:
    log = make(1000)
    log.belong_to(lambda: tmp_path)
    text = numbered(100_000)
    write(log, text)
    log.finish()
    content = (tmp_path / "log.txt").read_bytes()
    assert content == text[:500] + b"\n... 99,000 bytes left out ...\n" + text[-500:]


@given(
    limit=st.integers(0, 300),
    pieces=st.lists(st.integers(0, 700), max_size=8),
    early=st.integers(0, 200),
)
def test_what_is_kept_and_what_is_left_out_make_up_what_was_written(limit: int, pieces: list[int], early: int) -> None:
    text = numbered(early + sum(pieces))
    with tempfile.TemporaryDirectory() as place:
        log = AttemptLog(limit)
        try:
            write(log, text[:early])  # before it is known whose it is
            log.belong_to(lambda: Path(place))
            start = early
            for size in pieces:
                write(log, text[start : start + size])
                start += size
            log.finish()
        finally:
            log.close()
            os.close(log.write_end)
        path = Path(place, "log.txt")
        content = path.read_bytes() if path.exists() else b""
    head, missing, tail = parts(content)
    assert len(head) + missing + len(tail) == len(text)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) == min(len(text), limit // 2 * 2)


def test_the_tail_of_a_long_attempt_can_be_read_while_it_runs(
    tmp_path: Path, make: Callable[[int], AttemptLog]
) -> None:
    log = make(1000)
    log.belong_to(lambda: tmp_path)
    text = numbered(500 + FLUSH_EVERY)
    write(log, text)
    assert (tmp_path / "log.tail.txt").read_bytes() == text[-500:]
    log.finish()
    assert [p.name for p in tmp_path.iterdir()] == ["log.txt"]


def test_after_one_attempt_it_belongs_to_the_next(tmp_path: Path, make: Callable[[int], AttemptLog]) -> None:
    log = make(100)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    log.belong_to(lambda: tmp_path / "first")
    write(log, numbered(1000))
    log.finish()
    write(log, b"between\n")
    log.belong_to(lambda: tmp_path / "second")
    write(log, b"mine\n")
    log.finish()
    assert (tmp_path / "first" / "log.txt").read_bytes().endswith(numbered(1000)[-50:])
    assert (tmp_path / "second" / "log.txt").read_bytes() == b"between\nmine\n"


def test_of_what_comes_too_early_the_newest_is_kept_and_the_rest_is_counted(
    tmp_path: Path, make: Callable[[int], AttemptLog]
) -> None:
    log = make(10 * PIECE)
    text = numbered(PIECE + 1000)
    write(log, text)
    log.belong_to(lambda: tmp_path)
    log.finish()
    head, missing, tail = parts((tmp_path / "log.txt").read_bytes())
    assert (head, missing, tail) == (text[1000:], 1000, b"")


def test_no_more_is_taken_in_at_once_than_was_asked_for(tmp_path: Path, make: Callable[[int], AttemptLog]) -> None:
    log = make(1000)
    log.belong_to(lambda: tmp_path)
    os.write(log.write_end, b"x" * 3000)
    assert log.drain(1)
    assert log.drain()


def test_the_end_of_the_stream_is_told(tmp_path: Path) -> None:
    log = AttemptLog(1000)
    log.belong_to(lambda: tmp_path)
    os.write(log.write_end, b"last words")
    os.close(log.write_end)
    assert log.drain() is False
    log.close()
    assert (tmp_path / "log.txt").read_bytes() == b"last words"


def test_a_folder_that_cannot_be_made_costs_output_and_nothing_else(
    tmp_path: Path, make: Callable[[int], AttemptLog]
) -> None:
    log = make(100)
    works = False

    def folder() -> Path:
        if not works:
            raise OSError(28, "No space left on device")
        return tmp_path

    log.belong_to(folder)
    write(log, b"lost\n")
    log.finish()
    log.belong_to(folder)
    write(log, b"lost\n")
    works = True
    write(log, b"kept\n")
    works = False
    write(log, b"kept too\n" * FLUSH_EVERY)
    log.finish()
    head, missing, tail = parts((tmp_path / "log.txt").read_bytes())
    assert head.startswith(b"kept\n")
    assert len(head) + missing + len(tail) == 5 + 5 + 9 * FLUSH_EVERY


def test_a_log_that_cannot_be_opened_costs_output_and_nothing_else(
    tmp_path: Path, make: Callable[[int], AttemptLog]
) -> None:
    (tmp_path / "log.txt").mkdir()
    log = make(100)
    log.belong_to(lambda: tmp_path)
    write(log, numbered(1000))
    log.finish()
    assert list((tmp_path / "log.txt").iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is set for this process alone")
def test_on_a_full_disk_it_is_counted_what_did_not_get_into_the_file(
    tmp_path: Path, make: Callable[[int], AttemptLog]
) -> None:
    log = make(1000)
    log.belong_to(lambda: tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
    try:
        write(log, numbered(400))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    write(log, numbered(400)[:50])
    log.finish()
    assert parts((tmp_path / "log.txt").read_bytes()) == (numbered(300) + numbered(50), 100, b"")
