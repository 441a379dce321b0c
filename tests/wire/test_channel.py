"""Frames: whatever pieces a stream comes in, the frames that went in come out."""

import os
import select
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.wire.channel import LENGTH, MAX_FRAME, Channel, Frames, frame

contents = st.lists(st.binary(max_size=40), max_size=6)


@pytest.fixture
def pair() -> Iterator[tuple[Channel, Channel]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours), Channel(theirs)


@given(contents, st.lists(st.integers(0, 300)))
def test_frames_come_out_whole_and_in_order_in_whatever_pieces_they_come(sent: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(frame, sent))
    ends = sorted({min(cut, len(stream)) for cut in cuts} | {len(stream)})
    frames, got, start = Frames(), [], 0
    for end in ends:
        got += frames.feed(stream[start:end])
        start = end
    assert got == sent
    assert list(frames.feed(b"")) == []


@given(contents, st.integers(1, 20))
def test_who_reads_what_is_missing_never_reads_beyond_a_frame(sent: list[bytes], most: int) -> None:
    stream = b"".join(map(frame, sent))
    frames, got, start = Frames(), [], 0
    while start < len(stream):
        missing = frames.missing()
        assert missing > 0
        piece = stream[start : start + min(missing, most)]
        new = list(frames.feed(piece))
        assert len(new) <= 1
        got += new
        start += len(piece)
    assert got == sent


def test_a_piece_counts_also_if_nobody_asks_for_its_frames() -> None:
    frames = Frames()
    frames.feed(frame(b"one")[:2])
    frames.feed(frame(b"one")[2:])
    assert list(frames.feed(b"")) == [b"one"]


def test_no_frame_comes_twice_if_the_reader_gives_up_in_the_middle() -> None:
    frames = Frames()
    for content in frames.feed(frame(b"one") + frame(b"two")):
        assert content == b"one"
        break
    assert list(frames.feed(b"")) == [b"two"]


def test_an_announcement_that_is_too_long_is_a_stream_out_of_step() -> None:
    frames, got = Frames(), []
    with pytest.raises(ConnectionError) as refused:
        got.extend(frames.feed(frame(b"one") + LENGTH.pack(MAX_FRAME + 1) + b"x"))
    assert str(refused.value) == f"a frame of {MAX_FRAME + 1} bytes was announced; at most {MAX_FRAME} are possible"
    with pytest.raises(ConnectionError):
        list(Frames().feed(b"GET / HTTP/1.1\r\n"))
    assert list(Frames().feed(LENGTH.pack(MAX_FRAME))) == []


def test_a_channel_gives_frames_one_at_a_time_and_none_at_the_end(pair: tuple[Channel, Channel]) -> None:
    ours, theirs = pair
    ours.send(b"one")
    ours.send(b"")
    ours.send(b"x" * 100_000)
    ours.close()
    assert [theirs.receive() for _ in range(4)] == [b"one", b"", b"x" * 100_000, None]


def test_receiving_takes_one_frame_alone_so_that_select_tells_of_the_next(pair: tuple[Channel, Channel]) -> None:
    ours, theirs = pair
    ours.send(b"run")
    ours.send(b"halt")
    assert theirs.receive() == b"run"
    assert select.select([theirs], [], [], 0)[0] == [theirs]
    assert theirs.read() == [b"halt"]
    assert select.select([theirs], [], [], 0)[0] == []


def test_receiving_goes_on_with_what_a_read_left_in_pieces(pair: tuple[Channel, Channel]) -> None:
    ours, theirs = pair
    ours.sock.sendall(frame(b"one") + frame(b"two")[:6])
    assert theirs.read() == [b"one"]
    ours.sock.sendall(frame(b"two")[6:] + frame(b"three"))
    assert theirs.receive() == b"two"
    assert theirs.receive() == b"three"


def test_a_large_frame_is_received_while_it_is_sent(pair: tuple[Channel, Channel]) -> None:
    ours, theirs = pair
    content = os.urandom(3_000_000)
    sender = threading.Thread(target=ours.send, args=(content,))
    sender.start()
    assert theirs.receive() == content
    sender.join()


def test_a_broken_connection_is_an_end(pair: tuple[Channel, Channel]) -> None:
    ours, theirs = pair
    ours.send(b"never read")
    theirs.close()  # so this is a reset
    assert ours.read() is None
    assert ours.receive() is None
    with pytest.raises(OSError, match="Broken pipe"):
        ours.send(b"x")


def test_open_files_travel_with_a_frame(pair: tuple[Channel, Channel]) -> None:
    ours, theirs = pair
    pipes = [os.pipe() for _ in range(2)]
    for number, (_, write) in enumerate(pipes):
        ours.send_with_fds(f"pipe {number}".encode(), [write])
    ours.close()
    for number, (read, write) in enumerate(pipes):
        os.close(write)
        received = theirs.receive_with_fds(1)
        assert received is not None
        content, (fd,) = received
        assert content == f"pipe {number}".encode()
        os.write(fd, b"hello")
        os.close(fd)
        assert os.read(read, 100) == b"hello"
        os.close(read)
    assert theirs.receive_with_fds(1) is None


def test_open_files_travel_with_a_frame_that_is_longer_than_the_sockets_buffer(pair: tuple[Channel, Channel]) -> None:
    ours, theirs = pair
    read, write = os.pipe()
    content = os.urandom(2_000_000)
    sender = threading.Thread(target=ours.send_with_fds, args=(content, [write, read]))
    sender.start()
    received = theirs.receive_with_fds(2)
    sender.join()
    assert received is not None
    assert received[0] == content
    assert len(received[1]) == 2
    for fd in (read, write, *received[1]):
        os.close(fd)
