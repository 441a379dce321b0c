"""From a checked call to a study at work: its name, its folder, what workers are told.

Everything that can be refused is refused here or before, while nothing has been started.
"""

from __future__ import annotations

import contextlib
import dataclasses
import filecmp
import functools
import hashlib
import os
import re
import secrets
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from etude.core.errors import ConfigError, DefinitionChangedError, StudyError
from etude.core.keeping import as_text
from etude.core.lifecycle import State
from etude.core.limits import Limits
from etude.core.ranks import FSDP, Parallel
from etude.core.reuse import NOTHING, Wanted, key
from etude.core.signature import Definition, reports_by_itself
from etude.core.system import Watched
from etude.definition import Code, difference, read_code, source_line, where_is
from etude.engines.local import DRIVER_ID, LocalEngine, sweep_after
from etude.engines.simulated import Simulated
from etude.launching.call import Call
from etude.launching.handed_over import handed_over, reuse_of
from etude.launching.progress import AtWork
from etude.launching.quota import check_quota
from etude.launching.shipping import packed
from etude.places.url_depot import try_out
from etude.results.finding import studies_folder
from etude.results.reading import history_of
from etude.results.search import Search
from etude.results.summary import is_prepared
from etude.store import provenance, shared
from etude.store.fetch import split
from etude.store.journal import FILE, Journal
from etude.store.mirror import Mirror
from etude.store.mirror_place import open_mirror
from etude.store.remote import Remote
from etude.studies.curve_source import curve_source
from etude.studies.simulation import Rehearsal, Simulation
from etude.studies.study import Recipe, Study
from etude.tune.flat import boundaries
from etude.tune.question import Question
from etude.wire.messages import Serve
from etude.wire.search_path import search_path
from etude.worker import script_logging

DIGITS: Final = 8
"""So many digits of its digest are in the name of a study that is named by its definition."""

OF_RANKS: Final = ("etude.frameworks.torch_together", "etude.frameworks.state_file")
OF_SHARDED_RANKS: Final = (
    *OF_RANKS,
    *("etude.frameworks.torch_fsdp", "etude.frameworks.torch_fsdp_states", "etude.frameworks.shards"),
)
"""What each rank would import anew, and loads in a warm worker once for all studies."""


