"""Where, when and with what a study was started, without a single secret.

A record that is shared with a paper must be safe to share. So the environment is taken by a list of
names and never whole, what looks like a secret on the command line is hidden by its name, and the value of
every environment variable with a secret's name is hidden wherever else it may have got.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from etude.core.clock import WallClock

RUN: Final = "run "

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

RECORDED_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "PYTHONHASHSEED",
    "CUBLAS_WORKSPACE_CONFIG",
    "SLURM_JOB_ID",
    "LANG",
)
LARGEST_DIFF_BYTES: Final = 200_000
SHORTEST_SECRET: Final = 8
"""Shorter values are not hidden in texts: ``KEY=1`` would blacken every 1."""

HIDDEN: Final = "***"
_SECRET_VARIABLE: Final = re.compile(r"TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_UNRECORDED_VARIABLE: Final = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL", re.IGNORECASE)
_SECRET_OPTION: Final = re.compile(
    r"(token|key|secret|password|passwd|passphrase|pwd|credentials?|authorization|\bpass)(?![a-z])[\w-]*",
    re.IGNORECASE,
)
_SECRET_ASSIGNED: Final = re.compile(rf"({_SECRET_OPTION.pattern}[\"']?\s*[=:]\s*).+", re.IGNORECASE | re.DOTALL)
_KNOWN_TOKEN: Final = re.compile(r"\b(sk-|gh[opsu]_|github_pat_|hf_|glpat-|xox[abp]-|AKIA)[\w-]{16,}")
_URL_LOGIN: Final = re.compile(r"(?<=://)[^/@\s]+@")


def run_key(epoch: int) -> str:
    """Return under which name a journal has what was recorded when a study was taken up by its nth driver."""
    return f"{RUN}{epoch}"


def runs_of(meta: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what was recorded each time that a study was taken up, the first time first."""
    found = [(int(key.removeprefix(RUN)), value) for key, value in meta.items() if key.startswith(RUN)]
    return [value for _, value in sorted(found, key=lambda run: run[0]) if isinstance(value, Mapping)]


def newest_run(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what was recorded when a study was taken up last; empty if nothing was."""
    return next(reversed(runs_of(meta)), {})


def collect(folder: Path | None = None) -> dict[str, Json]:
    """Return what is recorded when a study starts; a part that cannot be read says so, nothing raises.

    Args:
        folder: Where the code lies, for its state in git. The working folder if None.

    Returns:
        Values that JSON can hold: ``time, host, platform, python, packages, hardware, git, argv,
        environment``. A part that could not be read is ``{"error": why}``; ``git`` is None
        outside of a git work tree and where there is no git.
    """
    hide = _hider(os.environ)
    parts: dict[str, Callable[[], Json]] = {
        "time": lambda: datetime.fromtimestamp(WallClock().now_s(), UTC).isoformat(timespec="seconds"),
        "host": platform.node,
        "platform": platform.platform,
        "python": lambda: {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "executable": Path(sys.executable).name,
        },
        "packages": _packages,
        "hardware": _hardware,
        "git": lambda: _git(folder or Path.cwd(), hide),
        "argv": lambda: _arguments(sys.argv),
        "environment": lambda: _environment(os.environ),
    }
    return {name: _hidden(_tried(read), hide) for name, read in parts.items()}


def _tried(read: Callable[[], Json]) -> Json:
    try:
        return read()
    except Exception as problem:
        return {"error": f"{type(problem).__name__}: {problem}"}


def _hider(environment: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that hides in a text what the environment holds as secrets."""
    values = [value for name, value in environment.items() if _SECRET_VARIABLE.search(name)]
    # A key of several lines has a "+" before each of them in a diff, so each line is a secret.
    lines = {line.strip() for value in values for line in (value, *value.splitlines())}
    secrets = sorted((line for line in lines if len(line) >= SHORTEST_SECRET), key=len, reverse=True)

    def hide(text: str) -> str:
        for secret in secrets:  # the longest first: one may hold another
            text = text.replace(secret, HIDDEN)
        return _URL_LOGIN.sub(f"{HIDDEN}@", _KNOWN_TOKEN.sub(HIDDEN, text))

    return hide


def _hidden(value: Json, hide: Callable[[str], str]) -> Json:
    if isinstance(value, dict):
        return {name: _hidden(inner, hide) for name, inner in value.items()}
    if isinstance(value, list):
        return [_hidden(inner, hide) for inner in value]
    return hide(value) if isinstance(value, str) else value


def _packages() -> Json:
    from importlib import metadata

    found: dict[str, Json] = {}
    for distribution in metadata.distributions():
        name: str | None = distribution.metadata["Name"]
        if name:  # a half-removed distribution has none
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), distribution.version)
    return dict(sorted(found.items()))


