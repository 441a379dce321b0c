"""A sandbox of ``unshare`` alone: no network and processes of its own, but all files of this machine."""

from __future__ import annotations

from etude.mage.sandbox.protocol import Job, Ran, Tier
from etude.mage.sandbox.running import rlimits, run


class Namespaces:
    """Runs commands in namespaces of their own.

    Args:
        unshare: Where ``unshare`` is.
        setpriv: Where ``setpriv`` is.
    """

    tier = Tier.NAMESPACES

    def __init__(self, unshare: str, setpriv: str) -> None:
        # unshare itself would outlive us: what it starts dies with it, and it dies with whoever started it
        self._tied = [setpriv, "--pdeathsig", "KILL", "--", unshare]

    def run(self, job: Job) -> Ran:
        """Run a command to its end, or to that of its time, and leave none of its processes behind.

        Raises:
            SandboxMissing: ``unshare`` could not start it.
        """
        parts = ["--map-current-user", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--ipc", "--uts"]
        parts += [] if job.network else ["--net"]
        return run(
            job,
            tier=self.tier,
            wrap=lambda command: [*self._tied, *parts, "--", *command],
            rlimits=rlimits(job.limits),
        )
