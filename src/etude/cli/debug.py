"""One trial again, in this very process: ``etude debug``.

Breakpoints, prints and tracebacks work as in any Python, since nothing stands between the training function and the
terminal. Configuration, seed and threads are the trial's, so the numbers should be as well: they are compared with
those on record. The study is only read.
"""

from __future__ import annotations

import bdb
import contextlib
import math
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from etude.cli.place import find_script
from etude.cli.shell import AsJson, Code, open_study, print_json, print_table, standard_output_kept, trial_of
from etude.cli.studies import StudyName, TrialNumber
from etude.core.errors import ConfigError
from etude.frameworks import torch_adapter
from etude.store.provenance import newest_run, runs_of
from etude.worker.run import NoLine

if TYPE_CHECKING:
    from etude.core.metrics import Metrics
    from etude.experiment import Experiment
    from etude.results.search import Search, TrialResult

OURS: Final = str(Path(__file__).parent.parent)
RAN: Final = ("finished", "stopped", "invalid", "failed")
"""States of a trial that can be compared."""


@dataclass
class Came:
    """What came of a trial: of the one on record, or of the one that was run now.

    Attributes:
        state: How it ended; None if it has not.
        values: Its metrics by name, if it finished.
        curve: The watched metric at steps 1, 2, ...
        reason: Why it ended so, where there is something to say.
    """

    state: str | None = None
    values: dict[str, float] = field(default_factory=dict)
    curve: list[float] = field(default_factory=list)
    reason: str = ""


