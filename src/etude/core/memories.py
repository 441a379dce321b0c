"""What trials share that run at the same time: the memory of a machine, and of its GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

Site = tuple[str, ...]
"""Where a worker is: the names of the memories that its trials take from, its machine's the first."""


class Memory:
    """The memory of a machine, or of one of its GPUs.

    Attributes:
        name: Of the machine, or of the machine and the GPU.
        of_gpu: Whether it is a GPU's.
        size_mb: How much of it trials may take in all, in MB; 0 if that is not known.
        workers: How many workers there may get work.
        running: Trials of which one of them holds an attempt.
    """

    __slots__ = ("name", "of_gpu", "running", "size_mb", "workers")

    def __init__(self, name: str, *, of_gpu: bool) -> None:
        self.name = name
        self.of_gpu = of_gpu
        self.size_mb = 0.0
        self.workers = 0
        self.running: set[int] = set()


class Memories:
    """The memories of which workers that may get work have a part."""

    __slots__ = ("by_name", "sites")

    def __init__(self) -> None:
        self.by_name: dict[str, Memory] = {}
        self.sites: Counter[Site] = Counter()
        """Site -> how many workers that may get work are there."""

    def come(self, machine: str, memory_mb: float, gpus_mb: Mapping[str, float]) -> Site:
        """Take in a worker, and return where it is.

        Args:
            machine: Its machine.
            memory_mb: The memory that trials may take there, in MB; 0 if that is not known.
            gpus_mb: The same of each GPU that it sees.
        """
        sizes = {machine: memory_mb, **{f"{machine} GPU {gpu}": size_mb for gpu, size_mb in gpus_mb.items()}}
        site = tuple(sizes)
        self.sites[site] += 1
        for name, size_mb in sizes.items():
            memory = self.by_name.setdefault(name, Memory(name, of_gpu=name != machine))
            memory.size_mb = max(memory.size_mb, size_mb)  # who could not tell says 0
            memory.workers += 1
        return site

    def go(self, site: Site, trial: int | None) -> None:
        """Note that a worker gets no more work, and what it held."""
        self.sites[site] -= 1
        if not self.sites[site]:
            del self.sites[site]
        for memory in [self.by_name[name] for name in site]:
            memory.workers -= 1
            if trial is not None:
                memory.running.discard(trial)
            if not memory.workers:
                del self.by_name[memory.name]

    def hold(self, site: Site, trial: int) -> None:
        """Note that a trial runs there."""
        for name in site:
            self.by_name[name].running.add(trial)

    def free(self, site: Site, trial: int) -> None:
        """Note that a trial runs there no more; fine if nobody is there any more."""
        for name in site:
            if (memory := self.by_name.get(name)) is not None:
                memory.running.discard(trial)

    def clear(self) -> None:
        """Forget all."""
        self.by_name.clear()
        self.sites.clear()

    def check(self, held: Iterable[tuple[Site, int | None]]) -> None:
        """Assert that this is what is known of workers that may get work: where each is, and what it holds."""
        usable = list(held)
        assert self.sites == Counter(site for site, _ in usable)
        assert {m.name: m.workers for m in self.by_name.values()} == Counter(n for site, _ in usable for n in site)
        for memory in self.by_name.values():
            running = {trial for site, trial in usable if memory.name in site and trial is not None}
            assert memory.running == running, "there runs what its workers hold"
