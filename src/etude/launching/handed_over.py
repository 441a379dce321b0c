"""Studies that were handed over to another one (``reuse=``), and which of their trials it may take.

Refused beforehand is a study that can give nothing. Of others those trials are taken that were run as a new one would
be: from random weights, to their end, with the same training seed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from etude.core.errors import ConfigError, StudyError
from etude.core.events import How, Params
from etude.core.history import History, Trial
from etude.core.lifecycle import State
from etude.core.reuse import Donor, Key, Reuse, is_of_its_own, key
from etude.core.signature import Definition
from etude.core.text import brief, count
from etude.definition import difference, read_code
from etude.results.finding import find
from etude.results.reading import history_in
from etude.results.search import Search
from etude.store import shared
from etude.store.journal import Journal


class Other(NamedTuple):
    """A study that was handed over.

    Attributes:
        name: Its name.
        address: What finds it again: its folder, whole, or the URL of its mirror.
        meta: What was recorded about it.
        history: What is known of it.
    """

    name: str
    address: str
    meta: Mapping[str, Any]
    history: History


def handed_over(given: object, *, apart_from: Path) -> list[Other]:
    """Return the studies that ``reuse=`` names, each once.

    Args:
        given: A search, a folder, a name, or a list of these; None for none.
        apart_from: The folder of the study that is to take from them. Inside a study equal trials are one anyway.

    Raises:
        ConfigError: It is none of these.
        NotAStudyError: There is no such study.
        JournalError: The journal of one is damaged or from a later version.
    """
    listed = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
    folders: dict[Path, None] = {}
    for one in listed:
        if not isinstance(one, Search | str | os.PathLike):
            raise ConfigError(
                f"reuse= got {brief(one)}, which is no study. Pass a search, a study's folder or name, or a list of "
                "these."
            )
        folders[(one.folder if isinstance(one, Search) else find(one, logs=False)).absolute()] = None
    return [_read(folder) for folder in folders if shared.home_of(folder).absolute() != apart_from]


def is_there(address: str) -> bool:
    """Say whether a study that was handed over can still be found there."""
    with contextlib.suppress(StudyError, ConfigError):
        _read(find(address, logs=False))
        return True
    return False


def reuse_of(
    others: Sequence[Other], experiment: Definition, *, seeds: Collection[int], for_arms: bool = False
) -> tuple[Reuse, list[str]]:
    """Return what studies give, the first of equals, with a sentence about each.

    Args:
        others: The studies.
        experiment: Whose functions are run.
        seeds: The training seeds of new trials.
        for_arms: Whether these are arms of an ablation. They are never taken from a study in which configurations were
            chosen: the best was partly chosen for being lucky.

    Raises:
        ConfigError: One of them can give nothing.
    """
    signature = experiment.signature

    def whole(params: Params) -> Params:
        return signature.stateful({**signature.defaults(), **params})

    code = read_code({role: one for role, one in experiment.functions.items() if ":" not in role})  # no variants
    parts = {**code.parts, **_packages(code.packages)}
    donors: dict[Key, Donor] = {}
    notes = []
    for other in others:
        _check_same(other, experiment, parts)
        if for_arms:
            _check_chose_nothing(other)
        trials = [trial for trial in _whole_runs(other.history) if for_arms or trial.is_plain]
        fitting = [trial for trial in trials if trial.seed in seeds]
        if not fitting:
            there = sorted({trial.seed for trial in trials})
            why = (
                f"Its trials were trained with seed {', '.join(map(str, there))}"
                if there
                else "None of them ran to its end"
            )
            ask = f"seeds={there}" if for_arms else f"seed={there[0]}" if there else ""
            mend = f"Pass {ask}, or leave it out of reuse=." if there else "Leave it out of reuse=."
            raise ConfigError(f"reuse= got study {other.name!r}, of which no trial can be taken. {why}. {mend}")
        for trial in fitting:
            assert trial.outcome is not None
            study, number = trial.taken_from or (other.name, trial.number)
            donors.setdefault(key(whole(trial.params), trial.seed, trial.arm), Donor(study, number, trial.outcome))
        told = f"{len(fitting)} of its {count(len(other.history.trials), 'trial')}"
        notes.append(f"Study {other.name} can give {told}, where this one comes to their configurations.")
    return Reuse(donors, whole), notes


def _read(folder: Path) -> Other:
    with contextlib.closing(Journal.read(folder)) as journal:
        meta = journal.meta()
        history = history_in(journal, meta)
    address = shared.address_of(folder)
    return Other(shared.home_of(folder).name, address if "://" in address else os.path.abspath(address), meta, history)


def _check_same(other: Other, experiment: Definition, parts: Mapping[str, str]) -> None:
    """Refuse a study that measured something else, or ran something else."""
    refused = f"reuse= got study {other.name!r}, of which no trial can be taken."
    if other.meta.get("simulated") is not None:
        raise ConfigError(f"{refused} It is simulated, and nothing was trained. Leave it out of reuse=.")
    if (other.meta.get("question") or {}).get("on") is not None:
        raise ConfigError(
            f"{refused} Its trials were trained on the training and the validation part as one. Leave it out of reuse=."
        )
    before, now = other.history.metrics, experiment.metrics
    if list(before.modes.items()) != list(now.modes.items()):
        raise ConfigError(f"{refused} It measured {before!r}, and this one measures {now!r}. Leave it out of reuse=.")
    known: Mapping[str, str] = other.meta.get("definition") or {}
    theirs = {name: known[name] for name in parts if name in known}  # of a constraint's code no number depends
    if changed := difference(theirs, parts):
        raise ConfigError(
            f"{refused} It ran another code:\n\n{changed}\n\nGo back to that code, or leave it out of reuse=."
        )


def _check_chose_nothing(other: Other) -> None:
    verb = (other.meta.get("question") or {}).get("verb", "tune")
    if verb != "ablate":
        raise ConfigError(
            f"reuse= got study {other.name!r}, which is no ablation: its trials may have taken part in choosing the "
            "configuration at=, and the best was partly chosen for being lucky. Leave it out of reuse=."
        )


def _packages(versions: Mapping[str, str]) -> dict[str, str]:
    """Return versions of packages under the names that a definition has for them."""
    return {f"package {name}": version for name, version in versions.items()}


def _whole_runs(history: History) -> Iterator[Trial]:
    """Return the trials that were run as one by itself would be, and to their end."""
    for trial in history.trials:
        outcome = trial.outcome
        plain = trial.same_as is None and is_of_its_own(trial)
        went_on = trial.promotes is not None and history.shelf.used  # perhaps not what it would be in one go
        ended_by_itself = outcome is not None and outcome.how is How.FINISHED  # its value is no mere last report
        if plain and not went_on and ended_by_itself and trial.state is State.FINISHED:
            yield trial
