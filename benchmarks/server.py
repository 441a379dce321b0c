"""Heartbeats from elsewhere: how many a second the driver's own shell takes in, and how late with 9,000 workers.

The driver is a real study with an open gate. Its workers are made up, in another process: nodes that speak the protocol
over TLS, whose workers take a trial and do nothing but give signs of life. So both ends share this machine's cores.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

PIECE: Final = 1 << 16
AT_ONCE: Final = 16
"""Signs of life that a node in a flood sends before it waits for the line."""


def train(lr: float) -> float:
    """Never run: the workers are made up."""
    raise AssertionError


def cells(small: bool) -> Sequence[Cell]:
    if small:
        return [
            Cell("étude, 4 clients", {"nodes": 4, "workers": 1, "seconds": 0.5}),
            Cell("étude, 40 workers", {"nodes": 4, "workers": 10, "seconds": 1.0, "every_s": 0.5}),
        ]
    return [
        Cell("étude, 64 clients", {"nodes": 64, "workers": 1, "seconds": 10.0}),
        Cell("étude, 9,000 workers", {"nodes": 90, "workers": 100, "seconds": 30.0, "every_s": 5.0}),
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    import etude
    from etude.studies.crew import Crew
    from etude.wire.messages import Beat, Hello

    beats: list[float] = []
    late_ms: list[float] = []
    hear = Crew.heard

    def heard(self: Any, link: Any, message: Any) -> None:
        hear(self, link, message)
        if isinstance(message, Beat):
            beats.append(time.monotonic())
        elif isinstance(message, Hello):  # a sign of life that says when it was given
            late_ms.append((time.monotonic_ns() - message.pid) / 1e6)

    Crew.heard = heard  # type: ignore[method-assign]
    many = args["nodes"] * args["workers"]
    engine = Crowd(args)
    experiment = etude.Experiment(train, metric="score", mode="max")
    began = time.monotonic()
    search = experiment.tune(
        {"lr": etude.uniform(0, 1)}, trials=many, workers=(many, many), sampler="random", stopper="none",
        engine=engine, wait=False, progress=False,
    )  # fmt: skip
    done = engine.wait()
    running = search.counts().get("running", 0)
    memory_mb = _memory_mb()
    search.stop()
    assert running == many, f"{running} of {many} workers had a trial"
    if "every_s" in args:
        late_ms.sort()
        return {
            "p50_ms": statistics.median(late_ms),
            "p99_ms": late_ms[int(0.99 * len(late_ms))],
            "max_ms": late_ms[-1],
            "per_s": len(late_ms) / args["seconds"],
            "memory_mb": memory_mb,
            "join_s": done["ready"] - began,
            "cpu_s": resource.getrusage(resource.RUSAGE_SELF).ru_utime,
        }
    within = [at for at in beats if done["from"] <= at <= done["to"]]
    return {"per_s": len(within) / (done["to"] - done["from"]), "memory_mb": memory_mb}


class Crowd:
    """An engine whose workers are made up, in another process."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        self.args = args
        self.process: subprocess.Popen[str]
        self.started = threading.Event()

    def start(self, n: int, door: Any) -> None:
        """Let a crowd of nodes come."""
        import msgspec

        invitation = door.invite("127.0.0.1")
        command = [sys.executable, "-c", "from benchmarks.server import crowd; crowd()"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdin is not None
        json.dump({**self.args, "invitation": msgspec.to_builtins(invitation)}, self.process.stdin)
        self.process.stdin.close()
        self.started.set()

    def wait(self) -> dict[str, float]:
        """Return what the crowd says when it has done its part: when it was ready, and how long its flood was."""
        self.started.wait()
        assert self.process.stdout is not None
        told: dict[str, float] = json.loads(self.process.stdout.readline())
        return told

    def end(self, worker: str) -> None:
        """Nothing to end."""

    def stop(self) -> None:
        """End the crowd."""
        self.process.kill()
        self.process.communicate()


def crowd() -> None:
    """Be the workers; told how many by standard input."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    args = json.load(sys.stdin)
    asyncio.run(_crowd(args))


async def _crowd(args: Mapping[str, Any]) -> None:
    import msgspec

    from etude.wire.credentials import Invitation

    invitation = msgspec.convert(args["invitation"], Invitation)
    nodes = [_Node(invitation, nth, args["workers"]) for nth in range(args["nodes"])]
    await asyncio.gather(*(node.come() for node in nodes))
    ready = time.monotonic()
    if "every_s" in args:
        await asyncio.sleep(args["every_s"])  # the burst of joining is over
        await asyncio.gather(*(node.live(args["every_s"], args["seconds"]) for node in nodes))
        told = {"ready": ready}
    else:
        began = time.monotonic()
        await asyncio.gather(*(node.flood(began + args["seconds"]) for node in nodes))
        margin = args["seconds"] / 10
        told = {"ready": ready, "from": began + margin, "to": began + args["seconds"] - margin}
    print(json.dumps(told), flush=True)
    await asyncio.sleep(3600)


class _Node:
    def __init__(self, invitation: Any, nth: int, workers: int) -> None:
        self.invitation = invitation
        self.nth = nth
        self.workers = workers
        self.running = 0
        self.everybody = asyncio.Event()

    async def come(self) -> None:
        """Enter, bring the workers, and wait until each has a trial."""
        from etude.core.version import VERSION
        from etude.wire.channel import frame
        from etude.wire.node_messages import PROTOCOL, PYTHON, Arrived, Enter, ours

        host, port = self.invitation.hosts[0], self.invitation.port
        context = self.invitation.context()
        self.reader, self.writer = await asyncio.open_connection(host, port, ssl=context, server_hostname="")
        hello = Enter(self.invitation.token, PROTOCOL, VERSION, PYTHON, f"node{self.nth}", os.getpid())
        self.writer.write(frame(ours(hello)))
        for channel in range(1, self.workers + 1):
            self.writer.write(frame(ours(Arrived(channel, f"n{self.nth}w{channel}"))))
        self.listening = asyncio.create_task(self.listen())
        await self.everybody.wait()

    async def listen(self) -> None:
        from etude.wire.channel import Frames, frame
        from etude.wire.messages import Ready, Run, decode_to_worker, encode
        from etude.wire.node_messages import Begin, Welcome, decode_to_node, on_channel, split

        frames, study = Frames(), ""
        with contextlib.suppress(ConnectionError):
            while piece := await self.reader.read(PIECE):
                for whole in frames.feed(piece):
                    channel, content = split(whole)
                    message = decode_to_worker(content) if channel else decode_to_node(content)
                    if isinstance(message, Welcome):
                        study = message.serve.study
                    elif isinstance(message, Begin):
                        self.writer.write(frame(on_channel(message.channel, encode(Ready(study)))))
                    elif isinstance(message, Run):
                        self.running += 1
                        if self.running == self.workers:
                            self.everybody.set()

    async def flood(self, until: float) -> None:
        from etude.wire.channel import frame
        from etude.wire.messages import Beat, encode
        from etude.wire.node_messages import on_channel

        beat = frame(on_channel(1, encode(Beat())))
        while time.monotonic() < until:
            for _ in range(AT_ONCE):
                self.writer.write(beat)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def live(self, every_s: float, seconds: float) -> None:
        """Let each worker give a sign of life now and then, at moments of its own."""
        from etude.wire.channel import frame
        from etude.wire.messages import Hello, encode
        from etude.wire.node_messages import on_channel

        began, step = time.monotonic(), every_s / self.workers
        for nth in range(int(seconds / step)):
            await asyncio.sleep(began + nth * step - time.monotonic())
            sign = encode(Hello(time.monotonic_ns()))
            self.writer.write(frame(on_channel(nth % self.workers + 1, sign)))


def _memory_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


BENCHMARK = Benchmark(
    name="server",
    cells=cells,
    work=work,
    quantities=(
        Quantity("per_s", "/s", 0),
        Quantity("p50_ms", "ms", 2),
        Quantity("p99_ms", "ms", 2),
        Quantity("max_ms", "ms", 1),
        Quantity("memory_mb", "MB", 0),
        Quantity("join_s", "s", 1),
        Quantity("cpu_s", "s", 1),
    ),
    targets=(
        Target("heartbeats", "étude, 64 clients: per_s", 30_000, "/s"),
        Target("p99 of a heartbeat, 9,000 workers", "étude, 9,000 workers: p99_ms", 50, "ms", at_least=False),
        Target("memory of the driver, 9,000 workers", "étude, 9,000 workers: memory_mb", 300, "MB", at_least=False),
    ),
    note=(
        "One way, over TLS: a worker's sign of life is not answered. 64 clients: a connection each. 9,000 workers: on\n"
        "90 nodes, with a connection each, every worker with a trial in hand; the time is from before it is sent to\n"
        "when the shell has heard it. Both ends on these cores."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
