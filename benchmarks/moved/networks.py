"""Machines that are none: network namespaces, with links of their own between them whose bytes the kernel counts.

A namespace lives as long as a process that holds it, and that is in our process group: whatever ends us ends them all,
and nothing of it was ever seen by the machine's own network.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TOOLS: Final = ("unshare", "nsenter", "ip")
DATA: Final = "data0"
"""The link of a node over which it fetches records, and nothing else goes."""
CONTROL: Final = "control0"
"""The link for all else: what ranks tell each other, and the driver."""
NET: Final = "10.210"


@dataclass(frozen=True)
class Place:
    """A machine that is none.

    Attributes:
        name: Its host's name.
        pid: The process that holds it.
    """

    name: str
    pid: int

    def command(self, *words: str) -> list[str]:
        """Return a command that runs there."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", f"--uts=/proc/{self.pid}/ns/uts", *words]

    def run(self, *words: str) -> None:
        """Run a command there."""
        subprocess.run(self.command(*words), check=True, capture_output=True, text=True)


def why_not() -> str:
    """Return why there can be no networks of our own here; empty if there can."""
    for tool in TOOLS:
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    words = "ip link add a0 type veth peer name b0 && ip link add c0 type bridge"
    tried = subprocess.run(
        ["unshare", "--net", "--uts", "sh", "-c", words], capture_output=True, text=True, check=False
    )
    return "" if tried.returncode == 0 else " ".join(tried.stderr.split()) or "they are not allowed"


@contextlib.contextmanager
def network(nodes: Sequence[str]) -> Iterator[tuple[Place, list[Place]]]:
    """Give a place in the middle and nodes, each with a link to it for data and one for all else, while it runs.

    The middle has the address ``control_of()`` for control, and ``server_of(k)`` towards node ``k`` for data.
    """
    with contextlib.ExitStack() as held:
        hub, *places = [held.enter_context(_held(name)) for name in ("hub", *nodes)]
        hub.run("ip", "link", "add", CONTROL, "type", "bridge")
        _set_up(hub, CONTROL, f"{control_of()}/24")
        for number, node in enumerate(places):
            for link, other in ((DATA, towards(number)), (CONTROL, f"control{number + 1}")):
                ends = ("name", link, "netns", str(node.pid)), ("name", other, "netns", str(hub.pid))
                subprocess.run(hub.command("ip", "link", "add", *ends[1], "type", "veth", "peer", *ends[0]), check=True)
            hub.run("ip", "link", "set", f"control{number + 1}", "master", CONTROL)
            _set_up(hub, f"control{number + 1}")
            _set_up(hub, towards(number), f"{server_of(number)}/24")
            _set_up(node, CONTROL, f"{NET}.0.{number + 2}/24")
            _set_up(node, DATA, f"{NET}.{number + 1}.2/24")
        yield hub, places


def control_of() -> str:
    """Return the address of the middle for all that is no data."""
    return f"{NET}.0.1"


def server_of(number: int) -> str:
    """Return the address of the middle towards a node, for data."""
    return f"{NET}.{number + 1}.1"


def towards(number: int) -> str:
    """Return the name, in the middle, of the link to a node for data."""
    return f"data{number}"


def bytes_over(link: str) -> int:
    """Return the bytes that a link of this process's network has carried in both directions, headers included."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == link:
            fields = numbers.split()
            return int(fields[0]) + int(fields[8])
    raise LookupError(f"there is no link {link} here")


@contextlib.contextmanager
def _held(name: str) -> Iterator[Place]:
    """Give a place of its own while the block runs."""
    words = ["unshare", "--net", "--uts", "sh", "-c", f"hostname {name} && echo there && exec sleep infinity"]
    holder = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        if holder.stdout.readline().strip() != "there":
            raise SystemExit(f"no place for {name}: its error stands above.")
        place = Place(name, holder.pid)
        _set_up(place, "lo")
        yield place
    finally:
        holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()


def _set_up(place: Place, link: str, address: str = "") -> None:
    if link != "lo":  # else the kernel looks for neighbours by itself, and that would be counted
        place.run("ip", "link", "set", link, "addrgenmode", "none")
    if address:
        place.run("ip", "addr", "add", address, "dev", link)
    place.run("ip", "link", "set", link, "up")
