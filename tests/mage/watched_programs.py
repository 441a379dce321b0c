"""Programs that are run twice in the tests of the probe: watched, and as they are."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from etude.core.errors import SandboxMissing
from etude.mage.facts import Facts
from etude.mage.probe.run import probe
from etude.mage.sandbox.finding import find_sandbox
from etude.mage.sandbox.protocol import Job, Limits, Ran, Sandbox, Tier

PATIENT = Limits(wall_s=300.0)


class Recording:
    """A sandbox that keeps the last job and how it ended."""

    def __init__(self, inner: Sandbox) -> None:
        self.tier = inner.tier
        self.inner = inner

    def run(self, job: Job) -> Ran:
        self.job = job
        self.ran = self.inner.run(job)
        return self.ran


def sandbox_of_tests() -> Sandbox:
    """Return bubblewrap, or one that is always there where the kernel forbids it."""
    try:
        return find_sandbox()
    except SandboxMissing:
        return find_sandbox(Tier.LIMITS)


def seen(folder: Path, text: str, entry: str = "python train.py", **options: object) -> Facts:
    """Return what the probe sees of a program."""
    (folder / "train.py").write_text(text)
    return probe(folder, entry, sandbox=sandbox_of_tests(), **{"limits": PATIENT, **options})  # type: ignore[arg-type]


def seen_and_alone(
    folder: Path, text: str, entry: str = "python train.py", **options: object
) -> tuple[Facts, Ran, Ran]:
    """Return what the probe sees of a whole run, how that ended, and how a run ended that nobody watched."""
    (folder / "train.py").write_text(text)
    recording = Recording(sandbox_of_tests())
    options = {"limits": PATIENT, "steps": 1_000_000, "rows": None, **options}
    facts = probe(folder, entry, sandbox=recording, **options)  # type: ignore[arg-type]
    environment = {name: value for name, value in recording.job.environment.items() if name != "ETUDE_PROBE"}
    alone = recording.inner.run(dataclasses.replace(recording.job, environment=environment))
    assert alone.code == 0, alone.err.decode()
    return facts, recording.ran, alone


def needs(*libraries: str) -> None:
    """Skip a module of tests without these libraries."""
    for library in libraries:
        pytest.importorskip(library)
