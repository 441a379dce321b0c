"""Which sandbox there is. A tier is named, and never replaced by a lesser one: that is for a person to say."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from etude.core.errors import ConfigError, SandboxMissing
from etude.mage.sandbox.bwrap import Bwrap, system, trial
from etude.mage.sandbox.namespaces import Namespaces
from etude.mage.sandbox.plain import Limited, Outer
from etude.mage.sandbox.protocol import Job, Sandbox, Tier

TRIAL_S: Final = 20.0
FORBIDDING: Final = {
    "kernel.apparmor_restrict_unprivileged_userns": "1",
    "kernel.unprivileged_userns_clone": "0",
    "user.max_user_namespaces": "0",
}
"""Settings of the kernel that forbid user namespaces, and the values that do."""
ALLOWING: Final = {
    "kernel.apparmor_restrict_unprivileged_userns": "0",
    "kernel.unprivileged_userns_clone": "1",
    "user.max_user_namespaces": "10000",
}
NOT_RUNNING: Final = "Not running generated code. Options:"
WITHOUT: Final = (
    "name the tier 'outer', if this is a container or a virtual machine that holds nothing of value; or name the tier "
    "'limits', which keeps neither your files nor the network from the code."
)

TOLD: Final = {
    Tier.BWRAP: (
        "bwrap: no network, the system read-only, only the variant's folder writable, an environment and processes of "
        "its own. It does not keep off what breaks the kernel itself, and GPUs are bound in where there are any. "
        "Memory is limited for each process, and for all of them together only where a control group can be made."
    ),
    Tier.NAMESPACES: (
        "namespaces: no network and processes of its own, all of which end with it. It can still read everything that "
        "you can, home and keys, write what you can, and so talk to services that listen at a file, such as Docker's."
    ),
    Tier.LIMITS: (
        "limits: limits of time, memory, file size and processes, and an environment of its own. Files and the network "
        "are open to it, and so are your other processes: it can end the one that watches it, and outlive its time."
    ),
    Tier.OUTER: (
        "outer: nothing from us but a time limit. You say that this is a container or a virtual machine, and that it "
        "keeps the code apart."
    ),
}
"""What each tier gives, and what it lacks."""


def find_sandbox(tier: Tier | str | None = None) -> Sandbox:
    """Return the sandbox of a tier, which was seen to work.

    Args:
        tier: Which; bubblewrap if left out.

    Raises:
        ConfigError: There is no such tier.
        SandboxMissing: This machine does not give it. No other one is taken instead.
    """
    try:
        wanted = Tier.BWRAP if tier is None else Tier(tier)
    except ValueError:
        raise ConfigError(f"There is no sandbox {str(tier)!r}. There are: {', '.join(Tier)}.") from None
    if wanted is Tier.LIMITS:
        return Limited()
    if wanted is Tier.OUTER:
        return Outer()
    return _bwrap() if wanted is Tier.BWRAP else _namespaces()


def told(tier: Tier) -> str:
    """Return what a tier gives, and what it lacks."""
    return TOLD[tier]


def forbidding() -> dict[str, str]:
    """Return the settings of this kernel that forbid user namespaces."""
    found = {}
    for name, value in FORBIDDING.items():
        path = Path("/proc/sys") / name.replace(".", "/")
        try:
            if path.read_text().strip() == value:
                found[name] = value
        except OSError:  # this kernel has no such setting
            continue
    return found


def why_not(program: str, settings: Mapping[str, str], said: str) -> str:
    """Return why a program cannot make a sandbox here, and what can be done about it.

    Args:
        program: What it is called.
        settings: Those settings of the kernel that forbid user namespaces.
        said: What the program printed.
    """
    if "proc" in said and "ount" in said:
        return (
            f"{program} cannot mount a /proc of its own, as inside a container that hides parts of it "
            f"({said}). {NOT_RUNNING} start the container so that it may (docker run --security-opt "
            f"systempaths=unconfined); {WITHOUT}"
        )
    if settings:
        name, value = next(iter(settings.items()))
        return (
            f"{program} cannot create a user namespace ({name}={value}). {NOT_RUNNING} allow it "
            f"(sudo sysctl -w {name}={ALLOWING[name]}); {WITHOUT}"
        )
    return (
        f"{program} cannot create a user namespace ({said or 'it does not say why'}). {NOT_RUNNING} allow it, inside a "
        f"container by its options (docker run --security-opt seccomp=unconfined); {WITHOUT}"
    )


def _bwrap() -> Sandbox:
    if sys.platform != "linux":
        raise SandboxMissing(f"bubblewrap, the default sandbox, runs on Linux alone. {NOT_RUNNING} {WITHOUT}")
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxMissing(
            f"bubblewrap is not installed: there is no bwrap on the PATH. {NOT_RUNNING} install it (apt-get install "
            "bubblewrap; dnf install bubblewrap); name the tier 'namespaces', which has no network either, but can "
            f"read all of your files; {WITHOUT}"
        )
    bare = [
        *("--unshare-user", "--unshare-pid", "--unshare-net", "--proc", "/proc", "--dev", "/dev"),
        *system(network=False),
    ]
    _try("bubblewrap", [program, *bare, "--", "true"])
    return _shown_to_work(Bwrap(program), trial())


def _namespaces() -> Sandbox:
    unshare, setpriv = shutil.which("unshare"), shutil.which("setpriv")
    if unshare is None or setpriv is None:
        missing = "unshare" if unshare is None else "setpriv"
        raise SandboxMissing(
            f"There is no {missing} on the PATH, which is part of util-linux. {NOT_RUNNING} install it, or bubblewrap, "
            f"which keeps more apart; {WITHOUT}"
        )
    parts = ["--map-current-user", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--net"]
    _try("unshare", [unshare, *parts, "--", "true"])
    return _shown_to_work(Namespaces(unshare, setpriv), trial())


def _try(program: str, command: list[str]) -> None:
    tried = subprocess.run(command, capture_output=True, text=True, timeout=TRIAL_S, check=False)
    if tried.returncode:
        raise SandboxMissing(why_not(program, forbidding(), " ".join(tried.stderr.split())))


def _shown_to_work(sandbox: Sandbox, job: Job) -> Sandbox:
    ran = sandbox.run(job)
    if ran.code != 0:
        said = ran.err.decode(errors="replace").strip() or f"it ended with {ran.code or ran.signal}"
        raise SandboxMissing(f"A program that does nothing fails in the sandbox {sandbox.tier.value}: {said}")
    return sandbox
