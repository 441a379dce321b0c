"""How a study that has not come to its end goes on.

The same call always does it. ``etude resume`` does it from the journal and a file, so not where the study
takes something that neither of them holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

BY_NAME: Final = ("cluster", "local", "ray", "spark")
"""Engines that are given as text, with their options; what an object was given is in no journal.

They are those of ``engines.named``, which is too heavy to be asked by all that shows a study.
"""

SIMILARITIES: Final = frozenset(
    {
        *{"nearest", "k-means", "affinity propagation", "agglomerative", "birch", "bisecting k-means"},
        *{"dbscan", "hdbscan", "mean shift", "optics"},
    }
)
"""Similarities of runs that are given as text: those of ``system.clusterings``, likewise."""


def in_no_journal(call: Mapping[str, Any]) -> list[str]:
    """Return what a study was started with that no journal can hold, in words.

    Args:
        call: The call of the study, as its journal has it.

    Example:
        >>> in_no_journal({"stopper": "Patience", "sampler": {"name": "tpe"}, "constraint": True})
        ['a constraint', 'a stopper of its own (Patience)']
        >>> in_no_journal({"constraint": "script.py:rule"})
        []
    """
    arms = call.get("arms") if call.get("verb") == "ablate" else None
    variants = [arm["name"] for arm in arms or () if arm.get("variant")]
    own = ["a constraint"] if call.get("constraint") is True else []  # else its journal says where it is
    own += [f"variants ({', '.join(variants)})"] if variants else []
    own += [f"the policy {call['policy']!r}, which goes by results"] if arms and call.get("adaptive") else []
    engine = call.get("engine", "local")
    own += [f"an engine with options ({engine})"] if engine.partition("(")[0] not in BY_NAME else []
    parts = {kind: call.get(kind) for kind in ("sampler", "stopper")} | _of_arms(call)
    similarity = (call.get("system") or {}).get("similarity", "nearest")
    own += [f"a similarity of its own ({similarity})"] if similarity not in SIMILARITIES else []
    # Those of Étude are told as plain data, those of the user by their name.
    return own + [f"a {kind} of its own ({given})" for kind, given in parts.items() if isinstance(given, str)]


def _of_arms(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sampler of an ablation whose arms were tuned."""
    retuned = call.get("retuned")
    return {"sampler": retuned["sampler"]} if isinstance(retuned, Mapping) else {}


def resume_command(study: Path | str, meta: Mapping[str, Any]) -> str | None:
    """Return the command that goes on with a study; None if only the call that started it can.

    Args:
        study: The study's folder, or its mirror.
        meta: What its journal says about the study.

    Example:
        >>> resume_command(Path("studies/one"), {"experiment": "script.py:experiment", "call": {}})
        'etude resume studies/one'
        >>> resume_command(Path("studies/one"), {"experiment": None, "call": {}}) is None
        True
    """
    if meta.get("experiment") is None or in_no_journal(meta.get("call") or {}):
        return None
    return f"etude resume {study}"
