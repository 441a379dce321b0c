"""In which order knobs are tried: those that interact together, and what mostly brings most first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from etude.core.system import Setting, SettingValue
from etude.system.probing import Axes, Axis

Values = Mapping[str, Sequence[SettingValue]]
"""Knob -> the values that are worth trying; the first is the one that the training function has."""

COMPUTE: Final = ("threads", "cores")
LOADER: Final = "loader_workers"
FIRST: Final = (
    *("channels_last", "amp", "compile", "cache", "prefetch", "persistent_workers", "pin_memory"),
    *("cpu_governor", "cpu_frequency", "gpu_power_limit", "cpu_share", "memory_limit"),
)
"""After threads and loader workers, knobs in the order in which they are tried; others come last."""
CHOICES: Final = frozenset({"cpu_governor"})
"""Knobs whose values have no order, beside those that are off or on."""


def axes_of(knobs: Values) -> Axes:
    """Return what is tried of knobs.

    Loader workers and the threads that compute share the cores, so they are one axis: as many workers as threads leave
    cores for, and the same with all threads. Low precision and the order of images in memory are one as well.

    Args:
        knobs: What can be set.

    Example:
        >>> [axis.settings for axis in axes_of({"channels_last": (False, True), "prefetch": (2, 4, 8)}).axes]
        [({'channels_last': True},), ({'prefetch': 4}, {'prefetch': 8})]
    """
    found = [_shared_cores(knobs), *(_alone(name, knobs) for name in _in_order(knobs)), _precision(knobs)]
    return Axes(tuple(axis for axis in found if axis.settings))


def _in_order(knobs: Values) -> list[str]:
    rest = [name for name in knobs if name not in (*COMPUTE, LOADER)]
    return sorted(rest, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))


def _alone(name: str, knobs: Values) -> Axis:
    own, *others = knobs[name]
    ordered = name not in CHOICES and not isinstance(own, bool)
    return Axis(tuple({name: value} for value in others), ordered=ordered)


def _shared_cores(knobs: Values) -> Axis:
    """Return what is tried of loader workers and of threads, which share the cores."""
    compute = next((name for name in COMPUTE if name in knobs), None)
    if compute is None:
        return _alone(LOADER, knobs) if LOADER in knobs else Axis(())
    if LOADER not in knobs:
        return _alone(compute, knobs)
    most = max(_numbers(knobs[compute]))
    pairs = [
        (threads, workers) for workers in _numbers(knobs[LOADER]) for threads in dict.fromkeys((most, most - workers))
    ]
    pairs += [(threads, 0) for threads in _numbers(knobs[compute])]
    own = (knobs[compute][0], knobs[LOADER][0])
    tried = [pair for pair in dict.fromkeys(pairs) if pair[0] >= 1 and pair != own]
    return Axis(tuple(_but_for(own, pair, (compute, LOADER)) for pair in tried), ordered=False)


def _but_for(own: Sequence[SettingValue], pair: Sequence[SettingValue], names: Sequence[str]) -> Setting:
    """Return a setting that names only what differs from what the training function has."""
    return {name: value for name, value, usual in zip(names, pair, own, strict=True) if value != usual}


def _precision(knobs: Values) -> Axis:
    """Return what only low precision and the order of images in memory bring together."""
    both = [name for name in ("amp", "channels_last") if len(knobs.get(name, ())) > 1]
    return Axis(({"amp": True, "channels_last": True},) if len(both) > 1 else ())


def _numbers(values: Sequence[SettingValue]) -> list[int]:
    return sorted({int(value) for value in values if isinstance(value, int)})
