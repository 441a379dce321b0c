"""A view in a process of its own, as people start it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from served import STARTS_S, AtWork, Serve, Served

import etude
from etude.testing.written import Written, begin_study


@pytest.fixture
def serve() -> Iterator[Serve]:
    started: list[Served] = []

    def start(where: Path | str, *options: str, port: str = "0") -> Served:
        command = [
            sys.executable,
            "-c",
            "from etude.cli import main; main()",
            "view",
            str(where),
            "--port",
            port,
            *options,
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("Open http://"), first + process.stdout.read()
        assert process.stdout.readline() == "Ctrl-C ends the page; studies go on.\n"
        started.append(Served(process, first.removeprefix("Open ").strip()))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()


@pytest.fixture
def live() -> Iterator[etude.Search]:
    """Give a study at work that reports without end, until somebody stops it."""

    def train(x: float, run: Any) -> float:
        for _ in run.epochs(10**9):
            run.report(score=x)
            time.sleep(0.001)  # so long an epoch takes; without it a million were over before anybody could stop it
        return x

    experiment = etude.Experiment(train, metric="score", mode="max")
    study = experiment.tune(
        {"x": etude.uniform(0, 1)}, trials=2, workers=2, stopper="none", name="live", sampler="random", wait=False
    )
    yield study
    study.stop()
    study.wait()


@pytest.fixture
def at_work() -> Iterator[AtWork]:
    """Give what writes a study of which a trial is under way, and whose driver this process is until the test ends."""
    with contextlib.ExitStack() as at_last:

        def begun(folder: Path) -> Path:
            trials = [Written({"lr": 0.1}, 0.5, curve=[0.1, 0.2]), Written({"lr": 0.2}, curve=[0.3], state="running")]
            journal, facts = begin_study(folder, trials, complete=False)
            at_last.enter_context(contextlib.closing(journal))
            journal.append(facts)
            return folder

        yield begun


@pytest.fixture
def tab(browser: Any) -> Iterator[Callable[[str], Any]]:
    """Give what opens a link in a browser of its own, and keeps what the page complains of."""
    contexts = []

    def opened(link: str, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light", **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(STARTS_S * 1000)
        page.complaints = []
        page.on("console", lambda said: page.complaints.append(said.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.goto(link)
        return page

    yield opened
    for context in contexts:
        context.close()
