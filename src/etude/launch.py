"""From a checked call to a study at work: its name, its folder, what workers are told.

Everything that can be refused is refused here or before, while nothing has been started.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etude.call import Call
from etude.core.driver import Limits
from etude.core.errors import DefinitionChangedError
from etude.core.signature import Definition
from etude.definition import Code, difference, read_code, source_line, where_is
from etude.engines.local import DRIVER_ID, LocalEngine, sweep_after
from etude.results import Search, studies_folder
from etude.shipping import packed
from etude.store import provenance
from etude.store.journal import FILE, Journal
from etude.study import Recipe, Study
from etude.tune.question import Question, search_path
from etude.wire.messages import Serve
from etude.worker import script_logging


class Launch:
    """A study that can be started.

    Args:
        experiment: Whose functions are run.
        question: What the study is to find out.
        call: How it is to be run.
    """

    def __init__(self, experiment: Definition, question: Question, call: Call) -> None:
        self._experiment = experiment
        self._question = question
        self._call = call
        self._code = read_code({**experiment.functions, **question.functions})
        self._parts = {
            **self._code.parts,
            **{f"package {name}": version for name, version in self._code.packages.items()},
            **question.parts,
        }
        self._name = call.name if call.name is not None else _name(experiment, self._code, self._parts)

    def start(self) -> LiveStudy:
        """Open or make the study's folder, and start working.

        Raises:
            StudyError: The folder cannot be used.
            ConfigError: The functions cannot be sent to workers.
        """
        content = packed(self._experiment.functions)
        folder = (studies_folder() / self._name).absolute()
        journal = self._open(folder)
        for place in ("spool", "trials"):
            (folder / place).mkdir(exist_ok=True)
        meta = journal.meta()  # before the driver's thread has the journal for itself
        recipe = Recipe(
            question=self._question,
            engine=LocalEngine(),
            workers=self._call.workers,
            serve=self._serve(content, folder),
            limits=Limits(workers=self._call.workers, retries=self._call.retries),
            provenance=self._provenance,
        )
        study = Study(journal, recipe, driver_id=DRIVER_ID, sweep=sweep_after)
        study.start()
        return LiveStudy(study, meta=meta)

    def _serve(self, content: bytes, folder: Path) -> Serve:
        metrics = self._question.metrics
        return Serve(
            study=uuid.uuid4().hex,
            functions=content,
            preload=self._code.preload,
            path=search_path(),
            cwd=os.getcwd(),
            metrics=metrics.names,
            watched=metrics.watched,
            spool=str(folder / "spool"),
            trials=str(folder / "trials"),
            threads=self._call.threads,
            timeout_s=self._call.timeout_s,
            grace_s=self._call.grace_s,
            reuse_child=self._call.reuse_child,
            files=dict(self._code.files),
            logging=script_logging.as_set_up(),
        )

    # --- the folder -------------------------------------------------------------------------------

    def _open(self, folder: Path) -> Journal:
        if not (folder / FILE).exists():
            self._say_if_edited(folder)
            return Journal.create(folder, self._meta())
        journal = Journal.write(folder)
        try:
            before = journal.meta().get("definition", {})
            changed = difference(before, self._parts)
            if changed:
                raise DefinitionChangedError(
                    f"The study {self._name!r} began with another definition:\n\n{changed}\n\n"
                    "Trials of both would not compare. Give this one another name (name=...), or go back to the "
                    f"definition above; or move {folder} away to start over."
                )
        except BaseException:
            journal.close()
            raise
        return journal

    def _say_if_edited(self, folder: Path) -> None:
        """Tell in one line that an edit starts a new study."""
        if self._call.name is not None:
            return
        base = self._name.rpartition("-")[0]
        others = sorted(folder.parent.glob(f"{base}-*/{FILE}"), key=lambda p: p.stat().st_mtime)
        if others and os.environ.get("ETUDE_PROGRESS") != "0":
            before = others[-1].parent.name
            print(f"The definition is not that of {before}: this is a new study, {self._name}.", file=sys.stderr)  # noqa: T201

    # --- what is written down ---------------------------------------------------------------------

    def _meta(self) -> dict[str, Any]:
        metrics = self._question.metrics
        return {
            "name": self._name,
            "metrics": dict(metrics.modes),
            "watched": metrics.watched,
            "fidelity": dataclasses.asdict(metrics.fidelity) if metrics.fidelity is not None else None,
            "definition": self._parts,
            "unseen": list(self._code.unseen),
            "experiment": where_is(self._experiment),
            "cwd": os.path.relpath(os.getcwd(), studies_folder() / self._name),
            "question": dict(self._question.meta),
            "call": self._called(),
        }

    def _called(self) -> dict[str, Any]:
        call = self._call
        return {
            **{name: value for name, value in self._question.meta.items() if name != "space"},
            "name": self._name,
            "workers": call.workers,
            "retries": call.retries,
            "timeout_s": call.timeout_s,
            "grace_s": call.grace_s,
            "reuse_child": call.reuse_child,
        }

    def _provenance(self) -> Mapping[str, Any]:
        return {"call": self._called(), "threads": self._call.threads, **provenance.collect()}


def _name(experiment: Definition, code: Code, parts: Mapping[str, str]) -> str:
    """Return a name that is another one for every other definition."""
    said = "\x1e".join(f"{k}\x1f{v}" for k, v in sorted(parts.items()) if k not in code.parts)
    digest = hashlib.sha256((said + code.digest).encode()).hexdigest()[:8]
    source = source_line(experiment.functions["train"])
    stem = Path(source[0]).stem if source is not None and source[0].endswith(".py") else ""
    train = getattr(experiment.functions["train"], "__name__", "experiment")
    base = re.sub(r"[^A-Za-z0-9._-]+", "", stem or train).lstrip("._-") or "experiment"
    return f"{base}-{digest}"


class LiveStudy:
    """A study at work, to wait for.

    Args:
        study: The shell that does the work.
        meta: What the journal says about the study.

    Attributes:
        search: What comes of it.
    """

    def __init__(self, study: Study, *, meta: Mapping[str, Any]) -> None:
        self._study = study
        self.search = Search(study.folder, study.history, handle=self, meta=meta)

    @property
    def study(self) -> Study:
        """The shell that does the work."""
        return self._study

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._study.over

    def stop(self) -> None:
        """Have it wind down, and wait until it has."""
        self._study.stop()
        self._study.wait()

    def wait(self, *, progress: bool | None = None) -> None:
        """Wait for the end, with progress shown; Ctrl-C winds the study down first."""
        from etude.progress import watch

        try:
            watch(self._study, self.search, shown=progress)
        except KeyboardInterrupt:
            self._study.stop("interrupted")
            self._study.wait()
            raise
        if self._study.error is not None:
            raise self._study.error