class Launch:
    """A study that can be started.

    Args:
        experiment: Whose functions are run.
        question: What the study is to find out.
        call: How it is to be run.
        result: What shows what comes of it.
        reuse: Other studies whose trials are taken where they are the same: as ``tune`` got it.

    Raises:
        ConfigError: A study that was handed over can give nothing.
    """

    def __init__(
        self,
        experiment: Definition,
        question: Question,
        call: Call,
        *,
        result: type[Search] = Search,
        reuse: object = None,
    ) -> None:
        self._experiment = experiment
        self._result = result
        self._question = question
        self._call = call
        simulated = call.engine if isinstance(call.engine, Simulated) else None
        own = simulated.functions if simulated is not None else {}
        self._code = read_code({**experiment.functions, **question.functions, **own})
        self._parts = {
            **self._code.parts,
            **{f"package {name}": version for name, version in self._code.packages.items()},
            **question.parts,
            **call.parts,
            **({"ranks": call.parallel.identity} if call.parallel is not None else {}),
            **({} if reports_by_itself(experiment) else {"auto_report": "False"}),
            **({"trials": str(question.trials)} if simulated is not None else {}),
        }
        self._check_system()
        self._states = ""
        """The URL where states of the study lie; empty for its folder."""
        self._notes = [call.note] if call.note else []  # what users should be told first
        self._name = call.name if call.name is not None else self._named()

        self._reuse, self._reused = NOTHING, []
        if others := handed_over(reuse, apart_from=(studies_folder() / self._name).absolute()):
            if simulated is not None:
                raise ConfigError(
                    "reuse= was given for a simulated study, whose trials are what its curves say. Leave reuse= out."
                )
            self._reused = [other.address for other in others]
            self._reuse, notes = reuse_of(
                others, experiment, seeds=question.seeds or (question.seed,), for_arms=bool(question.seeds)
            )
            self._notes += notes

    def _check_system(self) -> None:
        """See to it that what is to be tuned can be on this machine, where trials run here."""
        system = self._call.system
        if system is None:
            return
        system.check_metric(self._question.metrics.main)
        if isinstance(self._call.engine, LocalEngine):
            from etude.worker.machine import gpus, tunable

            seen = self._call.gpus if self._call.resources is not None else gpus()
            framework = next((name for name in ("torch", "keras") if name in self._code.packages), "")
            system.check(tunable(self._call.threads, seen), framework)
            system.told_of_energy(self._call.gpus)

    def _named(self) -> str:
        return _name(self._experiment, self._code, self._parts, verb=self._question.meta.get("verb", ""))

    def known_already(self, trials: Iterable[Wanted]) -> int:
        """Return how many of these trials would not be run: they have finished in its folder, or are handed over."""
        folder = (studies_folder() / self._name).absolute()
        there = history_of(folder).trials if (folder / FILE).exists() else []
        here = {key(trial.params, trial.seed, trial.arm) for trial in there if trial.state is State.FINISHED}
        whole, donors = self._reuse.whole, self._reuse.donors
        return sum(key(*one) in here or key(whole(one.params), one.seed, one.arm) in donors for one in trials)

    def finished_there(self) -> int:
        """Return how many trials have finished in its folder."""
        folder = (studies_folder() / self._name).absolute()
        return len(history_of(folder).finished) if (folder / FILE).exists() else 0

    def start(self) -> LiveStudy:
        """Open or make the study's folder, and start working.

        Raises:
            StudyError: The folder cannot be used.
            ConfigError: The functions cannot be sent to workers.
        """
        engine = self._call.engine
        limits = Limits(
            workers=self._call.workers,
            retries=self._call.retries,
            retry_alone=self._call.retry_alone,
            ceiling=self._call.ceiling,
            larger="is another study" if isinstance(engine, Simulated) else "goes on",
        )
        home = (studies_folder() / self._name).absolute()
        if isinstance(engine, Simulated):
            return self._simulated(home, engine, limits)
        check_quota(self._experiment, self._question, self._call.keep)
        content = packed(self._experiment.functions)
        if prepare := getattr(engine, "prepare", None):
            self._prepare(prepare)
        try:
            return self._live(content, home, limits)
        except BaseException:
            if prepare is not None:
                engine.stop()  # what it prepared is of no use any more
            raise

    def _prepare(self, prepare: Callable[..., None]) -> None:
        """Have an engine reach its cluster; it is told what the call says, and nothing that the call does not say."""
        needs, least = self._call.counted, self._call.least_workers * self._call.ranks
        prepare(
            self._call.workers * self._call.ranks,
            *([needs] if needs is not None or least > 1 else []),
            **({"least": least} if least > 1 else {}),
            **({"ranks": self._call.ranks} if self._call.ranks > 1 else {}),
        )

    def _live(self, content: bytes, home: Path, limits: Limits) -> LiveStudy:
        folder = home
        place = self._call.mirror
        remotes = [open_mirror(place, self._name, folder=home)] if place is not None else []
        if kind := shared.kind_of_shared(home):
            folder = shared.to_work_on(home)
            self._notes.append(
                f"{home} is on a network file system ({kind}), where SQLite is not safe: the journal is kept in "
                f"{folder} and mirrored there."
            )
        mirrors = [Mirror(folder, remote) for remote in remotes]
        mirrors += [Mirror(folder, Remote(str(home)), files=False)] if folder != home else []
        self._states = self._where_states_lie(folder)
        is_new = folder == home and not folder.exists()
        journal = self._open(folder)
        for place in ("spool", "trials"):
            (folder / place).mkdir(exist_ok=True)
        try:
            for (trial, name), source in self._question.files.items():
                _place(source, folder / "trials" / f"{trial:05d}" / name)
        except OSError as error:
            journal.close()
            if is_new:
                shutil.rmtree(folder, ignore_errors=True)
            raise StudyError(f"The weights to begin with cannot be written to {folder}: {error.strerror}.") from error
        recipe = Recipe(
            question=self._question,
            engine=self._call.engine,
            workers=self._call.workers,
            least_workers=self._call.least_workers,
            gpus=self._call.gpus,
            serve=self._serve(content, folder),
            packs=self._call.packs,
            limits=limits,
            keep=self._call.keep,
            provenance=self._provenance,
            mirrors=tuple(mirrors),
            reuse=self._reuse,
            system=self._call.system,
            workload=self._code.digest,
        )
        study = Study(journal, recipe, driver_id=DRIVER_ID, sweep=sweep_after)
        try:
            study.start(self._notes)
        except StudyError:
            if is_new:  # refused before anything was written: no study of nothing stays behind
                shutil.rmtree(folder, ignore_errors=True)
            raise
        return LiveStudy(study, experiment=self._experiment, result=self._result)

    def _simulated(self, folder: Path, engine: Simulated, limits: Limits) -> LiveStudy:
        defaults = self._experiment.signature.defaults()
        source, notes = curve_source(engine.curves, self._question, defaults)
        if place := os.environ.get("ETUDE_MIRROR"):
            notes.append(f"ETUDE_MIRROR={place} was left aside: a simulated study is not mirrored.")
        self._notes += notes
        rehearsal = Rehearsal(
            question=self._question,
            engine=engine,
            source=source,
            workers=self._call.workers,
            defaults=defaults,
            limits=limits,
            timeout_s=self._call.timeout_s,
            grace_s=self._call.grace_s,
            provenance=lambda: {"call": self._called(), **_circumstances()},
        )
        journal = self._open(folder)
        simulation = Simulation(journal, rehearsal, driver_id=DRIVER_ID)
        simulation.start(self._notes)
        return LiveStudy(simulation, result=self._result)

    def _serve(self, content: bytes, folder: Path) -> Serve:
        metrics = self._question.metrics
        return Serve(
            study=uuid.uuid4().hex,
            functions=content,
            preload=self._preload(),
            path=search_path(),
            cwd=os.getcwd(),
            metrics=metrics.names,
            watched=metrics.watched,
            spool=str(folder / "spool"),
            trials=str(folder / "trials"),
            states=self._states,
            threads=self._call.threads,
            timeout_s=self._call.timeout_s,
            grace_s=self._call.grace_s,
            reuse_child=self._call.reuse_child,
            files=dict(self._code.files),
            logging=script_logging.as_set_up(),
            resources=self._call.resources,
            named=self._named_epochs(),
            joins=self._question.joins,
            parallel=self._call.parallel,
            system=self._watched(),
            auto_report=reports_by_itself(self._experiment),
        )

    def _watched(self) -> Watched | None:
        """Return how machines are tuned; where runs are compared, no knob is that changes numbers by rounding."""
        system = self._call.system
        return system.watched(rounding=not self._question.seeds) if system is not None else None

    def _preload(self) -> tuple[str, ...]:
        """Return what warm workers import ahead: what the functions name, and what of ours their ranks need.

        Who brings torch where no function names it would hide that there are no gradients to average.
        """
        parallel = self._call.parallel
        if parallel is None or "torch" not in self._code.packages:
            return self._code.preload
        ours = OF_SHARDED_RANKS if isinstance(parallel.how, FSDP) else OF_RANKS
        return (*self._code.preload, *ours)

    def _named_epochs(self) -> tuple[int, ...]:
        """Return the epochs whose states do not give way to newer ones: asked for by number, or where ways may part."""
        asked = {name for name in self._call.keep.epochs if isinstance(name, int)}
        space = self._question.space
        parting = boundaries(space) if space is not None else ()
        return tuple(sorted(asked.union(parting)))

    # --- the folder -------------------------------------------------------------------------------

    def _open(self, folder: Path) -> Journal:
        if not (folder / FILE).exists():
            self._say_if_edited(folder)
            self._notes += self._question.notes
            return Journal.create(folder, self._meta())
        journal = Journal.write(folder)
        try:
            meta = journal.meta()
            is_new = is_prepared(meta)
            if not is_new and (changed := difference(meta.get("definition", {}), self._parts)):
                raise DefinitionChangedError(
                    f"The study {self._name!r} began with another definition:\n\n{changed}\n\n"
                    "Trials of both would not compare. Give this one another name (name=...), or go back to the "
                    f"definition above; or move {folder} away to start over."
                )
        except BaseException:
            journal.close()
            raise
        if is_new:
            journal.close()
            return self._begin_prepared(folder)
        if (said := self._question.restated(meta.get("question") or {})) is not None:
            journal.close()
            self._notes.append(said.note)
            return self._recorded(folder, {"question": dict(said.meta)})
        return journal

    def _begin_prepared(self, folder: Path) -> Journal:
        """Open a journal that has no trials yet, since only its variants were written: the study begins now.

        Raises:
            StudyInUseError: Somebody writes variants still.
        """
        self._notes += self._question.notes
        return self._recorded(folder, self._meta())

    def _recorded(self, folder: Path, told: Mapping[str, Any]) -> Journal:
        """Write down what is told of a study, and open its journal anew.

        Raises:
            StudyInUseError: Somebody else works on it.
        """
        with contextlib.closing(Journal.write(folder)) as journal:  # the study takes the lease by itself
            journal.take(DRIVER_ID)
            try:
                for key, value in told.items():
                    journal.record(key, value)
            finally:
                journal.lease.release()
        return Journal.write(folder)

    def _where_states_lie(self, folder: Path) -> str:
        """Return the URL where states of the study lie, now that they can; empty for its folder.

        Raises:
            ConfigError: They cannot, or they are elsewhere since it began.
        """
        asked = self._call.states
        if (folder / FILE).exists() and not is_prepared(meta := _meta_of(folder)):
            url: str = meta.get("states") or ""
            before = split(url)[0] if url else ""
            if asked is not None and asked != before:
                raise ConfigError(
                    f"states={asked!r} is not where the study {self._name!r} keeps its states: that is "
                    f"{before or 'its folder'}, since it began. Leave states= out, or give this study another name."
                )
        else:  # studies of one name on several machines must not have one place
            url = f"{asked}/{self._name}-{secrets.token_hex(4)}" if asked is not None else ""
        if url:
            try_out(url, given=asked or split(url)[0])
        return url

    def _say_if_edited(self, folder: Path) -> None:
        """Tell in one line that an edit starts a new study."""
        if self._call.name is not None:
            return
        base = self._name.rpartition("-")[0]
        others = sorted(folder.parent.glob(f"{base}-{'[0-9a-f]' * DIGITS}/{FILE}"), key=lambda p: p.stat().st_mtime)
        if others and not self._asks_anew(others[-1].parent):
            self._notes.append(
                f"The definition is not that of {others[-1].parent.name}: this is a new study, {self._name}."
            )

    def _asks_anew(self, folder: Path) -> bool:
        """Whether another study of the same kind has the same functions, and asked something else of them."""
        if not self._question.meta.get("verb"):  # of a search, what it asks is part of the definition
            return False
        before = _meta_of(folder).get("definition", {})
        both = [name for name in self._code.parts if name in before]
        return bool(both) and all(before[name] == self._code.parts[name] for name in both)

    # --- what is written down ---------------------------------------------------------------------

    def _meta(self) -> dict[str, Any]:
        metrics = self._question.metrics
        return {
            "name": self._name,
            "metrics": dict(metrics.modes),
            "watched": metrics.watched,
            "fidelity": dataclasses.asdict(metrics.fidelity) if metrics.fidelity is not None else None,
            "definition": self._parts,
            "code": self._code.digest,
            "unseen": list(self._code.unseen),
            "experiment": where_is(self._experiment),
            "cwd": os.path.relpath(os.getcwd(), studies_folder() / self._name),
            "question": dict(self._question.meta),
            "reference": getattr(self._experiment, "reference", None),
            "states": self._states or None,
            "call": self._called(),
            **({"simulated": dict(self._call.engine.meta)} if isinstance(self._call.engine, Simulated) else {}),
        }

    def _called(self) -> dict[str, Any]:
        call = self._call
        return {
            **{name: value for name, value in self._question.meta.items() if name != "space"},
            "constraint": self._constraint(),
            "name": self._name,
            "workers": call.asked_workers,
            "at_a_time": call.workers,
            **(_ranks(call.parallel) if call.parallel is not None else {}),
            "resources": str(call.resources) if call.resources is not None else None,
            "retries": call.retries,
            "on_oom": call.on_oom,
            "timeout_s": call.timeout_s,
            "grace_s": call.grace_s,
            "reuse_child": call.reuse_child,
            **msgspec.structs.asdict(call.ceiling),
            "mirror": call.mirror,
            "keep": as_text(call.keep),
            "states": call.states,
            "engine": call.engine_text,
            **({"system": call.system.as_call} if call.system is not None else {}),
            **({"reuse": self._reused} if self._reused else {}),
        }

    def _constraint(self) -> str | bool:
        """Say where the constraint is, if it is beside the experiment; else whether there is one."""
        function = self._question.functions.get("constraint")
        if function is None:
            return False
        place, home = where_is(function), where_is(self._experiment)
        beside = place is not None and home is not None and place.rpartition(":")[0] == home.rpartition(":")[0]
        return place if beside and place is not None else True

    def _provenance(self) -> Mapping[str, Any]:
        return {"call": self._called(), "threads": self._call.threads, **provenance.collect()}


