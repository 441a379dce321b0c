"""From a checked call to a study at work: its name, its folder, what workers are told.

Everything that can be refused is refused here or before, while nothing has been started.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import pickle
import re
import sys
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from etude.core.driver import Limits
from etude.core.errors import ConfigError, DefinitionChangedError
from etude.core.signature import Definition, plain
from etude.core.text import brief
from etude.definition import Code, difference, read_code, source_line, where_is
from etude.engines.local import DRIVER_ID, LocalEngine, sweep_after
from etude.results import Search, studies_folder
from etude.store import provenance
from etude.store.journal import FILE, Journal
from etude.study import Recipe, Study
from etude.tune.constraint import Constraint
from etude.tune.plan import SearchPlan
from etude.tune.samplers import make_sampler
from etude.tune.sampling import SetUp
from etude.tune.spaces import Space
from etude.tune.stop import Stopper, make_stopper
from etude.tune.values import fits_64_bits
from etude.wire.messages import Serve
from etude.worker import script_logging

LARGE_B: Final = 16 * 2**20
TOO_LARGE_B: Final = 2**30
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Launch:
    """A search that can be started. Takes what ``Experiment.tune`` takes, and refuses what cannot be."""

    def __init__(
        self,
        experiment: Definition,
        space: Space,
        *,
        trials: int,
        workers: int | None,
        sampler: str,
        stopper: str | Stopper,
        seed: int,
        name: str | None,
        constraint: Callable[..., Any] | None,
        retries: int,
        timeout_s: float | None,
        grace_s: float,
        reuse_child: bool,
    ) -> None:
        self._experiment = experiment
        self._space = space
        self._trials = _whole("trials", trials, 1, "nothing would be run")
        cores = available_cores()
        self._workers = _whole("workers", cores if workers is None else workers, 1, "nobody would run the trials")
        self._seed = _whole("seed", seed, None, "")
        if not fits_64_bits(self._seed):
            raise ConfigError(f"seed={seed} does not fit into 64 bits. Pass a smaller one.")
        self._retries = _whole("retries", retries, 0, "0 already runs every trial just once")
        if timeout_s is not None and not (_is_number(timeout_s) and timeout_s > 0):
            raise ConfigError(f"timeout_s={timeout_s!r} leaves no time. Pass seconds above 0, or None for no limit.")
        if not (_is_number(grace_s) and grace_s >= 0):
            raise ConfigError(f"grace_s={grace_s!r} is no time. Pass seconds; 0 ends a trial as soon as it is stopped.")
        self._timeout_s = timeout_s
        self._grace_s = grace_s
        self._reuse_child = reuse_child
        self._threads = max(1, cores // self._workers)
        self._sampler = make_sampler(sampler, space, seed=self._seed)
        self._stopper = make_stopper(stopper, mode=experiment.mode)
        self._set_up = SetUp(sampler, space.to_dict(), self._seed)
        self._constraint = self._checked_constraint(constraint)
        functions = {**experiment.functions, **({"constraint": constraint} if constraint is not None else {})}
        self._code = read_code(functions)
        self._parts = self._definition(self._code, sampler, stopper)
        self._name = name if name is not None else self._name_of_definition()
        if not isinstance(self._name, str) or not NAME.fullmatch(self._name):
            raise ConfigError(
                f"name={name!r} cannot name a folder. Use letters, digits, '.', '_' and '-', and start with a "
                "letter or a digit."
            )
        self._named = name is not None

    def _checked_constraint(self, function: Callable[..., Any] | None) -> Constraint | None:
        if function is None:
            return None
        signature = self._experiment.signature
        known = {*signature.parameters, *self._space.names}
        constraint = Constraint(function, known=known, defaults=signature.defaults())
        constraint.try_on(self._space, seed=self._seed)
        return constraint

    def start(self) -> LiveStudy:
        """Open or make the study's folder, and start working.

        Raises:
            StudyError: The folder cannot be used.
            ConfigError: The functions cannot be sent to workers.
        """
        content = self._pickled()
        folder = (studies_folder() / self._name).absolute()
        journal = self._open(folder)
        for place in ("spool", "trials"):
            (folder / place).mkdir(exist_ok=True)
        serve = Serve(
            study=uuid.uuid4().hex,
            functions=content,
            preload=self._code.preload,
            path=tuple(str(Path(p).absolute()) if p else os.getcwd() for p in sys.path),
            cwd=os.getcwd(),
            metric=self._experiment.metric,
            spool=str(folder / "spool"),
            trials=str(folder / "trials"),
            threads=self._threads,
            timeout_s=self._timeout_s,
            grace_s=self._grace_s,
            reuse_child=self._reuse_child,
            files=dict(self._code.files),
            logging=script_logging.as_set_up(),
        )
        recipe = Recipe(
            plan=SearchPlan(self._trials, self._seed, self._stopper, self._space.size),
            metric=self._experiment.metric,
            mode=self._experiment.mode,
            engine=LocalEngine(),
            workers=self._workers,
            trials=self._trials,
            size=self._space.size,
            serve=serve,
            sampler=self._sampler,
            set_up=self._set_up,
            forbids=self._constraint.why_not if self._constraint is not None else lambda params: None,
            limits=Limits(workers=self._workers, retries=self._retries),
            provenance=self._provenance,
        )
        meta = journal.meta()  # before the driver's thread has the journal for itself
        study = Study(journal, recipe, driver_id=DRIVER_ID, sweep=sweep_after)
        study.start()
        return LiveStudy(study, mode=self._experiment.mode, meta=meta)

    # --- the definition ---------------------------------------------------------------------------

    def _definition(self, code: Code, sampler: str, stopper: str | Stopper) -> dict[str, str]:
        """Return everything that can change the study's numbers, as text that can be compared."""
        stateful = self._experiment.signature.stateful(self._space)
        return {
            **code.parts,
            **{f"package {name}": version for name, version in code.packages.items()},
            **{f"space {name}": repr(domain) for name, domain in stateful.items()},
            "space": ", ".join(self._space),
            "metric": f"{self._experiment.metric} ({self._experiment.mode})",
            "sampler": sampler,
            "stopper": stopper if isinstance(stopper, str) else type(stopper).__qualname__,
            "seed": str(self._seed),
        }

    def _name_of_definition(self) -> str:
        text = (
            "\x1e".join(f"{k}\x1f{v}" for k, v in sorted(self._parts.items()) if k not in self._code.parts)
            + self._code.digest
        )
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        source = source_line(self._experiment.functions["train"])
        stem = Path(source[0]).stem if source is not None and source[0].endswith(".py") else ""
        train = getattr(self._experiment.functions["train"], "__name__", "experiment")
        base = re.sub(r"[^A-Za-z0-9._-]+", "", stem or train).lstrip("._-") or "experiment"
        return f"{base}-{digest}"

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
        if self._named:
            return
        base = self._name.rpartition("-")[0]
        others = sorted(folder.parent.glob(f"{base}-*/{FILE}"), key=lambda p: p.stat().st_mtime)
        if others and os.environ.get("ETUDE_PROGRESS") != "0":
            before = others[-1].parent.name
            print(f"The definition is not that of {before}: this is a new study, {self._name}.", file=sys.stderr)  # noqa: T201

    def _meta(self) -> dict[str, Any]:
        return {
            "name": self._name,
            "metric": self._experiment.metric,
            "mode": self._experiment.mode,
            "definition": self._parts,
            "unseen": list(self._code.unseen),
            "experiment": where_is(self._experiment),
            "cwd": os.path.relpath(os.getcwd(), studies_folder() / self._name),
            "set_up": {"sampler": self._set_up.sampler, "space": self._set_up.space, "seed": self._seed},
            "call": self._call(),
        }

    def _call(self) -> dict[str, Any]:
        return {
            "trials": self._trials,
            "workers": self._workers,
            "sampler": self._set_up.sampler,
            "stopper": self._parts["stopper"],
            "seed": self._seed,
            "name": self._name,
            "retries": self._retries,
            "timeout_s": self._timeout_s,
            "grace_s": self._grace_s,
            "reuse_child": self._reuse_child,
            "constraint": self._constraint is not None,
        }

    def _provenance(self) -> Mapping[str, Any]:
        return {"call": self._call(), "threads": self._threads, **provenance.collect()}

    # --- functions --------------------------------------------------------------------------------

    def _pickled(self) -> bytes:
        import cloudpickle

        try:
            content: bytes = cloudpickle.dumps(self._experiment.functions)
        except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
            raise ConfigError(
                f"The functions cannot be sent to workers: {error}. They use something that exists in this process "
                "only, such as an open file, a lock or a connection. Make it inside data() or train()."
            ) from error
        if len(content) > LARGE_B:
            names = self._largest_globals()
            told = f"The functions weigh {len(content) / 2**20:.0f} MB with what they use; the largest: {names}."
            if len(content) > TOO_LARGE_B:
                raise ConfigError(f"{told} Every worker would hold a copy. Load it in data() instead.")
            print(f"{told} Loading it in data() starts workers faster.", file=sys.stderr)  # noqa: T201
        return content

    def _largest_globals(self) -> str:
        import cloudpickle

        sizes: dict[str, int] = {}
        for function in self._experiment.functions.values():
            code = getattr(function, "__code__", None)
            for name in code.co_names if code is not None else ():
                if name in function.__globals__ and not inspect.ismodule(function.__globals__[name]):
                    sizes[name] = len(cloudpickle.dumps(function.__globals__[name]))
        largest = sorted(sizes.items(), key=lambda item: -item[1])[:3]
        return ", ".join(f"{name} ({size / 2**20:.0f} MB)" for name, size in largest) or "closures"


class LiveStudy:
    """A study at work, to wait for.

    Args:
        study: The shell that does the work.
        mode: ``"max"`` or ``"min"``.
        meta: What the journal says about the study.

    Attributes:
        search: What comes of it.
    """

    def __init__(self, study: Study, *, mode: str, meta: Mapping[str, Any]) -> None:
        self._study = study
        self.search = Search(study.folder, study.history, mode=mode, handle=self, meta=meta)

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


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _whole(name: str, value: Any, least: int | None, why: str) -> int:
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name}={brief(value)} is no whole number. Pass one.")
    if least is not None and value < least:
        raise ConfigError(f"{name}={value} cannot be: {why}. Pass {name}={least} or more.")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