def _hardware() -> Json:
    parts: dict[str, Callable[[], Json]] = {
        "cores": os.cpu_count,
        "cores_available": lambda: len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": lambda: round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "cpu": _cpu,
        "gpus": _gpus,
    }
    return {name: _tried(read) for name, read in parts.items()}


def _cpu() -> str:
    if sys.platform == "darwin":
        return _output(["sysctl", "-n", "machdep.cpu.brand_string"], limit_s=2.0).strip()
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8", errors="replace") if info.exists() else ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model[1] if model else platform.processor() or platform.machine()


def _gpus() -> Json:
    if shutil.which("nvidia-smi") is None:
        return []
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    rows = (line.split(", ") for line in _output(query, limit_s=2.0).splitlines())
    return [dict(zip(("name", "memory", "driver"), row, strict=False)) for row in rows]


def _git(folder: Path, hide: Callable[[str], str]) -> Json:
    """Return the state of the work tree that ``folder`` lies in; None if it lies in none."""

    def ask(*arguments: str) -> str:
        # Nothing is locked or written, and no monitor of the repository's choice is started.
        calm = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-C", str(folder))
        return _output(["git", *calm, *arguments], limit_s=5.0)

    def ask_for(*arguments: str) -> str | None:
        """Return an answer that may be missing: a commit before the first, a remote."""
        try:
            return ask(*arguments).strip() or None
        except subprocess.CalledProcessError:
            return None

    if shutil.which("git") is None or ask_for("rev-parse", "--is-inside-work-tree") != "true":
        return None
    commit, remote = ask_for("rev-parse", "HEAD"), ask_for("config", "--get", "remote.origin.url")
    against = ["HEAD"] if commit else []
    # Hidden before it is cut: half of a secret would not be found.
    diff = hide(ask("diff", "--no-color", "--no-ext-diff", "--no-textconv", *against)).encode()
    return {
        "commit": commit,
        "branch": ask_for("symbolic-ref", "--short", "HEAD"),
        "dirty": ask_for("status", "--porcelain") is not None,
        "diff": diff[:LARGEST_DIFF_BYTES].decode(errors="ignore"),
        "diff_is_cut": len(diff) > LARGEST_DIFF_BYTES,
        "remote": remote and _URL_LOGIN.sub("", remote).partition("?")[0],
    }


def _arguments(argv: Iterable[str]) -> Json:
    """Return the program's name and its arguments, secrets by name hidden: ``--token=***``."""
    program, *arguments = [*argv] or [""]
    shown: list[Json] = [Path(program).name]
    is_secret = False
    for argument in arguments:
        is_value = is_secret and not argument.startswith("--")  # of the option before
        shown.append(HIDDEN if is_value else _SECRET_ASSIGNED.sub(rf"\1{HIDDEN}", argument))
        is_option = argument.startswith("-") and not is_value and "=" not in argument
        is_secret = is_option and _SECRET_OPTION.search(argument) is not None
    return shown


def _environment(environment: Mapping[str, str]) -> Json:
    return {
        name: value
        for name, value in sorted(environment.items())
        if (name in RECORDED_VARIABLES or name.startswith("ETUDE_")) and not _UNRECORDED_VARIABLE.search(name)
    }


def _output(command: list[str], *, limit_s: float) -> str:
    """Return what a command writes; raise if it fails, or takes longer than ``limit_s``."""
    quiet = os.environ | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    done = subprocess.run(
        command, capture_output=True, check=True, timeout=limit_s, stdin=subprocess.DEVNULL, env=quiet
    )
    return done.stdout.decode(errors="replace")
