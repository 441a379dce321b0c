"""Records of a fixed length that lie on another machine: a server of them, and a data set that keeps what it draws.

**What a node keeps.** It keeps what it drew in this epoch and in the one before, and no more. A node need not know
which examples its rank will draw: as long as an assignment holds these are the same in every epoch, and in the first
epoch of another assignment it fetches those that are new. What it did not draw in that epoch, it drops at its end.
A cache of a fixed size that drops what was used least recently would come to fetch more: in an epoch's random order it
drops what is drawn later in that epoch.
"""

from __future__ import annotations

import os
import socket
import socketserver
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import Dataset

NUMBER: Final = 4
"""Bytes of an id in a request, and of how many there are."""


class Records(Dataset[Any]):
    """Images with their classes, fetched from a server where they are not in a folder of this machine.

    Args:
        address: Host and port of the server.
        folder: Where they are kept.
        n: How many there are on the server.
        record_b: Bytes of each: pixels, and then the class.

    Attributes:
        fetched: How many were fetched.
    """

    def __init__(self, address: tuple[str, int], folder: Path, n: int, record_b: int) -> None:
        self._address, self._folder, self._n, self._record_b = address, folder, n, record_b
        self._line: socket.socket | None = None
        self._place: dict[int, int] = {}  # of each that is kept, in the file
        self._free: list[int] = []
        self._drawn: set[int] = set()
        self.fetched = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / "records", os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, example: int) -> tuple[torch.Tensor, int]:
        return self.__getitems__([example])[0]

    def __getitems__(self, ids: Sequence[int]) -> list[tuple[torch.Tensor, int]]:
        """Return a batch: what loaders ask for where a data set has it."""
        lacking = [example for example in dict.fromkeys(ids) if example not in self._place]
        if lacking:
            got = self._fetch(lacking)
            for nth, example in enumerate(lacking):
                place = self._place[example] = self._free.pop() if self._free else len(self._place)
                os.pwrite(self._file, got[nth * self._record_b : (nth + 1) * self._record_b], place * self._record_b)
            self.fetched += len(lacking)
        self._drawn.update(ids)
        return [self._read(self._place[example]) for example in ids]

    def keep_drawn(self) -> None:
        """Drop what was not drawn since the last call: an epoch has ended."""
        self._free += [self._place.pop(example) for example in self._place.keys() - self._drawn]
        self._drawn = set()

    def close(self) -> None:
        """Close the file and the line to the server."""
        os.close(self._file)
        if self._line is not None:
            self._line.close()

    def _read(self, place: int) -> tuple[torch.Tensor, int]:
        record = np.frombuffer(os.pread(self._file, self._record_b, place * self._record_b), dtype=np.uint8)
        return torch.from_numpy(record[:-1].astype(np.float32) / 255), int(record[-1])

    def _fetch(self, ids: Sequence[int]) -> memoryview:
        if self._line is None:
            self._line = socket.create_connection(self._address, timeout=120)
        self._line.sendall(np.array([len(ids), *ids], dtype=np.uint32).tobytes())
        return _received(self._line, len(ids) * self._record_b)


def serve(path: str, record_b: str) -> None:
    """Serve the records of a file at any address of this machine, and print the port first."""
    records = np.memmap(path, dtype=np.uint8, mode="r").reshape(-1, int(record_b))

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while head := self.request.recv(NUMBER, socket.MSG_WAITALL):
                many = int(np.frombuffer(head, dtype=np.uint32)[0])
                ids = np.frombuffer(_received(self.request, many * NUMBER), dtype=np.uint32)
                self.request.sendall(records[ids].tobytes())

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("0.0.0.0", 0), Handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


def _received(line: socket.socket, many: int) -> memoryview:
    got = memoryview(bytearray(many))
    at = 0
    while at < many:
        if not (came := line.recv_into(got[at:])):
            raise ConnectionError("the other end is gone")
        at += came
    return got


if __name__ == "__main__":
    serve(*sys.argv[1:])
