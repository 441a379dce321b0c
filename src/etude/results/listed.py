"""The studies that there are, with what came of each in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from etude.core.errors import EtudeError
from etude.results.finding import find, studies_in
from etude.results.reading import read
from etude.results.search import Search, TrialResult
from etude.results.summary import is_prepared
from etude.store.fetch import is_url, split, studies_at

BEST: Final = 5
"""Trials that are named where one metric ranks them."""


def listed(where: str) -> list[dict[str, Any]]:
    """Return a row for each study in a folder, or of which there is a mirror at a URL.

    Args:
        where: The folder, which may be a study itself, or the URL.
    """
    if is_url(where):  # of a study, its journal alone is brought
        return [{**row(mirror, split(mirror)[1]), "mirror": mirror} for mirror in studies_at(where)]
    return [row(path, path.name) for path in studies_in(Path(where))]


def row(study: Path | str, name: str) -> dict[str, Any]:
    """Return what a list says of a study: one that cannot be read must not hide the others."""
    told: dict[str, Any] = {"study": name, "standing": "", "trials": None, "metrics": {}, "best": None}
    try:
        search = read(find(study, logs=False))
    except EtudeError as error:
        return {**told, "standing": f"unreadable: {error}"}
    told |= {
        "standing": standing(search),
        "trials": sum(search.counts().values()),
        "metrics": modes(search),
        **({"simulated": True} if search.simulated else {}),
    }
    if len(search.metrics.names) > 1:
        return {**told, "front": [trial.number for trial in search.front]}
    return {**told, "best": next((trial.value for trial in winners(search)[:1]), None)}


def standing(search: Search) -> str:
    """Say whether a study is at work, complete, being prepared, or none of them."""
    if search.driver is not None:
        return "at work"
    if is_prepared(search.meta):
        return "being prepared"
    return "complete" if search.complete else "not complete"


def modes(search: Search) -> Mapping[str, str]:
    """Return the metrics of a study; none while nobody has named them."""
    return {} if is_prepared(search.meta) else dict(search.metrics.modes)


def winners(search: Search) -> list[TrialResult]:
    """Return the best trials; an ablation looks for none."""
    if search.verb == "ablate":
        return []
    return search.top(BEST) if len(search.metrics.names) == 1 else search.front
