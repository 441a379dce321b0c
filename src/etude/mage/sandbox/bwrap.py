"""The sandbox that is taken on Linux: bubblewrap.

The system can be read, and of the rest of the machine nothing is there but what a job names. Everything in memory
(``/tmp``, ``/run``, ``/dev/shm``) is the job's own and goes with it.
"""

from __future__ import annotations

import glob
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from etude.core.errors import ConfigError
from etude.mage.sandbox.protocol import Job, Limits, Ran, Tier
from etude.mage.sandbox.running import SUPERVISOR, rlimits, run

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
SETTINGS: Final = (
    *("alternatives", "fonts", "group", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "passwd", "timezone"),
)
"""What of ``/etc`` programs need. The rest may hold passwords, and root's sandbox could read them."""
SETTINGS_OF_NETWORKS: Final = ("ca-certificates", "hosts", "nsswitch.conf", "pki", "resolv.conf", "ssl/certs")
PROCESSORS: Final = ("/sys/devices/system/cpu", "/sys/devices/system/node")
"""From where numerical libraries know how many cores there are."""
GPUS: Final = ("/dev/nvidia*", "/dev/kfd", "/dev/dri")
IN_MEMORY: Final = ("/tmp", "/var/tmp", "/run", "/dev/shm")  # noqa: S108 - they are a sandbox's own


class Bwrap:
    """Runs commands in bubblewrap.

    Args:
        program: Where bubblewrap is.
    """

    tier = Tier.BWRAP

    def __init__(self, program: str) -> None:
        self._program = program

    def run(self, job: Job) -> Ran:
        """Run a command to its end, or to that of its time, and leave none of its processes behind.

        Raises:
            ConfigError: Its folder, or something that it is to read, is not there.
            SandboxMissing: Bubblewrap could not start it.
        """
        place = arguments(job)
        return run(
            job,
            tier=self.tier,
            wrap=lambda command: [self._program, *place, "--", *command],
            rlimits=rlimits(job.limits),
        )


def arguments(job: Job) -> list[str]:
    """Return what bubblewrap is told for a job.

    Raises:
        ConfigError: Its folder, or something that it is to read, is not there.
    """
    folder = job.folder.absolute()
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder, so nothing can run in it. Pass one that is there.")
    if missing := [str(path) for path in job.reads if not path.exists()]:
        raise ConfigError(f"The job is to read {', '.join(missing)}, which is not there. Pass what is.")
    reads = [path.absolute() for path in job.reads]
    parts = [
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *(() if job.network else ("--unshare-net",)),
        *("--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL"),
        *system(network=job.network),
        # in /proc/sys are settings of the whole machine, and the kernel asks only whether it is root who writes them
        *("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"),
    ]
    for path in IN_MEMORY:
        parts += ["--tmpfs", path]
    gpus = [path for pattern in GPUS for path in sorted(glob.glob(pattern))]
    for path in gpus:
        parts += ["--dev-bind", path, path]
    for path in ("/sys",) if gpus else PROCESSORS:
        parts += ["--ro-bind-try", path, path]
    for place in sorted({*reads, *own()}, key=lambda path: (len(path.parts), path)):
        if not place.is_relative_to(folder):  # parents come first, and would hide what is bound before them
            parts += ["--ro-bind", str(place), str(place)]
    for path in job.hides:
        if not path.is_relative_to(folder):
            parts += ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", os.devnull, str(path)]
    return [*parts, "--bind", str(folder), str(folder), "--remount-ro", "/", "--chdir", str(folder)]


def system(*, network: bool) -> Iterator[str]:
    """Give bubblewrap the system's programs and libraries to read, and those of its settings that hold no secret."""
    for path in SYSTEM:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        else:
            yield from ("--ro-bind-try", path, path)
    for name in (*SETTINGS, *(SETTINGS_OF_NETWORKS if network else ())):
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")


def own() -> Iterable[Path]:
    """Return what the supervisor needs: its own file, and the standard library of this interpreter."""
    paths = sysconfig.get_paths()
    folders = {sys.base_prefix, os.path.realpath(sys.base_prefix), paths["stdlib"], paths["platstdlib"]}
    folders |= {str(Path(sys.executable).parent), str(Path(os.path.realpath(sys.executable)).parent)}
    if sys.prefix != sys.base_prefix:
        folders.add(str(Path(sys.prefix) / "pyvenv.cfg"))
    found = [Path(folder) for folder in folders if folder != "/" and not _is_of_the_system(folder)]
    return [path for path in (*found, SUPERVISOR) if path.exists()]


def _is_of_the_system(path: str) -> bool:
    return any(path == top or path.startswith(f"{top}/") for top in SYSTEM)


def trial() -> Job:
    """Return a job that shows whether bubblewrap works here."""
    return Job(command=["true"], folder=Path(__file__).parent, limits=Limits(wall_s=20.0))
