"""Runs an experiment of a script once: ``driver.py SCRIPT NAME SEED METRICS ROOT``.

``ROOT`` is where Étude lies. It comes last on the path, so that the program's own one, if there is one, is taken.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import Any


def main(script: str, name: str, seed: int, metrics: str, root: str) -> None:
    """Run it, and write what it returns."""
    sys.argv = [script]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    sys.path.append(root)
    stem = os.path.splitext(os.path.basename(script))[0]
    spec = importlib.util.spec_from_file_location(stem, os.path.abspath(script))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[stem] = module
    spec.loader.exec_module(module)
    experiment = getattr(module, name, None)
    if experiment is None:
        sys.exit(f"{script} has no {name!r}. Name what it has, as in script.py:experiment.")
    returned = experiment.run(seed=seed)
    with open(metrics, "w", encoding="utf-8") as file:
        json.dump(_named(experiment, returned), file)


def _named(experiment: Any, returned: Any) -> dict[str, float]:
    if not isinstance(returned, dict):
        names = list(experiment.metrics.names)
        returned = {names[0]: returned} if len(names) == 1 else {}
    return {str(name): float(value) for name, value in returned.items() if _is_number(value)}


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
