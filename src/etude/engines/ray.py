"""Workers on a Ray cluster: one actor for each, which is a node with one worker.

Ray places the actors and starts one anew when its machine is gone; all else is Étude's: what they do, whether they are
alive, and what becomes of their trials. A lost worker is noticed when its connection ends, not when Ray notices.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from etude.core.errors import ConfigError, StudyError
from etude.core.numbers import is_finite
from etude.core.resources import FIELDS, NEARLY, Resources
from etude.core.text import brief, count
from etude.engines import Door
from etude.engines.awaited import awaited, fewer
from etude.engines.knock import knock
from etude.wire.credentials import Invitation

QUIET: Final = {"log_to_driver": False, "configure_logging": False}
OWN_STORE_B: Final = 200 * 2**20
"""Of the object store of a cluster of our own, which nothing goes through."""
GB: Final = 2**30
LEAVE_S: Final = 10.0
"""Seconds that actors have to clean up behind them, more than their workers have; then Ray ends them.

Ray then prints in this process that their task will be retried, which it will not be.
"""
AGAIN_S: Final = (0.0, 1.0, 4.0, 15.0)
"""Seconds before an actor that lost the driver calls again, by how often it did in vain."""
SHIPPED: Final = ("working_dir", "py_modules")
"""Parts of a runtime environment that Ray ships from this machine only with the connection to the cluster."""
RESERVED: Final = {"CPU": "cpus", "GPU": "gpus", "memory": "memory_gb"}
MANY: Final = 1_000_000
CLIENT: Final = "ray://"
ON_THE_CLUSTER: Final = "Run it on a machine of the cluster, for example with: ray job submit"
COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Ray:
    """Starts workers as actors on a Ray cluster.

    Args:
        address: Of the cluster, as ``ray.init`` takes it. If it is not given, that of RAY_ADDRESS, or else a cluster on
            this machine alone. Where Ray is in use already in this process, that cluster is taken.
        cpus: Cores of each worker; what ``resources=`` of the call says, or else 1, if left out.
        gpus: GPUs of each worker, which Ray assigns; a part of one is possible. What ``resources=`` says, or else none.
        memory_gb: Memory of each worker in GB (2**30 bytes), as Ray counts it. What ``resources=`` says, or else it is
            left out.
        custom: Further resources that a machine must have, by the names that your cluster gives them.
        runtime_env: Of the actors, as Ray takes it: ``{"working_dir": "."}`` ships the project's folder with its data,
            and trials run in it. What your functions import of the project is shipped in any case.
        autoscales: Whether machines come when they are asked for: then nothing is refused because those that are there
            are too small.

    Raises:
        ConfigError: An option cannot be.

    Example:
        >>> Ray(gpus=0.5).gpus
        0.5
    """

    address: str | None = None
    cpus: float | None = None
    gpus: float | None = None
    memory_gb: float | None = None
    custom: Mapping[str, float] = field(default_factory=dict)
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    autoscales: bool = False
    _asks: _Asked = field(init=False, repr=False, compare=False)
    _actors: list[_Actor] = field(default_factory=list, init=False, repr=False)
    _ends: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.address is not None and (not isinstance(self.address, str) or not self.address):
            raise ConfigError(f"address={brief(self.address)} is no address. Pass one as in '10.0.0.1:6379', or None.")
        for what, given in (("custom", self.custom), ("runtime_env", self.runtime_env)):
            if not isinstance(given, Mapping):
                raise ConfigError(f"{what}={brief(given)} is no mapping. Pass a dict.")
        _refuse_client("address", self.address)
        for name, amount in {"cpus": self.cpus, "gpus": self.gpus, **self.custom}.items():
            if amount is not None or name in self.custom:
                _check_amount(name, amount)
            if name in RESERVED:
                raise ConfigError(f"custom names {name!r}, which Ray counts itself. Pass {RESERVED[name]}= instead.")
        if self.memory_gb is not None and not (is_finite(self.memory_gb) and self.memory_gb > 0):
            raise ConfigError(f"memory_gb={brief(self.memory_gb)} is no memory. Pass GB above 0, or None.")
        self._asks = self._asked(None)

    def machine(self) -> None:
        """Ray finds room for each worker where there is some."""

    def prepare(self, n: int, resources: Resources | None = None, *, least: int = 1, ranks: int = 1) -> None:
        """Connect to the cluster, and see whether its machines have room.

        Args:
            n: Workers that there are to be: a cluster on this machine alone is made large enough for them, unless
                ``resources`` says how many cores each really needs.
            resources: What each worker needs, in addition to what this engine was made with.
            least: Workers that have to be there before the first trial.
            ranks: How many of them train each trial together.

        Raises:
            ConfigError: Ray is missing, the cluster cannot be reached, or its machines, idle, have no room for so many;
                or the two say differing things.
        """
        self._asks = self._asked(resources)
        ray = _imported()
        shipped = {name: self.runtime_env[name] for name in SHIPPED if _is_here(self.runtime_env.get(name))}
        if not ray.is_initialized():
            enough = n * self._asks.cpus if resources is None or resources.cpus is None else 0
            self._connect(ray, enough, shipped)
        elif shipped:
            raise ConfigError(
                f"runtime_env has {' and '.join(shipped)} of this machine, which Ray ships only while it connects, and "
                "Ray is in use already in this process. Pass that part to your ray.init(runtime_env=...)."
            )
        if ray.util.client.ray.is_connected():
            raise ConfigError(
                f"This process is a Ray client (ray://), which workers cannot connect to. {ON_THE_CLUSTER}"
            )
        if not self.autoscales:
            self._refuse_what_never_fits(ray.nodes(), least, ranks)

    def start(self, n: int, door: Door) -> None:
        """Have Ray start ``n`` actors; each comes by itself when there is room for it."""
        ray = _imported()
        invitation = msgspec.json.encode(door.invite(_where_to_listen(ray)))
        environment = {
            name: part for name, part in self.runtime_env.items() if not (name in SHIPPED and _is_here(part))
        }
        carrier = ray.remote(Carrier).options(
            num_cpus=self._asks.cpus,
            num_gpus=self._asks.gpus,
            memory=int(self._asks.memory_gb * GB) if self._asks.memory_gb is not None else None,
            resources=dict(self.custom) or None,
            runtime_env=environment or None,
            max_restarts=-1,
            max_task_retries=-1,
        )
        handles = [carrier.remote(invitation, max(1, int(self._asks.cpus))) for _ in range(n)]
        actors = [_Actor(handle, handle.here.remote(), handle.carry.remote()) for handle in handles]
        self._actors += actors
        for actor in actors:
            actor.carries.future().add_done_callback(partial(self._ended, door, actor))

    def end(self, worker: str) -> None:
        """Its node ends it."""

    def stop(self) -> None:
        """End the actors; a cluster that was started for them stays until this process ends."""
        with self._ends:
            actors, self._actors = self._actors, []
        ray = _imported()
        if not actors or not ray.is_initialized():
            return
        placed, waiting = ray.wait([a.here for a in actors], num_returns=len(actors), timeout=0)
        for actor in actors:
            if actor.here in waiting:
                ray.kill(actor.handle, no_restart=True)
        leaving = [actor for actor in actors if actor.here in placed]
        if leaving:
            ray.wait([a.carries for a in leaving], num_returns=len(leaving), timeout=LEAVE_S)
        for actor in leaving:
            ray.kill(actor.handle, no_restart=True)

    def _asked(self, resources: Resources | None) -> _Asked:
        """Return what a worker asks for, of what this engine was made with and what the call says."""
        found: dict[str, float] = {}
        for name in FIELDS:
            own, given = getattr(self, name), getattr(resources, name, None)
            if own is not None and given is not None and own != given:
                raise ConfigError(
                    f"resources='{resources}' says {name}={given:g}, and engine=Ray({name}={own:g}) says otherwise. "
                    f"Say it once: leave {name}= out of one of the two."
                )
            if (said := own if own is not None else given) is not None:
                found[name] = said
        for name in ("cpus", "gpus"):
            _check_amount(name, found.get(name, 0))
        return _Asked(**found)

    def _connect(self, ray: Any, cores: float, shipped: dict[str, Any]) -> None:
        if not self.address:
            _refuse_client("RAY_ADDRESS", os.environ.get("RAY_ADDRESS"))
        address = self.address or os.environ.get("RAY_ADDRESS") or "local"
        options: dict[str, Any] = {"address": address, **QUIET}
        if address == "local":
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            cpus = max(os.cpu_count() or 1, math.ceil(cores))
            options |= {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": OWN_STORE_B}
        if shipped:
            options["runtime_env"] = shipped
        if fault := knock([address]):
            raise _unreachable(address, fault)
        try:
            ray.init(**options)
        except (Exception, SystemExit) as error:  # it gives up on a cluster by sys.exit
            told = f"Ray gave up on it with code {error}" if isinstance(error, SystemExit) else str(error)
            raise _unreachable(address, told) from error

    def _refuse_what_never_fits(self, nodes: list[dict[str, Any]], least: int, ranks: int) -> None:
        wanted = {"CPU": self._asks.cpus, "GPU": self._asks.gpus, **self.custom}
        if self._asks.memory_gb is not None:
            wanted["memory"] = self._asks.memory_gb * GB
        alive = [node["Resources"] for node in nodes if node["Alive"]]
        room = sum(_how_many_fit(wanted, has) for has in alive)
        if room >= least:
            return
        if room:
            raise ConfigError(
                f"{awaited(least, ranks)}, and the Ray cluster has room for {room} in all: each asks for "
                f"{_amounts(wanted)}. Ask for less, pass {fewer(room, ranks)}, add machines, or pass autoscales=True "
                "if machines come when they are asked for."
            )
        most = {name: max((has.get(name, 0.0) for has in alive), default=0.0) for name in wanted}
        there = _amounts({name: most[name] for name, amount in wanted.items() if amount}, also_none=True)
        raise ConfigError(
            f"No machine of the Ray cluster can hold a worker. Each asks for {_amounts(wanted)}; of "
            f"{count(len(alive), 'machine')} the most that one has is {there}. Ask for less, add a machine, or pass "
            "autoscales=True if machines come when they are asked for."
        )

    def _ended(self, door: Door, actor: _Actor, future: Future[Any]) -> None:
        """Take in that Ray has given an actor up; when it was the last one, the study ends with the reason."""
        with self._ends:
            if actor not in self._actors:
                return  # it was sent home
            self._actors.remove(actor)
            last = not self._actors
        if last:
            door.fail(
                StudyError(f"No worker comes from the Ray cluster any more. The last one ended so: {_why(future)}")
            )


@dataclass(frozen=True)
class _Asked:
    """What each worker asks Ray for."""

    cpus: float = 1.0
    gpus: float = 0.0
    memory_gb: float | None = None


@dataclass(frozen=True, eq=False)
class _Actor:
    """An actor as Ray knows it, and what it answers when it has been placed, and when it is done."""

    handle: Any
    here: Any
    carries: Any


class Carrier:
    """The actor: a node with one worker. When its process ends before the study does, Ray starts it anew.

    Args:
        invitation: Where the driver is, and what lets us in.
        threads: How many a trial may use.
    """

    def __init__(self, invitation: bytes, threads: int = 1) -> None:
        self._invitation = msgspec.json.decode(invitation, type=Invitation)
        self._threads = threads

    def here(self) -> None:
        """Answer that the actor has been placed."""

    def carry(self) -> None:
        """Carry a worker until the driver is done.

        Raises:
            StudyError: The driver does not let us in, or could never be reached.
        """
        from etude.engines.node import NoRoomError, NotAdmittedError

        project = _shipped_project()
        came, in_vain = False, 0
        while True:
            try:
                if asyncio.run(_carry_beside(os.getppid(), self._invitation, project, self._threads)):
                    return
                came, in_vain = True, 0
            except asyncio.CancelledError:
                os._exit(1)
            except (NotAdmittedError, NoRoomError):
                raise
            except StudyError:
                in_vain += 1
                if in_vain == len(AGAIN_S) and not came:
                    raise
            time.sleep(AGAIN_S[min(in_vain, len(AGAIN_S) - 1)])  # when the driver has ended, Ray ends us


async def _carry_beside(raylet: int, invitation: Invitation, project: Path | None, threads: int) -> bool:
    """Carry a worker while the process lives that Ray has on this machine, which is our parent.

    When it is gone, Ray starts us anew elsewhere. It ends an actor that is idle, but not one that is at work.
    """
    from etude.engines.node import carry

    carrying = asyncio.ensure_future(carry(invitation, workers=1, threads=threads, project=project, placed=True))
    if sys.platform != "linux":
        return await carrying
    try:
        watched = os.pidfd_open(raylet)
    except ProcessLookupError:
        carrying.cancel()
        return await carrying
    loop = asyncio.get_running_loop()
    loop.add_reader(watched, carrying.cancel)
    try:
        return await carrying
    finally:
        loop.remove_reader(watched)
        os.close(watched)


def _shipped_project() -> Path | None:
    """Return the folder that Ray shipped for the study, if it did: actors start in it."""
    ray = _imported()
    return Path.cwd() if "working_dir" in ray.get_runtime_context().runtime_env else None


def _is_here(part: object) -> bool:
    """Whether part of a runtime environment is on this machine: it has no protocol as in ``s3://``."""
    parts = part if isinstance(part, list | tuple) else [part]
    return any(p is not None and "://" not in str(p) for p in parts)


