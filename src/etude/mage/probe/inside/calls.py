"""How often functions are called and with what, and what generators are seeded with.

A trace function is told of each Python frame that begins, and asks for no more: so no line is traced, and nothing of
the program is another object than it would be. About half a microsecond a call.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from etude.mage.probe.inside.fits import Fits
    from etude.mage.probe.inside.seen import Seen

LIBRARIES = (
    "torch.nn.functional",
    "torch.nn.init",
    "torch.nn.utils.",
    "torch.optim.lr_scheduler",
    "torch.optim.swa_utils",
    "torchvision.transforms",
)
"""Modules whose functions are counted, by how their names begin."""
METRICS = "sklearn.metrics"
"""Its functions are not counted: what they are given is kept."""
MADE = "torch.optim.swa_utils"
"""Where making an object is a call: what averages weights acts after the training."""
LOSS = re.compile(r"loss|entropy|nll|kl_div")
"""What functions are called that compare with labels."""
LARGEST = 100_000
"""Numbers of a tensor of which a digest is made."""
SCHEDULERS = "torch.optim.lr_scheduler"
NO_FUNCTIONS = re.compile(r"<(listcomp|setcomp|dictcomp|genexpr)>$")


class Calls:
    """Counts calls.

    Args:
        seen: Where they are kept.
        fits: What knows the answers of estimators.
    """

    def __init__(self, seen: Seen, fits: Fits) -> None:
        self._seen = seen
        self._fits = fits
        self._names: dict[int, Any] = {}  # None, a name, or what makes one of a frame
        self._codes: list[Any] = []  # so that no other code gets the number of one that is gone
        self._parameters: dict[int, tuple[str, list[tuple[str, bool]]]] = {}  # of functions of libraries
        self._take, self._take_measured = seen.hook(self._taken), seen.hook(self._measured)
        self._counts: dict[str, int] = {}
        self._seeds: list[str] = []

    def tracing(self) -> Any:
        """Return a trace function that sees each frame that begins; most of them do not count, and cost least."""
        seen, names, counts, named = self._seen, self._names, self._counts, self._named
        parameters, take = self._parameters, self._take

        def trace(frame: Any, event: str, arg: Any) -> None:
            number = id(frame.f_code)
            if number in names:
                name = names[number]
            elif seen.is_busy:
                return
            else:
                name = named(frame)
            if name is None or seen.is_busy:
                return
            if not isinstance(name, str):
                try:
                    name = name(frame)
                except Exception as error:
                    seen.note(f"a call of {frame.f_code.co_name} could not be read: {error}")
                    return
            if name:
                counts[name] = counts.get(name, 0) + 1
                if number in parameters:
                    take(frame)

        return trace

    def update(self) -> None:
        """Hand over what was counted."""
        self._seen.facts["calls"] = dict(self._counts)
        self._seen.facts["seeds"] = list(self._seeds)

    def watch_numpy(self, module: Any) -> None:
        """See what NumPy's generators are seeded with: they are no Python functions."""
        for name in ("seed", "default_rng"):
            setattr(module, name, self._seeding(getattr(module, name), f"numpy {name}"))

    def _seeding(self, function: Any, told: str) -> Any:
        @functools.wraps(function)
        def seeding(*args: Any, **kwargs: Any) -> Any:
            given = [*args, *kwargs.values()]
            is_own = function.__name__ == "seed" or self._seen.place(sys._getframe(1).f_code.co_filename)
            if given and isinstance(given[0], int) and self._seen.is_on and is_own:  # libraries make generators, too
                self._seeded(told.replace(" seed", ""), given[0])
            return function(*args, **kwargs)

        return seeding

    def _seeded(self, what: str, value: object) -> None:
        said = f"{what} {value}"
        if len(said) < 80 and said not in self._seeds:  # noqa: PLR2004
            self._seeds.append(said)

    def _taken(self, frame: Any) -> None:
        """Keep what a function of a library is called with: the names and values that its frame begins with."""
        name, parameters = self._parameters[id(frame.f_code)]
        inside, is_loss, told = frame.f_locals, LOSS.search(name) is not None, []
        for parameter, is_optional in parameters:
            value = inside.get(parameter)
            if value is None or isinstance(value, bool | int | float | str):
                told.append(f"{parameter}={value}"[:200])
            elif hasattr(value, "untyped_storage"):
                if is_loss and value.dim() and not is_optional:
                    told.append(f"{parameter}.rows={value.shape[0]}")
                if is_optional:
                    few = is_loss and value.numel() <= LARGEST
                    plain = self._seen.plain
                    told.append(f"{parameter}=tensor{':' + plain.digest(plain.bytes_of(value)) if few else ''}")
        if told:
            self._seen.take(name, " ".join(told))

    def _measured(self, frame: Any) -> None:
        """Keep what a metric is calculated of: whether that is what an estimator gave, or something made of it."""
        name, parameters = self._parameters[id(frame.f_code)]
        told = []
        for parameter, _ in parameters:
            value = frame.f_locals.get(parameter)
            if value is None or isinstance(value, bool | int | float | str):
                told.append(f"{parameter}={value}"[:200])
            elif getattr(value, "shape", None) or isinstance(value, list | tuple):
                told.append(f"{parameter}={self._fits.answer(value) or 'calculated'}")
        self._seen.take(name, " ".join(told))

    def _named(self, frame: Any) -> Any:
        """Return what a function is called, and keep it; None if it does not count."""
        code = frame.f_code
        self._codes.append(code)
        try:
            is_function = code.co_flags & inspect.CO_OPTIMIZED  # and not the body of a module or of a class
            name = self._name(frame) if is_function else None
        except Exception:
            name = None
        if isinstance(name, str) and code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
            name = functools.partial(_if_it_begins, name, _first(code))
        self._names[id(code)] = name
        return name

    def _name(self, frame: Any) -> Any:
        code = frame.f_code
        module = frame.f_globals.get("__name__") or ""
        qualified = getattr(code, "co_qualname", code.co_name)
        if module == "torch.random" and qualified == "manual_seed":
            return self._torch_seeded
        if module == "random" and qualified == "Random.seed":
            return self._random_seeded
        place = self._seen.place(code.co_filename)
        if place:
            return None if NO_FUNCTIONS.search(qualified) else f"{place}:{qualified}"
        if module in (SCHEDULERS, MADE) and qualified.endswith((".step", ".__init__")):
            return _scheduler if qualified.endswith(".step") else _made if module == MADE else None
        if module.startswith(METRICS):
            return self._metric if self._of_library(METRICS, qualified, code) else None
        is_known = module.startswith(LIBRARIES) and module != SCHEDULERS
        return self._of_library(module, qualified, code) if is_known else None

    def _of_library(self, module: str, qualified: str, code: Any) -> str | None:
        """Return the name of a function of a library, and keep its parameters; None for private ones."""
        if "._" in f".{module}.{qualified.rpartition('.')[2]}" or "<locals>" in qualified:
            return None
        name, function = public(module, qualified, code)
        if module == METRICS and function is None:
            return None
        optional = _optional(function)
        n = code.co_argcount + code.co_kwonlyargcount
        self._parameters[id(code)] = name, [(one, one in optional) for one in code.co_varnames[:n]]
        return name

    def _metric(self, frame: Any) -> str:
        if not self._fits.is_running:  # what estimators measure while they are fitted is theirs
            self._take_measured(frame)
        return ""

    def _torch_seeded(self, frame: Any) -> str:
        self._seeded("torch", frame.f_locals.get("seed"))
        return ""

    def _random_seeded(self, frame: Any) -> str:
        inside = frame.f_locals
        if inside.get("a") is not None and inside.get("self") is getattr(sys.modules["random"], "_inst", None):
            self._seeded("random", inside["a"])
        return ""


