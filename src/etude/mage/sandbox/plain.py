"""Sandboxes that keep nothing apart: limits of the kernel, or nothing at all inside a container."""

from __future__ import annotations

from etude.mage.sandbox.protocol import Job, Ran, Tier
from etude.mage.sandbox.running import rlimits, run


class Limited:
    """Runs commands with limits of CPU time, memory, file size and processes, and an environment of their own."""

    tier = Tier.LIMITS

    def run(self, job: Job) -> Ran:
        """Run a command to its end, or to that of its time, and leave none of its processes behind."""
        return run(job, tier=self.tier, rlimits=rlimits(job.limits))


class Outer:
    """Runs commands as they are, with a time limit: somebody says that we are in a container already."""

    tier = Tier.OUTER

    def run(self, job: Job) -> Ran:
        """Run a command to its end, or to that of its time, and leave none of its processes behind."""
        return run(job, tier=self.tier)
