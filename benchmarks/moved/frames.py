"""What a link carries beyond the records themselves, by how long its frames are; nothing is trained."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.common import ROOT
from benchmarks.moved import networks
from benchmarks.moved.blocks import Records
from benchmarks.moved.images import RECORD_B


def beyond(hub: networks.Place, node: networks.Place, port: int, *, frame_b: int, n: int, cache: Path) -> float:
    """Fetch all records over real frames of a length, and return the percentage that the link carried beyond them."""
    for place, link in ((hub, networks.towards(0)), (node, networks.DATA)):
        place.run("ip", "link", "set", link, "mtu", str(frame_b), "gso_max_segs", "1")
    words = [sys.executable, "-m", "benchmarks.moved.frames", networks.server_of(0), str(port), str(n), str(cache)]
    done = subprocess.run(node.command(*words), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return 100 * (int(done.stdout) / (n * RECORD_B) - 1)


def fetch(host: str, port: str, n: str, cache: str) -> None:
    """Fetch records in the pieces in which vanilla fetches them, and print the bytes that the link carried."""
    records = Records((host, int(port)), Path(cache), int(n), RECORD_B)
    before = networks.bytes_over(networks.DATA)
    for at in range(0, int(n), 125):
        records.__getitems__(range(at, min(at + 125, int(n))))
    print(networks.bytes_over(networks.DATA) - before)


if __name__ == "__main__":
    fetch(*sys.argv[1:])
