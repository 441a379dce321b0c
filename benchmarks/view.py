"""The live view of a study of 10,000 trials beside optuna-dashboard: how soon it is there, and how soon news are."""

from __future__ import annotations

import contextlib
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
REPORTS: Final = 5
LIMIT_S: Final = 120.0
"""How long anything is waited for on a page."""
STARTS_S: Final = 120.0
STEP_S: Final = 0.01
NEWS: Final = 5
"""Reports and results that are waited for, one after the other."""

SMOOTH_S: Final = 0.1
"""How long a page may keep its user waiting: what answers sooner feels as if it did so at once (Miller 1968, "Response
time in man-computer conversational transactions"; Nielsen 1993, "Usability Engineering", chapter 5)."""

OURS: Final = "étude"
THEIRS: Final = "optuna-dashboard"
WITHOUT: Final = ", without reports"


def cells(small: bool, trials: int) -> Sequence[Cell]:
    number = 200 if small else trials
    names = [(OURS, REPORTS)] if small else [(whose, reports) for reports in (REPORTS, 0) for whose in (OURS, THEIRS)]
    return [
        Cell(
            whose if reports else f"{whose}{WITHOUT}",
            {"whose": whose, "trials": number, "reports": reports},
            limit_s=1800.0,
        )
        for whose, reports in names
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    from etude.testing.written import Written, begin_study

    n, reports = args["trials"], args["reports"]
    trials = [
        Written(
            {
                "lr": (k + 1) / n,
                "width": k % 7,
                "depth": k % 3,
                "dropout": (k % 11) / 20,
                "act": ("relu", "tanh")[k % 2],
            },
            (k * 7919 % n) / (2 * n),
            curve=[step / reports * (k * 7919 % n) / (2 * n) for step in range(reports)],
            took_s=1.0,
        )
        for k in range(n)
    ]
    news = [Written({"lr": 0.5}, 0.6 + k / 100, curve=[0.1] if reports else [], took_s=1.0) for k in range(NEWS)]
    journal, facts = begin_study(place / "study", [*trials, *news], workers=8)
    last = max(nth for nth, fact in enumerate(facts) if getattr(fact, "trial", n) < n) + 1
    journal.append(facts[:last])
    try:
        if args["whose"] == OURS:
            return _ours(place / "study", journal, facts[last:])
        return _theirs(place, n)
    finally:
        journal.lease.release()
        journal.close()


def _timed(
    page: Any,
    address: str,
    *,
    shown: Callable[[], object],
    write: Sequence[Callable[[], object]],
    there: Callable[[int], object],
) -> Result:
    """Return how soon a page is there, and again, and how soon what is written then is on it.

    Args:
        page: A page of a browser that has shown nothing yet; its server has just said where it answers.
        address: What it is to show.
        shown: Waits until it shows what the study has.
        write: Write something each.
        there: Waits until the n-th of these, from 1, is shown.

    Returns:
        ``cold_s`` and ``first_s``: seconds until it is shown by a server that has just been started, and loaded anew.
        ``news_s`` and ``worst_s``: seconds until news are, the median and the longest. ``held_s``: the longest time
        that the page did not answer its user meanwhile. ``given_up_s``: after how long it was given up, instead.
    """
    from playwright.sync_api import Error

    began = time.perf_counter()
    page.goto(address)
    shown()
    found: Result = {"cold_s": time.perf_counter() - began}
    try:
        began = time.perf_counter()
        page.reload()
        shown()
        found["first_s"] = time.perf_counter() - began
        page.evaluate(WATCH)
        waits = []
        for nth, written in enumerate(write, 1):
            written()
            began = time.perf_counter()
            there(nth)
            waits.append(time.perf_counter() - began)
        held_ms = page.evaluate("longest")
    except Error:
        return found | {"given_up_s": time.perf_counter() - began}
    return found | {"news_s": statistics.median(waits), "worst_s": max(waits), "held_s": held_ms / 1000}


WATCH: Final = """() => {
  window.longest = 0;
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) window.longest = Math.max(window.longest, one.duration);
  }).observe({ type: "longtask" });
}"""
"""Has a page keep the longest task, in ms, of those that keep it from answering its user: 50 ms and more."""


# --- ours ---------------------------------------------------------------------------------------------


def _ours(folder: Path, journal: Any, rest: Sequence[Any]) -> Result:
    command = [sys.executable, "-c", "from etude.cli import main; main()", "view", str(folder), "--port", "0"]
    with _page() as page:  # first: while a browser starts, a server has time to get ready
        began = time.perf_counter()
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            link = server.stdout.readline().removeprefix("Open ").strip()
            start_s = time.perf_counter() - began
            return {"start_s": start_s} | _timed(
                page,
                link,
                shown=lambda: page.wait_for_selector("#table tbody tr:nth-child(100)"),
                write=[partial(journal.append, [fact]) for fact in rest],
                there=lambda _: page.wait_for_selector(f'body[data-seq$=".{journal.seq}"]'),
            )
        finally:
            server.terminate()
            server.communicate()


# --- theirs -------------------------------------------------------------------------------------------


def _theirs(place: Path, n: int) -> Result:
    import optuna

    import etude

    database = place / "optuna.db"
    etude.open(place / "study").export("optuna", into=str(database), name="study")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    url = f"sqlite:///{database}"
    began = time.perf_counter()
    server = subprocess.Popen(
        [str(Path(sys.executable).parent / "optuna-dashboard"), url, "--port", str(port), "--host", "127.0.0.1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        address = f"http://127.0.0.1:{port}/dashboard/studies/1"
        _until(lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/dashboard/", timeout=5).status == 200)
        start_s = time.perf_counter() - began
        study = optuna.load_study(study_name="study", storage=url)
        with _page() as page:
            return {"start_s": start_s} | _timed(
                page,
                address,
                shown=lambda: _shows(page, n),
                write=[partial(_finish, study, 0.8 + nth / 100) for nth in range(NEWS)],
                there=lambda nth: _shows(page, n + nth),
            )
    finally:
        server.terminate()
        server.communicate()


def _finish(study: Any, value: float) -> None:
    study.tell(study.ask(), value)


def _shows(page: Any, trials: int) -> None:
    """Wait until the first figure of the page, the values of all trials, has so many of them."""
    page.wait_for_function(
        "(n) => document.querySelector('.js-plotly-plot')?.data?.some((one) => one.x?.length >= n)", arg=trials
    )


# --- a browser ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _page() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        raise SystemExit("Chromium is missing, in which pages are measured. Install it: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(1000 * LIMIT_S)
        yield page
        browser.close()


def _until(works: Any) -> None:
    """Wait until something works that fails as long as a server is not there."""
    give_up_at = time.monotonic() + STARTS_S
    while True:
        try:
            if works():
                return
        except (urllib.error.URLError, OSError):
            if time.monotonic() > give_up_at:
                raise
        time.sleep(STEP_S)


def _targets() -> Sequence[Target]:
    first, news = "until the page is there", "until news are there"
    return [
        Target(first, f"{OURS}: cold_s", 1.5, "s", at_least=False, worst=True),
        Target(news, f"{OURS}: worst_s", 1.0, "s", at_least=False, worst=True),
        Target(
            "what a user waits for the page meanwhile", f"{OURS}: held_s", SMOOTH_S, "s", at_least=False, worst=True
        ),
        *(
            Target(f"{what}, over {THEIRS}", f"{OURS}{of}", 1.0, "", at_least=False, over=f"{THEIRS}{of}")
            for what, of in (
                (first, ": cold_s"),
                (f"{first}{WITHOUT}", f"{WITHOUT}: cold_s"),
                (f"{news}{WITHOUT}", f"{WITHOUT}: news_s"),
            )
        ),
    ]


BENCHMARK: Final = Benchmark(
    "view",
    cells,
    work,
    [Quantity(key, "s") for key in ("start_s", "cold_s", "first_s", "news_s", "worst_s", "held_s", "given_up_s")],
    _targets(),
    note="Until a server that is started names its link, for which it has read the study, or, if it is theirs, answers "
    "(start_s); from there until its page in Chromium shows what the study has (cold_s), and loaded anew (first_s); a "
    "report or result that is written then, until the page shows it (news_s is the median of a run, worst_s the "
    "longest), and the longest time for which it did not answer its user meanwhile (held_s; less than 50 ms counts as "
    "nothing). The other page is there when its first figure has all trials, though others may not be drawn; where it "
    f"does not come to it in {LIMIT_S:g} s, it is given up (given_up_s).",
    numbers={"trials": (10_000, "trials of the study")},
)

if __name__ == "__main__":
    BENCHMARK.main()