def _meta_of(folder: Path) -> Mapping[str, Any]:
    with contextlib.closing(Journal.read(folder)) as journal:
        return journal.meta()


def _ranks(parallel: Parallel) -> dict[str, Any]:
    """Return how several ranks train each trial, as a call says it."""
    return {"ranks": parallel.ranks, "batch": parallel.batch, "parallel": msgspec.to_builtins(parallel.how)}


def _place(source: Path, place: Path) -> None:
    """Have a file at a place, whole or not at all; what is there already stays if it is the same."""
    if place.exists() and filecmp.cmp(source, place, shallow=False):
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        shutil.copyfile(source, aside)
        aside.rename(place)
    finally:
        aside.unlink(missing_ok=True)


@functools.cache
def _circumstances() -> Mapping[str, Any]:
    """Return what is recorded about this process: once, since simulations may be many and take less time than this."""
    return provenance.collect()


def _name(experiment: Definition, code: Code, parts: Mapping[str, str], *, verb: str) -> str:
    """Return a name that is another one for every other definition; it has the verb in it, but for a search."""
    said = "\x1e".join(f"{k}\x1f{v}" for k, v in sorted(parts.items()) if k not in code.parts)
    digest = hashlib.sha256((said + code.digest).encode()).hexdigest()[:DIGITS]
    source = source_line(experiment.functions["train"])
    stem = Path(source[0]).stem if source is not None and source[0].endswith(".py") else ""
    train = getattr(experiment.functions["train"], "__name__", "experiment")
    base = re.sub(r"[^A-Za-z0-9._-]+", "", stem or train).lstrip("._-") or "experiment"
    return f"{base}-{verb}-{digest}" if verb else f"{base}-{digest}"


class LiveStudy:
    """A study at work, to wait for.

    Args:
        study: The shell that does the work.
        experiment: Whose functions are run.

    Attributes:
        search: What comes of it.
    """

    def __init__(
        self,
        study: AtWork,
        *,
        experiment: Definition | None = None,
        result: type[Search] = Search,
    ) -> None:
        self._study = study
        self.search = result(study.folder, study.history, handle=self, experiment=experiment)

    @property
    def study(self) -> AtWork:
        """The shell that does the work."""
        return self._study

    @property
    def meta(self) -> Mapping[str, Any]:
        """What is recorded about it by now."""
        return self._study.meta

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._study.over

    @property
    def notes(self) -> list[str]:
        """What users should be told of this run."""
        return self._study.notes

    def stop(self) -> None:
        """Have it wind down, and wait until it has."""
        self._study.stop()
        self._study.wait()

    def wait(self, *, progress: bool | None = None) -> None:
        """Wait for the end, with progress shown; Ctrl-C winds the study down first."""
        from etude.launching.progress import watch

        watch(self._study, self.search, shown=progress)
        if self._study.error is not None:
            raise self._study.error
