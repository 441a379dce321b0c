"""Finding an experiment in a script: ``path/to/script.py:experiment``.

The script is run as a module of its own name, never as ``__main__``, so what stands under its main guard
stays asleep. A script without one is read up to its first call of ``tune``, ``ablate`` or ``fit``: what it had defined
by then is what the call would have run. Its functions travel to workers by value, as those of ``python script.py`` do:
a worker never imports the script, and what it runs cannot change when somebody saves the file meanwhile.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from etude.core.errors import ConfigError, EtudeError, ScriptError
from etude.core.near import did_you_mean, nearest
from etude.experiment import Experiment


class Script(NamedTuple):
    """A script that was read.

    Attributes:
        path: Where it is.
        module: What it defined.
        cut: Whether reading it ended at a call that starts a study, so that what stands below is missing.
    """

    path: Path
    module: ModuleType
    cut: bool


def load(place: str) -> tuple[Experiment, Script]:
    """Return the experiment at ``path/to/script.py:name``, and the script.

    Without ``:name`` it is the only experiment that the script has.

    Raises:
        ConfigError: There is no such script, or no such experiment in it.
        ScriptError: The script raised something.
    """
    file, colon, name = place.rpartition(":")
    path = Path(file if colon else place)
    if path.suffix != ".py":
        raise ConfigError(f"{place!r} names no experiment. Give the script and the name in it: script.py:experiment.")
    script = _read(path)
    found = {n: thing for n, thing in vars(script.module).items() if isinstance(thing, Experiment)}
    if not colon and len(found) == 1:
        return next(iter(found.values())), script
    if colon and name in found:
        return found[name], script
    told = f"It has: {', '.join(found)}." if found else _has_none(path)
    which = f"no experiment {name!r}" if colon else f"{len(found)} experiments, and none was named"
    meant = did_you_mean(name, found) if colon else ""
    raise ConfigError(f"{path} has {which}. {meant}{told}{what_is_missing(script)}")


def _has_none(path: Path) -> str:
    """Say what to do with a script that defines no experiment, as far as it was read."""
    guards = [node for node in ast.parse(path.read_bytes()).body if isinstance(node, ast.If) and _is_guard(node.test)]
    if any("Experiment" in ast.unparse(guard) for guard in guards):
        return (
            'It makes one under `if __name__ == "__main__":`, which is not run when the script is only read: put '
            "experiment = etude.Experiment(...) above that line."
        )
    return "It has none: write experiment = etude.Experiment(train, ...)."


def _is_guard(test: ast.expr) -> bool:
    return {"__name__", "__main__"} <= {
        *(node.id for node in ast.walk(test) if isinstance(node, ast.Name)),
        *(node.value for node in ast.walk(test) if isinstance(node, ast.Constant)),
    }


def attribute(script: Script, name: str) -> Any:
    """Return what a script calls ``name``.

    Raises:
        ConfigError: It calls nothing so.
    """
    if not hasattr(script.module, name):
        meant = did_you_mean(name, vars(script.module))
        raise ConfigError(f"{script.path} has no {name!r}. {meant}".rstrip() + what_is_missing(script))
    return getattr(script.module, name)


def what_is_missing(script: Script) -> str:
    """Say that a script was not read to its end, if it was not."""
    if not script.cut:
        return ""
    return (
        " It was read up to its first call of tune(...), ablate(...) or fit(...), which starts a study; put it under "
        '`if __name__ == "__main__":` if what you want stands below it.'
    )


def _read(path: Path) -> Script:
    if not path.is_file():
        near = nearest(path.name, [other.name for other in path.parent.glob("*.py")])
        raise ConfigError(f"There is no file {path}." + (f" Did you mean {path.parent / near[0]}?" if near else ""))
    given, path = path, path.absolute()
    name = path.stem
    before = sys.modules.get(name)
    if name in sys.stdlib_module_names or (before and getattr(before, "__file__", None) != str(path)):
        raise ConfigError(f"{path.name} has the name of another module, {name!r}, and would hide it. Rename the file.")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # the modules beside it
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    cut = False
    try:
        with _no_study_may_start():
            # As `python script.py` does it: never from a cache, which cannot tell two edits within a second apart.
            exec(compile(path.read_bytes(), path, "exec", dont_inherit=True), vars(module))  # noqa: S102
    except _StudyStarts:
        cut = True
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, SystemExit):
            raise ConfigError(
                f"{path.name} ended itself while it was loaded. Put what parses arguments or exits under "
                '`if __name__ == "__main__":`.'
            ) from None
        if isinstance(error, Exception) and not isinstance(error, EtudeError):
            raise ScriptError(_traceback(error)) from error
        raise
    import cloudpickle

    cloudpickle.register_pickle_by_value(module)
    return Script(given, module, cut)


def _traceback(error: Exception) -> str:
    """Return the traceback of an error as ``python script.py`` would print it: from the script on."""
    frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


class _StudyStarts(BaseException):  # so that `except Exception` in a script does not read on
    """A script that is only being read has come to a call that starts a study."""


@contextlib.contextmanager
def _no_study_may_start() -> Iterator[None]:
    """A script without a main guard would start its own study instead of ours.

    The verbs are exchanged here, so that an experiment need not know that there is a command line.
    """

    def read_no_further(self: Experiment, *args: Any, **named: Any) -> NoReturn:
        raise _StudyStarts

    verbs = {name: getattr(Experiment, name) for name in ("tune", "ablate", "fit")}
    for name in verbs:
        setattr(Experiment, name, read_no_further)
    try:
        yield
    finally:
        for name, verb in verbs.items():
            setattr(Experiment, name, verb)
