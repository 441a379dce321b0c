"""What a verb was called with, as far as it says how a study is run and not what it is to find out: checked."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from etude.core.errors import ConfigError
from etude.core.events import USUAL, Keep
from etude.core.keeping import read_keep
from etude.core.numbers import is_finite, is_number, whole
from etude.core.ranks import Parallel, read_parallel
from etude.core.resources import Machine, Resources
from etude.core.room import how_many_fit, mend, why_not
from etude.core.spending import NO_CEILING, Ceiling, check_priced
from etude.core.text import brief
from etude.engines.named import read_engine
from etude.engines.simulated import Simulated
from etude.worker.processes import available_cores
from etude.worker.together import check_backend

if TYPE_CHECKING:
    from etude.system.asked import System

ON_OOM: Final = ("retry", "retry_alone")
"""What may become of a trial that ran out of memory."""

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Call:
    """How a study is to be run. All of it may change from one run of a study to the next, but for the name.

    Of a simulated study nothing may: how it is run is what it is to find out, and ``parts`` says so.

    Attributes:
        workers: How many trials run at a time, at most.
        least_workers: How many workers have to be there before the first trial is handed out.
        resources: What each trial needs; None if that is not said.
        gpus: The ids of the GPUs that workers of this machine share.
        note: What users should be told of all this.
        name: The study's name; None if it is to be named by its definition.
        retries: How often a trial is run again whose process was killed or lost.
        asked_workers: What the call says of workers, as plain data; None if nothing.
        on_oom: What becomes of a trial that ran out of memory: one of ``ON_OOM``, or None if the call does not say.
        timeout_s: Seconds after which a trial is ended; None for no limit.
        grace_s: Seconds that a trial has to see a stop.
        reuse_child: Whether one process runs trial after trial.
        ceiling: What the study may take in all.
        mirror: Where copies of studies are kept; None for none.
        keep: Whose weights are kept.
        states: Where trials save their states; None for the study's folder, or where they are.
        engine: What starts the workers, or says how they would be.
        engine_text: How it was given, if that was as text; else its kind.
        parallel: How several ranks train each trial; None if it is one. What needs so much, then, is a rank.
        system: How machines are tuned while trials run; None if they are left alone.
    """

    workers: int
    least_workers: int = 1
    resources: Resources | None = None
    gpus: tuple[str, ...] = ()
    note: str = ""
    name: str | None = None
    retries: int = 2
    asked_workers: int | list[int | None] | None = None
    on_oom: str | None = None
    timeout_s: float | None = None
    grace_s: float = 10.0
    reuse_child: bool = False
    ceiling: Ceiling = NO_CEILING
    mirror: str | None = None
    keep: Keep = USUAL
    states: str | None = None
    engine: Any = None
    engine_text: str = "local"
    parallel: Parallel | None = None
    system: System | None = None

    @classmethod
    def read(
        cls,
        *,
        workers: int | tuple[int, int | None] | None,
        resources: Resources | str | None = None,
        name: str | None,
        retries: int,
        timeout_s: float | None,
        grace_s: float,
        reuse_child: bool,
        deadline_s: float | None = None,
        max_failures: int | None = None,
        max_cost: float | None = None,
        price_per_hour: float | None = None,
        mirror: str | os.PathLike[str] | None = None,
        states: str | os.PathLike[str] | None = None,
        engine: object = None,
        on_oom: str | None = None,
        keep: Keep | int | str | None = None,
        trials: int | None = None,
        ranks: int = 1,
        parallel: object = "ddp",
        batch: str = "global",
        system: object = None,
    ) -> Call:
        """Read what a verb was given.

        With ``trials``, the number that there will be, no more run at a time unless the call says so: few trials get
        more threads each.

        Raises:
            ConfigError: Something of it cannot be.
        """
        for what, given in (("timeout_s", timeout_s), ("grace_s", grace_s), ("deadline_s", deadline_s)):
            if isinstance(given, int) and not is_finite(given):
                raise ConfigError(f"{what}={brief(given)} is more than any clock can count. Pass fewer seconds.")
        if timeout_s is not None and not (is_number(timeout_s) and timeout_s > 0):
            raise ConfigError(f"timeout_s={timeout_s!r} leaves no time. Pass seconds above 0, or None for no limit.")
        if not (is_number(grace_s) and grace_s >= 0):
            raise ConfigError(f"grace_s={grace_s!r} is no time. Pass seconds; 0 ends a trial as soon as it is stopped.")
        if name is not None and (not isinstance(name, str) or not NAME.fullmatch(name)):
            raise ConfigError(
                f"name={name!r} cannot name a folder. Use letters, digits, '.', '_' and '-', and start with a "
                "letter or a digit."
            )
        if on_oom not in (None, *ON_OOM):
            raise ConfigError(f"on_oom={brief(on_oom)} is not known. Pass one of {', '.join(map(repr, ON_OOM))}.")
        engine, engine_text = read_engine(engine)
        mirror = mirror if mirror is not None or isinstance(engine, Simulated) else os.environ.get("ETUDE_MIRROR")
        if mirror is not None and isinstance(engine, Simulated):
            raise ConfigError(
                f"mirror={brief(mirror)} was given for a simulated study, which is not mirrored: the same call gives "
                "it again on any machine. Leave mirror= out."
            )
        if states is not None and isinstance(engine, Simulated):
            raise ConfigError(
                f"states={brief(states)} was given for a simulated study, whose trials have none. Leave states= out."
            )
        needs = Resources.read(resources)
        together = _together(ranks, parallel, batch, engine, needs)
        machine = _machine_for(needs, engine) if needs is not None else None
        least, asked = _asked_for(workers, engine)
        usual = _usual(least, engine, trials, ranks)
        most, note = asked or usual, ""
        if needs is not None and machine is not None:
            most, note = _fitted(least, asked, usual, needs.counted, machine, ranks)
        return cls(
            workers=most,
            least_workers=least or 1,
            resources=needs,
            gpus=(machine.gpus or ()) if machine is not None else (),
            note=note,
            name=name,
            retries=whole("retries", retries, 0, "0 already runs every trial just once"),
            asked_workers=list(workers) if isinstance(workers, tuple | list) else workers,
            on_oom=on_oom,
            timeout_s=timeout_s,
            grace_s=grace_s,
            reuse_child=reuse_child,
            ceiling=_ceiling(deadline_s, max_failures, max_cost, price_per_hour),
            mirror=None if isinstance(engine, Simulated) else _place("mirror", mirror),
            states=_place("states", states),
            keep=read_keep(keep),
            engine=engine,
            engine_text=engine_text,
            parallel=together,
            system=_system(system, engine),
        )

    @property
    def ranks(self) -> int:
        """How many processes train one trial."""
        return self.parallel.ranks if self.parallel is not None else 1

    @property
    def counted(self) -> Resources | None:
        """What each trial needs, as far as it can be counted before any has run."""
        return self.resources.counted if self.resources is not None else None

    @property
    def retry_alone(self) -> bool:
        """Whether a trial that ran out of memory is run again with no other on its machine."""
        return self.on_oom == "retry_alone" or (self.on_oom is None and self.packs)

    @property
    def packs(self) -> bool:
        """Whether the memory of trials is learned, and machines are packed by it."""
        return self.resources is not None and self.resources.packs

    @property
    def parts(self) -> Mapping[str, str]:
        """What of it changes what comes of a study, as text: of a simulated one all.

        Of a real one only knobs that change what is trained.
        """
        if not isinstance(self.engine, Simulated):
            changes = self.system.changes_training if self.system is not None else ()
            return {"system": ", ".join(changes)} if changes else {}
        ceiling = msgspec.structs.asdict(self.ceiling)
        return {
            "engine workers": str(self.workers),  # unless the engine has a schedule
            **self.engine.parts,
            "retries": str(self.retries),
            "timeout_s": _as_float(self.timeout_s),
            "grace_s": _as_float(self.grace_s),
            **{name: _as_float(limit) for name, limit in ceiling.items() if limit is not None},
        }

    @property
    def threads(self) -> int:
        """How many threads each process may use: as many as it needs cores, or else the cores, shared evenly."""
        said = self.resources.threads if self.resources is not None else None
        return said or max(1, available_cores() // (self.workers * self.ranks))


def _system(given: object, engine: object) -> System | None:
    """Return how machines are tuned; what reads it is loaded only where somebody asks for it."""
    if given is None or given is False:
        return None
    from etude.system.asked import read_system

    if isinstance(engine, Simulated):
        raise ConfigError(
            f"system={brief(given)} was given for a simulated study, whose trials run on no machine. Leave system= out."
        )
    return read_system(given)


def _ceiling(
    deadline_s: float | None, max_failures: int | None, max_cost: float | None, price_per_hour: float | None
) -> Ceiling:
    if deadline_s is not None and not is_number(deadline_s):
        raise ConfigError(f"deadline_s={brief(deadline_s)} is no number. Pass seconds, as in 3600 for an hour.")
    if deadline_s is not None and not _is_positive(deadline_s):
        raise ConfigError(
            f"deadline_s={deadline_s!r} leaves the study no time. Pass the seconds that it may be worked on in all, "
            "or None for no limit."
        )
    for name, value, what in (
        ("max_cost", max_cost, "what the workers may cost in all"),
        ("price_per_hour", price_per_hour, "what an hour of one worker costs"),
    ):
        if value is not None and not _is_positive(value):
            raise ConfigError(f"{name}={value!r} is no sum of money above 0. Pass {what}, or leave it out.")
    check_priced(max_cost, price_per_hour)
    if price_per_hour is not None and max_cost is None:
        raise ConfigError(
            f"price_per_hour={price_per_hour!r} was given without a limit, so it would change nothing. Pass "
            "max_cost=<what the workers may cost in all> as well, or leave it out."
        )
    if max_failures is not None:
        max_failures = whole("max_failures", max_failures, 0, "0 already ends the study with the first failed trial")
    return Ceiling(deadline_s, max_failures, max_cost, price_per_hour)


def _place(name: str, given: str | os.PathLike[str] | None) -> str | None:
    """Return where something goes, as a URL or a whole path; None if that is not said."""
    if given is not None and not isinstance(given, str | os.PathLike):
        raise ConfigError(
            f"{name}={brief(given)} is no place. Pass a URL that fsspec understands, such as s3://bucket/studies, or a "
            "folder."
        )
    place = os.fspath(given) if given is not None else ""
    if not place:
        return None
    return place.rstrip("/") if "://" in place else os.path.abspath(place)


def _as_float(value: float | None) -> str:
    """Return a limit as text: 5 and 5.0 are the same."""
    return "none" if value is None else repr(float(value)).removesuffix(".0")


def _is_positive(value: object) -> bool:
    return is_finite(value) and value > 0  # type: ignore[operator]


def _asked_for(workers: int | tuple[int, int | None] | None, engine: object) -> tuple[int | None, int | None]:
    """Return how many workers there are to be, at least and at most, as far as the call says it, or the engine."""
    own: int | None = getattr(engine, "most_workers", None)
    least, most = _range(workers)
    if own is not None and (most not in (None, own) or (least or 0) > own):
        kind = type(engine).__name__
        raise ConfigError(
            f"workers={workers}, and engine={kind}(...) has {own} of its own. Say it once: leave workers= out."
        )
    return least, own or most


def _range(workers: int | tuple[int, int | None] | None) -> tuple[int | None, int | None]:
    """Return how many workers a call asks for, at least and at most; None where it does not say."""
    if workers is None:
        return None, None
    if not isinstance(workers, tuple | list):
        return None, whole("workers", workers, 1, "nobody would run the trials")
    if len(workers) == len(("least", "most")):
        least = whole("workers", workers[0], 1, "nobody would run the trials")
        if workers[1] is None:
            return least, None
        most = whole("workers", workers[1], 1, "nobody would run the trials")
        if least <= most:
            return least, most
    raise ConfigError(
        f"workers={workers!r} is no range. Pass a number, or (least, most), as in (2, 16); (2, None) leaves open how "
        "many may come."
    )


def _machine_for(needs: Resources, engine: Any) -> Machine | None:
    """Return the machine that all workers of an engine share; None if each finds room where it is."""
    if isinstance(engine, Simulated):
        raise ConfigError(
            f"resources='{needs}' was given for a simulated study, whose workers need nothing. Leave resources= out."
        )
    machine = getattr(engine, "machine", None)
    if not callable(machine):
        raise ConfigError(
            f"resources='{needs}' was given, and engine={type(engine).__name__}(...) does not say where its workers "
            "find them. Leave resources= out, or give the engine the method machine() (docs/extending.md)."
        )
    found: Machine | None = machine()
    return found


def _together(ranks: int, parallel: object, batch: str, engine: object, needs: Resources | None) -> Parallel | None:
    """Return how several ranks train each trial; None if it is one.

    Raises:
        ConfigError: They cannot.
    """
    read = read_parallel(ranks, parallel, batch)
    check_backend(ranks)
    if read is None:
        return None
    if isinstance(engine, Simulated):
        raise ConfigError(
            f"ranks={ranks} was given for a simulated study, whose trials nobody trains. Leave ranks= out."
        )
    if needs is not None and needs.packs:
        raise ConfigError(
            f"resources='{needs}' learns what memory trials need, and with ranks={ranks} one has several "
            "processes, perhaps on several machines. Say what each rank needs, as in resources='memory_gb=4'."
        )
    return read


def _fitted(
    least: int | None, asked: int | None, usual: int, needs: Resources, machine: Machine, ranks: int
) -> tuple[int, str]:
    """Return how many trials run at a time at most, which fit on a machine, and what should be said of that.

    Args:
        least: How many have to fit, if the call gave a range.
        asked: How many there are to be, at most; None for as many as fit.
        usual: How many there are if nothing else is said.
        needs: What each rank of one needs.
        machine: What there is.
        ranks: How many ranks each has.

    Raises:
        ConfigError: They do not fit.
    """
    fit = how_many_fit(needs, machine)
    fit = fit // ranks if fit is not None else None
    begin = least or asked or 1
    whole_range = f"workers=({least}, {asked})"
    told = f"{whole_range} begin with {begin} trials, which" if least is not None else ""
    if ranks > 1:
        told = f"ranks={ranks} for each of {told or f'workers={begin}'}" if begin > 1 else f"ranks={ranks}"
    if why := why_not(begin * ranks, needs, machine, asked=told):
        if not fit:
            why += " The ranks of one trial start together, so it could never start." if ranks > 1 else ""
            fewer = f"ranks={how_many_fit(needs, machine)}" if ranks > 1 else f"workers={fit}"
        else:
            fewer = f"workers=({fit}, {asked})" if least is not None else f"workers={fit}"
        raise ConfigError(f"{why} {mend(begin * ranks, needs, machine, fewer=fewer)}")
    if fit is None:
        return asked or usual, ""
    if asked is None:
        by_cores = needs.cpus is not None and machine.cores is not None
        return fit if by_cores else min(fit, usual), ""
    cut = why_not(asked * ranks, needs, machine, asked=whole_range)
    return min(fit, asked), f"{cut} So {fit} run at a time." if cut else ""


def _usual(least: int | None, engine: Any, trials: int | None, ranks: int = 1) -> int:
    """Return how many workers there are if the call does not say: no more than trials, which then have more threads."""
    usual: int = max(1, (getattr(engine, "usual_workers", None) or available_cores()) // ranks)
    if trials is not None and trials > 0:
        usual = min(usual, trials)
    return max(least or 1, usual)
