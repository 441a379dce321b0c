"""Facts of what a watched program has left: the file of its watcher, and how the sandbox says that it ended."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from etude.mage.facts import Facts
from etude.mage.keys import without_keys
from etude.mage.probe.metrics import printed, written
from etude.mage.sandbox.protocol import Ran
from etude.mage.scrubbing import every_text, scrub, secrets_of

MOST_BYTES: Final = 500_000_000
TAIL_LINES: Final = 60
NOT_WATCHED: Final = (
    "The program was not watched: no Python of its own began, or it was started with -I, -E or -S, which leaves out "
    "what watches it."
)
NOTHING_KNOWN: Final = (
    "Nothing of PyTorch, Keras, scikit-learn, XGBoost or LightGBM was trained: models, batches and losses could not be "
    "seen."
)
NO_FACTS: Final = "What watched the program left no facts: the program itself has changed them."


def facts_of(ran: Ran, out: Path, metrics: Path | None, folder: Path, environment: Mapping[str, str]) -> Facts:
    """Return what was seen of a run.

    Args:
        ran: How it ended.
        out: The file of facts that its watcher has written, if it could.
        metrics: The file that it writes its metrics into; None if none was agreed on.
        folder: The project's. Its paths are told relative to that, so that equal errors of two variants are equal.
        environment: Ours, whose secrets are kept out.
    """
    raw = _raw(out)
    try:
        return _facts(ran, raw, metrics, folder, environment)
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError, RecursionError):
        return _facts(ran, {"unseen": [NO_FACTS]}, metrics, folder, environment)


def _facts(
    ran: Ran, raw: Mapping[str, Any], metrics: Path | None, folder: Path, environment: Mapping[str, str]
) -> Facts:
    unseen = list(raw.get("unseen", [])) if raw else [NOT_WATCHED]
    if raw and not (raw.get("steps") or raw.get("fits") or raw.get("losses")):
        unseen.append(NOTHING_KNOWN)
    found: dict[str, Any] = {
        "ended": _ended(ran, raw),
        "steps": raw.get("steps", 0),
        "models": raw.get("models", []),
        "fits": raw.get("fits", []),
        **{name: raw[name] for name in _PLAIN if name in raw},
        "metrics": {**printed(ran.out.decode(errors="replace")), **(written(metrics) if metrics is not None else {})},
        "wall_s": ran.wall_s,
        "unseen": unseen,
    }
    paths, secrets = {str(folder), os.path.realpath(folder)}, secrets_of(environment)

    def told(text: str) -> str:
        for path in paths:
            text = text.replace(path + os.sep, "")
        return without_keys(
            scrub(text, secrets)
        )  # it reads files that are never sent, and may have said what is in them

    return msgspec.convert(every_text(found, told), Facts, strict=False)


_PLAIN: Final = (
    *("optimizers", "rates", "scheduled", "batches", "batch_digests", "batch_values", "lengths", "examples", "losses"),
    *("calls", "operators", "elsewhere", "arguments", "settings", "seeds", "versions", "peak_mb"),
)


def _raw(out: Path) -> dict[str, Any]:
    try:
        if out.is_symlink() or not out.is_file() or out.stat().st_size > MOST_BYTES:  # a pipe would be waited for
            return {}
        found = json.loads(out.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _ended(ran: Ran, raw: Mapping[str, Any]) -> dict[str, Any]:
    tail = "\n".join(ran.err.decode(errors="replace").splitlines()[-TAIL_LINES:])
    if ran.stopped:
        return {"code": ran.code, "why": ran.stopped, "traceback": tail}
    refused = f" ({ran.refused})" if ran.refused else ""
    if ran.signal is not None:
        return {"code": None, "why": f"killed by signal {ran.signal}{refused}", "traceback": tail}
    why = raw.get("why", "")
    if why == "raised" and ran.code:
        return {"code": ran.code, "why": why, **raw.get("error", {})}
    if ran.code:
        return {"code": ran.code, "why": f"exit code {ran.code}{refused}", "traceback": tail}
    return {"code": ran.code, "why": why if why == "enough seen" else "finished"}
