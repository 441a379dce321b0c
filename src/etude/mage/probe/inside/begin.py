"""Puts everything in place before the program's first line."""

from __future__ import annotations

import atexit
import importlib.util
import os
import sys
from typing import Any

UNWATCHED = ("jax", "tensorflow", "catboost", "mxnet", "paddle")
WATCHED = ("torch", "keras", "sklearn", "xgboost", "lightgbm")
VERSIONS = (*WATCHED, "numpy", "pandas", "scipy", *UNWATCHED)


def begin(spec: dict[str, Any]) -> None:
    """Watch this process from here on.

    Args:
        spec: What is asked: ``out`` is where facts go, ``steps`` how many steps are enough, ``rows`` how many an
            estimator gets, ``folder`` the project's.
    """
    seen = _load("seen").Seen(spec, _load("plain"))
    fits = _load("fits").Fits(seen)
    calls = _load("calls").Calls(seen, fits)
    operators = _load("operators").Operators(seen)
    modules = _load("modules").Modules(seen, operators)
    loaders = _load("loaders").Loaders(seen)
    layers = _load("layers").Layers(seen)
    settings = _load("settings").Settings(seen)
    seen.before_writing += [
        *(settings.update, calls.update, operators.update, modules.update, loaders.update, layers.update),
        lambda: _update(seen),
    ]

    def with_torch(torch: Any) -> None:
        modules.watch(torch)
        loaders.watch(torch)
        operators.watch(torch)

    told = {
        "argparse": settings.watch,
        "numpy.random": calls.watch_numpy,
        "torch": with_torch,
        "keras": layers.watch,
        "sklearn.base": fits.watch_sklearn,
        "xgboost": fits.watch_xgboost,
        "lightgbm": fits.watch_lightgbm,
    }
    _load("imports").tell({name: _guarded(seen, name, one) for name, one in told.items()})
    os.register_at_fork(after_in_child=seen.leave)
    os.register_at_fork(after_in_child=operators.leave)
    atexit.register(seen.finish)
    seen.write()
    sys.settrace(calls.tracing())


def _load(name: str) -> Any:
    """Return a module that stands beside this one."""
    place = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"_etude_probe_{name}", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _guarded(seen: Any, name: str, watch: Any) -> Any:
    """Return what watches a library, and never fails: one of another version may have nothing of what is looked for."""

    def watching(module: Any) -> None:
        try:
            watch(module)
        except Exception as error:
            seen.note(f"{name} could not be watched: {type(error).__name__}: {error}")

    return watching


def _update(seen: Any) -> None:
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen.facts["peak_mb"] = most / (2**10 if sys.platform == "linux" else 2**20)
    versions = {"python": sys.version.split()[0]}
    for name in VERSIONS:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            versions[name] = str(version)
    seen.facts["versions"] = versions
