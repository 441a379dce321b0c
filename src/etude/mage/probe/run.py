"""Running a program in a sandbox to see what it does."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from etude.core.errors import ConfigError
from etude.mage.facts import Facts
from etude.mage.probe.interpreters import files_of
from etude.mage.probe.laying import free
from etude.mage.probe.reading import facts_of
from etude.mage.sandbox.protocol import Job, Limits, Sandbox
from etude.mage.sources.entry import experiment_of

HERE: Final = Path(__file__).resolve().parent
FIRST: Final = HERE / "first"
INSIDE: Final = HERE / "inside"
PYTHON: Final = re.compile(r"python(\d+(\.\d+)?)?$")
PASSED: Final = (
    *("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "KERAS_BACKEND"),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
    *("PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONWARNINGS"),
)
"""What of our environment reaches the program, where it is set."""
ROWS: Final = 1_000


def probe(
    folder: Path,
    entry: str,
    *,
    sandbox: Sandbox,
    steps: int = 3,
    seed: int = 0,
    other_seed: int | None = None,
    limits: Limits | None = None,
    reads: Sequence[Path] = (),
    hides: Sequence[Path] = (),
    metric_file: str = "",
    arguments: Sequence[str] = (),
    interpreter: str = sys.executable,
    rows: int | None = ROWS,
    environment: Mapping[str, str] | None = None,
) -> Facts:
    """Return what a program did in its first steps.

    It computes the same as without being watched, up to the step at which enough is seen, and ends there with exit
    code 0. What it prints, raises or lacks is a fact, and no error of ours.

    Args:
        folder: The folder of the project, or of a variant; the only place it may write to.
        entry: A command such as ``python train.py --seed {seed}``, or ``script.py:experiment``.
        sandbox: Where it runs.
        steps: So many optimizer steps, or fits of estimators, are enough.
        seed: What stands in the place of ``{seed}``.
        other_seed: Run it once more with this one, and keep what was seen in ``other``: what acts for one seed alone
            is seen so, and which data no seed changes. It takes as long again. A program that takes no seed, or does
            not run with the first one, is not run again.
        limits: What it may take.
        reads: What else it may read: data of the project, for instance (see ``laying.reached``).
        hides: What of that it is not to find (see ``laying.hidden``).
        metric_file: The JSON file, relative to the folder, that it writes its metrics into. One of an earlier run is
            taken away first.
        arguments: What a command has besides, word by word.
        interpreter: Which Python runs it.
        rows: An estimator is fitted on at most so many rows, evenly spaced; None for all. Numbers differ then, and
            ``unseen`` says so.
        environment: What else it finds in its environment.

    Raises:
        ConfigError: The entry, the steps or the interpreter cannot be.
        SandboxMissing: The sandbox could not be started.
    """
    if steps < 1 or (rows is not None and rows < 1):
        raise ConfigError(f"steps={steps}, rows={rows}: nothing can be seen of less than 1. Pass 1 or more.")
    folder = folder.absolute()
    is_experiment = experiment_of(entry) is not None

    def run(seed: int) -> Facts:
        token = secrets.token_hex(8)
        out, returned = folder / f".etude-probe-{token}.json", folder / f".etude-probe-{token}-metrics.json"
        metrics = returned if is_experiment else folder / metric_file if metric_file else None
        if metric_file:
            free(folder, metric_file)
        own = [FIRST, INSIDE, *([_etude()] if is_experiment else [])]
        spec = {"out": str(out), "steps": steps, "rows": rows, "folder": str(folder), "path": _path()}
        job = Job(
            command=[*command_of(entry, seed=seed, interpreter=interpreter, metrics=returned), *arguments],
            folder=folder,
            reads=list(dict.fromkeys([*files_of(interpreter, _path()), *own, *reads])),
            hides=hides,
            environment=environment_of(folder, json.dumps(spec), os.environ) | dict(environment or {}),
            limits=limits or Limits(),
        )
        try:
            return facts_of(sandbox.run(job), out, metrics, folder, os.environ)
        finally:
            for file in (out, Path(f"{out}.new"), returned):
                file.unlink(missing_ok=True)

    facts = run(seed)
    takes_a_seed = is_experiment or "{seed}" in entry
    if other_seed is None or not takes_a_seed or facts.ended.code != 0:
        return facts
    return msgspec.structs.replace(facts, other=run(other_seed))


def command_of(entry: str, *, seed: int, interpreter: str, metrics: Path) -> list[str]:
    """Return the command that an entry stands for.

    Raises:
        ConfigError: It is no command.
    """
    if (named := experiment_of(entry)) is not None:
        return [
            *(interpreter, str(INSIDE / "driver.py"), *named, str(seed), str(metrics)),
            str(_etude()),
        ]
    try:
        parts = shlex.split(entry.replace("{seed}", str(seed)))
    except ValueError as error:
        raise ConfigError(f"entry={entry!r} is no command: {error}. Pass one as you would type it.") from None
    if not parts:
        raise ConfigError("entry is empty. Pass a command such as 'python train.py --seed {seed}'.")
    return [interpreter, *parts[1:]] if PYTHON.match(parts[0]) else parts


def environment_of(folder: Path, spec: str, ours: Mapping[str, str]) -> dict[str, str]:
    """Return all that a watched program finds in its environment."""
    found = {name: ours[name] for name in PASSED if name in ours}
    found.setdefault("PYTHONHASHSEED", "0")  # else two runs of one program differ by the order of its sets
    path = os.pathsep.join(filter(None, [str(FIRST), _path()]))
    return {**found, "HOME": str(folder), "PYTHONPATH": path, "ETUDE_PROBE": spec}


def _path() -> str:
    """Return our PYTHONPATH; the program has it, too."""
    return os.environ.get("PYTHONPATH", "")


def _etude() -> Path:
    """Return where Étude lies."""
    return HERE.parents[2]