def public(module: str, qualified: str, code: Any) -> tuple[str, Any]:
    """Return the shortest dotted name by which a function can be had, and the function if it can be."""
    parts = module.split(".")
    for n in range(1, len(parts) + 1):
        found: Any = sys.modules.get(".".join(parts[:n]))
        for name in qualified.split("."):
            found = getattr(found, name, None)
        if getattr(inspect.unwrap(found), "__code__", None) is code if callable(found) else False:
            return ".".join([*parts[:n], qualified]), found
    return f"{module}.{qualified}", None


def _optional(function: Any) -> set[str]:
    """Return the parameters of a function that have a default."""
    try:
        known = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return set()
    return {one.name for one in known if one.default is not inspect.Parameter.empty}


def _made(frame: Any) -> str:
    """Return the class of an object that is made; nothing where a class that it builds on goes on making it."""
    kind = type(frame.f_locals["self"])
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__init__.__code__ is frame.f_code else ""


def _scheduler(frame: Any) -> str:
    return f"{SCHEDULERS}.{type(frame.f_locals['self']).__name__}.step"


def _if_it_begins(name: str, first: int, frame: Any) -> str:
    """Return the name where a generator begins, and nothing where it goes on."""
    return name if frame.f_lasti <= first else ""


def _first(code: Any) -> int:
    import dis

    return next((one.offset for one in dis.get_instructions(code) if one.opname == "RESUME"), 0)
