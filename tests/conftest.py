"""Every test has studies of its own, and leaves nothing behind: no thread, no process, no open file."""

from __future__ import annotations

import gc
import os
import secrets
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from etude.worker import processes

os.environ.setdefault("KERAS_BACKEND", "torch")  # the only one that is installed for the tests

settings.register_profile("etude", deadline=None)  # no test depends on speed
settings.load_profile("etude")

MARK = "PYTEST_ETUDE_SESSION"
"""Is in the environment of everything that a test starts, however far down and however orphaned."""

TOKEN = secrets.token_hex(8)
PATIENCE_S = 20.0
"""How long something that is about to end may take until it counts as left behind."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PROC = Path("/proc/self")
HARMLESS_FILES = ("/dev/", "anon_inode:inotify")
HARMLESS_NAMES = (".coverage", ".hypothesis", "pytest-cache")
HARMLESS_PROCESSES = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "LokyProcess", "loky")


UNTIL = "ETUDE_TEST_UNTIL"
"""A moment, in seconds of the epoch, after which no thorough test begins: where a whole run may take so long only."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let thorough tests come last, so that what is left out on a slow machine is as little as can be."""
    items.sort(key=_is_thorough)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave a thorough test out if the time is over, and say so."""
    if _is_thorough(item) and time.time() > float(os.environ.get(UNTIL, "inf")):
        pytest.skip(f"it is thorough, and the time that {UNTIL} gives is over")


def _is_thorough(item: pytest.Item) -> bool:
    return item.get_closest_marker("thorough") is not None


@pytest.fixture(scope="session", autouse=True)
def _session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep everybody's studies apart from the developer's, and end warm workers at last."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, TOKEN)
        patch.setenv("ETUDE_STUDIES", str(tmp_path_factory.mktemp("studies")))
        patch.setenv("ETUDE_PROGRESS", "0")
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts its background jobs deaf to Ctrl-C
            signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    engine = sys.modules.get("etude.engines.local")
    if engine is not None:
        engine.close_warm_workers()
    left = _after_a_while(lambda: {pid for pid in processes.marked(MARK, TOKEN) if _counts(pid)})
    shown = "\n  ".join(f"{pid}: {_command(pid)}" for pid in sorted(left))
    for pid in left:
        processes.kill(pid)
    assert not left, f"processes were left behind by the tests:\n  {shown}"


@pytest.fixture(scope="module", autouse=True)
def _collected_before() -> None:
    """Have the garbage collector look at what a module makes alone.

    Once all frameworks are loaded into one process, a collection of all that there is takes seconds, and a process that
    is forked copies what its collector looks at.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _own_studies(_session: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path / "studies"))
    monkeypatch.setenv("ETUDE_PROGRESS", "0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def beside_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """Give what writes ``script.py`` into a folder, in which we are then and which keeps its studies."""

    def write(text: str) -> Path:
        (tmp_path / "script.py").write_text(text)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("ETUDE_STUDIES", "studies")
        monkeypatch.setattr(sys, "path", list(sys.path))
        return tmp_path

    yield write
    sys.modules.pop("script", None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Give a real browser."""
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None and os.environ.get("ETUDE_BROWSER") != "required":
        pytest.skip("no Chromium is installed; `make test` installs one where it can (apt-get install chromium)")
    assert path is not None, "Chromium is missing, and CI has to have it: apt-get install chromium"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(autouse=True)
def _nothing_left_behind(_own_studies: None) -> Iterator[None]:
    """Compare threads, children and open files before and after a test."""
    threads, children, files = set(threading.enumerate()), _children(), _files()
    yield
    left_threads = _after_a_while(lambda: {t for t in threading.enumerate() if t not in threads and t.is_alive()})
    assert not left_threads, f"threads were left running: {sorted(t.name for t in left_threads)}"
    left_children = _after_a_while(lambda: {c for c in _children() - children - _warm_workers() if _counts(c)})
    assert not left_children, f"child processes were left: {[(c, _command(c)) for c in left_children]}"
    if left_files := _opened_since(files):
        gc.collect()  # what only a cycle keeps alive is not held open on purpose
        left_files = _opened_since(files)
    assert not left_files, f"files were left open: {left_files}"


def _after_a_while(look: Callable[[], set[Any]]) -> set[Any]:
    """Return what ``look`` still finds after it had some time to go away."""
    deadline = time.monotonic() + PATIENCE_S
    while (left := look()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def _children() -> set[int]:
    """Return the children of this process, whichever of its threads started them."""
    found: set[int] = set()
    for task in PROC.glob("task/*/children"):
        try:
            found.update(map(int, task.read_text().split()))
        except OSError:  # that thread has ended
            continue
    return found


def _files() -> dict[int, str]:
    """Return what is open, by file descriptor."""
    found = {}
    for entry in PROC.glob("fd/*"):
        try:
            found[int(entry.name)] = os.readlink(entry)
        except OSError:  # the descriptor that the listing itself used
            continue
    return found


def _opened_since(before: dict[int, str]) -> dict[int, str]:
    engine = sys.modules.get("etude.engines.local")
    warm = {w.fileno() for w in engine._warm} if engine is not None else set()
    return {
        fd: target
        for fd, target in _files().items()
        if before.get(fd) != target
        and fd not in warm
        and not target.startswith(HARMLESS_FILES)
        and not any(name in target for name in HARMLESS_NAMES)
    }


def _warm_workers() -> set[int]:
    engine = sys.modules.get("etude.engines.local")
    return {w.process.pid for w in engine._warm} if engine is not None else set()


def _counts(pid: int) -> bool:
    return not any(name in _command(pid) for name in HARMLESS_PROCESSES)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "(gone)"
