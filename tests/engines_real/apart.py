"""Scripts that use somebody else's framework: each in a process of its own, and nothing of it is left in the end."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from support import processes, wait_for

MARK = "ETUDE_ENGINES_TEST"
"""Is in the environment of everything that a script starts, at any remove."""

LIMIT_S = 300.0
"""No script here takes longer, however busy this machine is: a framework alone may need a minute to start."""


@contextlib.contextmanager
def from_others() -> Iterator[dict[str, str]]:
    """Give variables that keep Ray and Spark apart from others on this machine, with a folder for what they write."""
    with tempfile.TemporaryDirectory(prefix="real-", dir="/tmp", ignore_cleanup_errors=True) as folder:  # Ray's sockets
        Path(folder, "tmp").mkdir()
        yield {
            "RAY_ADDRESS": "",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_TMPDIR": folder,
            "RAY_USAGE_STATS_ENABLED": "0",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "TMPDIR": str(Path(folder, "tmp")),
            **_spark_home(),
        }


def _spark_home() -> dict[str, str]:
    found = importlib.util.find_spec("pyspark")
    return {"SPARK_HOME": str(Path(found.origin).parent)} if found is not None and found.origin else {}


@contextlib.contextmanager
def started(script: Path, *args: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a script in its folder; what it says is in ``out`` and ``err`` beside it. It ends with the block."""
    mark = secrets.token_hex(8)
    env = {**os.environ, "ETUDE_STUDIES": str(script.parent / "studies"), "ETUDE_PROGRESS": "0", **environment}
    with (script.parent / "out").open("w") as out, (script.parent / "err").open("w") as err:
        process = subprocess.Popen(
            [sys.executable, script.name, *args],
            cwd=script.parent,
            env={name: value for name, value in {**env, MARK: mark}.items() if value},
            stdout=out,
            stderr=err,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()  # fine if it has ended
            process.wait()
            if process.returncode != 0:
                processes.sweep(MARK, mark)
            wait_for(lambda: not processes.marked(MARK, mark))


def finish(process: subprocess.Popen[str], script: Path) -> str:
    """Wait for the end of a script, which is a good one; return what it said."""
    assert process.wait(LIMIT_S) == 0, said(script)
    return (script.parent / "out").read_text()


def said(script: Path) -> str:
    """Return all that a script has said so far."""
    return (script.parent / "out").read_text() + (script.parent / "err").read_text()