def _where_to_listen(ray: Any) -> str:
    """Return the address at which this machine's cluster reaches us: the loopback if it is all on this machine."""
    own: str = ray.util.get_node_ip_address()
    alone = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]} <= {own}
    return "127.0.0.1" if alone else own


def _unreachable(address: str, told: str) -> ConfigError:
    return ConfigError(
        f"The Ray cluster at {address!r} cannot be reached: {told.rstrip('.')}. "
        "Start one with `ray start --head`, or leave address= out for one on this machine alone."
    )


def _refuse_client(name: str, address: str | None) -> None:
    if address is not None and address.startswith(CLIENT):
        raise ConfigError(
            f"{name}={address!r} would make this process a Ray client, which workers cannot connect to. "
            f"{ON_THE_CLUSTER}"
        )


def _check_amount(name: str, amount: object) -> None:
    if not (is_finite(amount) and amount >= 0):  # type: ignore[operator]
        raise ConfigError(f"{name}={brief(amount)} is no amount of a resource. Pass a number, at least 0.")
    if amount > 1 and amount != int(amount):  # type: ignore[operator, call-overload]
        raise ConfigError(f"{name}={brief(amount)} cannot be: Ray gives whole ones above 1. Pass a whole number.")


def _how_many_fit(wanted: Mapping[str, float], has: Mapping[str, float]) -> int:
    """Return how many workers fit on a machine; one that asks for nothing fits on any, as often as one likes."""
    rooms = (has.get(name, 0.0) / amount for name, amount in wanted.items() if amount)
    return int(min(rooms, default=MANY) + NEARLY)


def _amounts(amounts: Mapping[str, float], *, also_none: bool = False) -> str:
    return ", ".join(
        f"memory {amount / GB:.4g} GB" if name == "memory" else f"{name} {amount:g}"
        for name, amount in amounts.items()
        if amount or also_none
    )


def _why(future: Future[Any]) -> str:
    if future.cancelled():
        return "Ray was shut down."
    error = future.exception()
    if error is None:
        return "it left by itself."
    return COLOURS.sub("", str(getattr(error, "cause", None) or error)).strip()


def _imported() -> Any:
    try:
        import ray
    except ImportError:
        raise ConfigError("engine='ray' needs Ray. Install it with: pip install 'etude[ray]'") from None
    return ray
