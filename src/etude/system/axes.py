"""In which order knobs are tried: those that interact together, and what mostly brings most first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from etude.core.system import Setting, SettingValue
from etude.system.probing import Axes, Axis

Values = Mapping[str, Sequence[SettingValue]]
"""Knob -> the values that are worth trying; the first is the one that the training function has."""

COMPUTE: Final = ("threads", "cores")
LOADER: Final = "loader_workers"
STAY: Final = "persistent_workers"
OF_WORKERS: Final = ("prefetch", STAY)
"""Knobs that mean nothing without loader workers."""
ORDER: Final = (
    *("channels_last", "amp", "compile", "cache", "prefetch", STAY, "pin_memory"),
    *("cpu_governor", "cpu_frequency", "gpu_power_limit", "cpu_share", "memory_limit"),
)
"""After threads and loader workers, knobs in the order in which they are tried; others come last."""
OF_LOADERS: Final = ("cache", *OF_WORKERS)
"""Knobs that can save nothing but waiting for loaders, beside the number of their workers."""
WAITS: Final = 0.01
"""A training that waits for its loaders for no more than this share of its time has nothing to gain there: as little
makes a setting no better."""
CHOICES: Final = frozenset({"cpu_governor"})
"""Knobs whose values have no order, beside those that are off or on."""


def axes_of(knobs: Values) -> Axes:
    """Return what is tried of knobs.

    Loader workers and the threads that compute share the cores, so they are one axis: as many workers as threads leave
    cores for, and the same with all threads. Half as many workers as cores come first: where loading takes long they
    bring most of what there is, and what comes later is cut short if it is much slower. Workers stay from epoch to
    epoch then, where that can be: else their start hides what they bring to short epochs. Low precision and the order
    of images in memory are one axis as well.

    Args:
        knobs: What can be set.

    Example:
        >>> [axis.settings for axis in axes_of({"channels_last": (False, True), "prefetch": (2, 4, 8)}).axes]
        [({'channels_last': True},), ({'prefetch': 4}, {'prefetch': 8})]
    """
    found = [_shared_cores(knobs), *(_alone(name, knobs) for name in _in_order(knobs)), _precision(knobs)]
    return Axes(tuple(axis for axis in found if axis.settings))


def worth_trying(knobs: Values, waited: float | None) -> dict[str, tuple[SettingValue, ...]]:
    """Return the knobs with what is worth trying of them, after an epoch by default.

    Where it did not wait for its loaders, nothing is tried that could only shorten the wait. Fewer workers are, where
    the training function has some: they give cores back to those that compute.

    Args:
        knobs: What can be set.
        waited: For which share of its time the epoch waited for its loaders; None if nobody knows.

    Example:
        >>> worth_trying({"loader_workers": (0, 1, 2), "prefetch": (2, 4), "threads": (2, 1)}, 0.001)
        {'threads': (2, 1)}
        >>> worth_trying({"loader_workers": (2, 0, 1, 4)}, 0.001)
        {'loader_workers': (2, 0, 1)}
    """
    found = {name: tuple(values) for name, values in knobs.items()}
    if waited is None or waited > WAITS or LOADER not in found:
        return found
    own, *others = found[LOADER]
    found[LOADER] = (own, *(n for n in others if isinstance(n, int) and isinstance(own, int) and n < own))
    return {
        name: values for name, values in found.items() if name not in OF_LOADERS and (name != LOADER or len(values) > 1)
    }


def _in_order(knobs: Values) -> list[str]:
    rest = [name for name in knobs if name not in (*COMPUTE, LOADER)]
    return sorted(rest, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


def _alone(name: str, knobs: Values) -> Axis:
    own, *others = knobs[name]
    ordered = name not in CHOICES and not isinstance(own, bool)
    only_if = _has_workers(knobs) if name in OF_WORKERS else None
    return Axis(tuple({name: value} for value in others), ordered=ordered, only_if=only_if)


def _has_workers(knobs: Values) -> Callable[[Mapping[str, SettingValue]], bool] | None:
    """Return what says whether a setting has loader workers; None where nobody can tell."""
    if LOADER not in knobs:
        return None
    own = knobs[LOADER][0]
    return lambda setting: bool(setting.get(LOADER, own))


def _shared_cores(knobs: Values) -> Axis:
    """Return what is tried of loader workers and of threads, which share the cores."""
    compute = next((name for name in COMPUTE if name in knobs), None)
    if compute is None or LOADER not in knobs:
        only = compute or (LOADER if LOADER in knobs else "")
        return _alone(only, knobs) if only else Axis(())
    all_threads, own = _numbers(knobs[compute]), (knobs[compute][0], knobs[LOADER][0])
    most = max(all_threads)
    workers = sorted(_numbers(knobs[LOADER]), key=lambda n: abs(n - most / 2))
    pairs = [(left, n) for n in workers for left in (most, most - n)]
    pairs += [(threads, 0) for threads in reversed(all_threads)]  # the nearest first
    stay = {STAY: True} if knobs.get(STAY, (True,))[0] is False else {}
    settings: list[Setting] = []
    for threads, n in dict.fromkeys(pairs):
        if threads >= 1 and (threads, n) != own:
            named = {
                **({compute: threads} if threads != own[0] else {}),
                **({LOADER: n} if n != own[1] else {}),
            }
            settings.append({**named, **(stay if n else {})})
    return Axis(tuple(settings), ordered=False)


def _precision(knobs: Values) -> Axis:
    """Return what only low precision and the order of images in memory bring together."""
    both = [name for name in ("amp", "channels_last") if len(knobs.get(name, ())) > 1]
    return Axis(({"amp": True, "channels_last": True},) if len(both) > 1 else ())


def _numbers(values: Sequence[SettingValue]) -> list[int]:
    return sorted({int(value) for value in values if isinstance(value, int)})