def debug(
    study: StudyName,
    trial: TrialNumber,
    *,
    pdb: Annotated[bool, typer.Option("--pdb", help="Open the debugger where an exception was raised.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a trial again in the foreground, as a debugger wants it.

    What comes of it is compared with what is on record. It runs in this very process, so breakpoints work. Nothing is
    written to the study.
    """
    search = open_study(study)
    if search.simulated:
        raise ConfigError(
            f"Study {search.name} is simulated: its trials were not run, so there is nothing to run again. What they "
            "reported came from its curves; call those to debug them."
        )
    recorded = trial_of(search, trial)
    there = f"search.trials[{trial}]"
    place, base = find_script(
        search.meta,
        search.folder.absolute(),
        command="debug",
        instead=f"Run the trial there: experiment.run(**{there}.params, seed={there}.seed).",
    )
    with contextlib.chdir(base), standard_output_kept(as_json):
        experiment = _load(place, search)
        params = ", ".join(f"{name}={value!r}" for name, value in recorded.params.items())
        _say(f"Trial {trial} of study {search.name}, seed {recorded.seed}: {params}")
        now = _run(experiment, search.metrics, recorded, pdb=pdb)
    _tell_and_leave(search, recorded, now, as_json=as_json)


# --- before it runs -------------------------------------------------------------------------------


def _load(place: str, search: Search) -> Experiment:
    """Return the study's experiment, with as many threads as its trials had."""
    from etude.files import scripts

    threads = _threads(search.meta)
    if threads is not None:
        from etude.worker.attempt import THREAD_VARIABLES

        os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))  # for libraries that are loaded from here on
    experiment, _ = scripts.load(place)
    if threads is not None:
        _limit_threads(threads)
    if changed := _difference(experiment, search.meta):
        _say(f"The definition has changed since the study began, so the numbers may differ:\n\n{changed}\n")
    return experiment


def _threads(meta: Mapping[str, Any]) -> int | None:
    """Return how many threads the study's trials had; of several runs the newest counts."""
    found = newest_run(meta).get("threads")
    others = {run.get("threads") for run in runs_of(meta)} - {found}
    if others:
        told = ", ".join(str(n) for n in sorted(n for n in others if n is not None))
        _say(
            f"Its runs did not have equally many threads, which can change numbers: {told}, and {found} in the newest."
        )
    return found if isinstance(found, int) else None


def _limit_threads(n: int) -> None:
    import threadpoolctl

    threadpoolctl.threadpool_limits(n)
    if torch := torch_adapter():
        torch.set_threads(n)


def _difference(experiment: Experiment, meta: Mapping[str, Any]) -> str:
    """Say how the code differs from that of the study; parts that only the search used are left aside."""
    from etude.definition import difference, read_code

    code = read_code(experiment.functions)
    now = {**code.parts, **{f"package {name}": version for name, version in code.packages.items()}}
    before: Mapping[str, str] = meta.get("definition", {})
    return difference({name: text for name, text in before.items() if name in now}, now)


# --- the trial ------------------------------------------------------------------------------------


class _Line(NoLine):
    """Keeps the reports, and halts where the study halted the trial."""

    def __init__(self, metric: str, halt_after: int | None) -> None:
        self.curve: list[float] = []
        self._metric = metric
        self._halt_after = halt_after
        self.halted = halt_after == 0

    def report(self, step: int, metrics: dict[str, float]) -> None:
        if self._metric in metrics:
            self.curve.append(metrics[self._metric])
            self.halted = self._halt_after is not None and step >= self._halt_after


def _run(experiment: Experiment, metrics: Metrics, recorded: TrialResult, *, pdb: bool) -> Came:
    """Run a trial here and return what came of it. An exception of the user's is shown, and debugged if wanted."""
    from etude.core.errors import Invalid
    from etude.worker.bind import Bound
    from etude.worker.result import read_result
    from etude.worker.run import Run, Stop, default_device
    from etude.worker.start import load_start

    experiment.signature.check(recorded.params)
    line = _Line(metrics.watched, len(recorded.curve) if recorded.halted else None)
    run = Run(
        metrics=metrics.names,
        watched=metrics.watched,
        params={**experiment.signature.defaults(), **recorded.params},
        seed=recorded.seed,
        trial=recorded.number,
        folder=_Folder(),
        device=default_device(),
        line=line,
        auto_report=experiment.auto_report,
    )
    came = Came("finished", curve=line.curve)
    returned: Any = None
    try:
        begins = recorded.begins_with
        start = partial(load_start, str(recorded.folder.parent.parent), begins) if begins is not None else None
        functions, arm = experiment.functions, recorded.goes_without
        returned = Bound(functions, experiment.signature, recorded.params, run, start, arm=arm).train()
        if not run.stop_seen:
            came.values = _by_name(
                metrics, *read_result(returned, metrics=metrics.names, reported=run.last, logged=run.logged)
            )
    except Stop:
        pass
    except (KeyboardInterrupt, bdb.BdbQuit):  # the user has left, be it at a breakpoint
        raise KeyboardInterrupt from None
    except Invalid as error:
        came.state, came.reason = "invalid", str(error)
    except BaseException as error:
        came.state, came.reason = "failed", f"{type(error).__name__}: {error}"
        _show(error, pdb=pdb)
    if run.stop_seen:  # as in a study: whatever was returned or raised afterwards
        came.state, came.reason = recorded.state, recorded.reason
        if recorded.state == "finished":
            came.values = {name: run.last[name] for name in metrics.names}
    return came


def _by_name(metrics: Metrics, value: float, extra: Mapping[str, Any]) -> dict[str, float]:
    return {metrics.main: value, **{name: extra[name] for name in metrics.names[1:]}}


class _Folder:
    """A folder for the trial's files that is none of the study's, made when it is first asked for."""

    def __init__(self) -> None:
        self._made: Path | None = None

    def __call__(self) -> Path:
        if self._made is None:
            self._made = Path(tempfile.mkdtemp(prefix="etude-debug-"))
            _say(f"run.folder is {self._made}, and stays there.")
        return self._made


def _show(error: BaseException, *, pdb: bool) -> None:
    """Print the traceback from where the user's code begins, and open the debugger there if wanted."""
    import traceback

    begins = _theirs(error.__traceback__)
    if begins is None:  # it is ours: what was returned is no result
        _say(str(error))
        return
    traceback.print_exception(type(error), error, begins)
    if pdb:
        from pdb import post_mortem

        try:
            post_mortem(begins)
        except bdb.BdbQuit:
            raise KeyboardInterrupt from None


def _theirs(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without our frames above the user's; None if all of it is ours."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(OURS + os.sep):
        trace = trace.tb_next
    return trace


# --- beside the record ----------------------------------------------------------------------------


def _tell_and_leave(search: Search, recorded: TrialResult, now: Came, *, as_json: bool) -> None:
    then = Came(recorded.state, recorded.values, recorded.curve, recorded.reason)
    shares = recorded.same_as is not None or recorded.reused_from is not None
    ran = recorded.state in RAN and (recorded.attempts > 0 or shares)
    step = _first_difference(then.curve, now.curve) if recorded.attempts > 0 else None
    agree = None
    if ran:
        same_values = all(_same(value, now.values.get(name)) for name, value in then.values.items())
        agree = now.state == then.state and same_values and step is None
    if as_json:
        told = {"state": then.state, "values": then.values, "reports": len(then.curve), "reason": then.reason}
        here = {"state": now.state, "values": now.values, "reports": len(now.curve), "reason": now.reason}
        print_json({"study": search.name, "trial": recorded.number, "recorded": told, "now": here, "agree": agree})
    else:
        rows = [("state", then.state or "", now.state or "")]
        rows += [(name, _exact(then.values.get(name)), _exact(now.values.get(name))) for name in search.metrics.names]
        rows.append(("reports", str(len(then.curve)), str(len(now.curve))))
        rows += [("reason", then.reason, now.reason)] if then.reason or now.reason else []
        print_table(["", "recorded", "now"], rows)
        print(_verdict(agree, step))
    if now.state == "failed" or agree is False:
        raise typer.Exit(Code.SOME_FAILED)


def _verdict(agree: bool | None, step: int | None) -> str:
    if agree is None:
        return "There is nothing on record to compare it with."
    if agree:
        return "They agree, to the last bit."
    if step is not None:
        return f"They do not agree: the reports differ from step {step} on."
    return "They do not agree."


def _first_difference(then: list[float], now: list[float]) -> int | None:
    """Return the first step at which two curves differ, or one of them ends; None if they are equal."""
    for i in range(max(len(then), len(now))):
        if i >= len(then) or i >= len(now) or not _same(then[i], now[i]):
            return i + 1
    return None


def _same(one: float, other: float | None) -> bool:
    return other is not None and (one == other or (math.isnan(one) and math.isnan(other)))


def _exact(value: float | None) -> str:
    return "" if value is None else repr(value)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
