"""Arms as sets of what they take away: joined, compared, and looked up by what came of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final

from etude.ablate.listing import is_inside, outermost
from etude.core.errors import ConfigError
from etude.core.removal import Arm, Features, Layers, Part, Target, Whole

BASE: Final = Arm("base")
"""The arm with nothing taken away."""


def control_of(arm: str) -> str:
    """Return what the control of an arm is called: the whole, with as many parameters as that arm has.

    Example:
        >>> control_of("layer:conv2")
        'size of layer:conv2'
    """
    return f"size of {arm}"


def together(arms: Sequence[Arm], name: str = "") -> Arm:
    """Return the arm that takes away everything that these take away.

    Args:
        arms: One or more; of none it is the base.
        name: What it is called; by default the names of all, joined.

    Raises:
        ConfigError: They cannot be one arm: two custom variants, one setting with two values, or features that are
            dropped in one and replaced in the other.

    Example:
        >>> together([Arm("lr", settings={"lr": 0}), Arm("bias", settings={"bias": False})]).name
        'lr & bias'
    """
    if not arms:
        return Arm(name or BASE.name)
    settings: dict[str, Any] = {}
    for arm in arms:
        for key, value in arm.settings.items():
            if key in settings and repr(settings[key]) != repr(value):
                raise _apart(arms, f"give the setting {key!r} two values, {settings[key]!r} and {value!r}")
            settings[key] = value
    variants = list(dict.fromkeys(arm.variant for arm in arms if arm.variant))
    if len(variants) > 1:
        raise _apart(
            arms, f"are custom variants, {' and '.join(map(repr, variants))}, whose functions cannot be joined"
        )
    return Arm(
        name=name or " & ".join(dict.fromkeys(arm.name for arm in arms)),
        layers=joined_layers([arm.layers for arm in arms if arm.layers is not None]),
        features=_joined_features(arms),
        settings=dict(sorted(settings.items())),
        variant=variants[0] if variants else "",
    )


def joined_layers(parts: Sequence[Layers]) -> Layers | None:
    """Return everything that is to be taken out of a model, sorted, and nothing of it twice; None if it is nothing."""
    if not parts:
        return None
    targets = [target for part in parts for target in part.targets]
    whole = outermost(sorted({target.path for target in targets if isinstance(target, Whole)}))
    rest: dict[tuple[str, str], set[int]] = {}
    for target in targets:
        if isinstance(target, Part) and not _covered(target.path, whole):
            rest.setdefault((target.path, target.of), set()).update(target.indices)
    of: list[Target] = [Whole(path) for path in whole]
    of += [Part(path, of, tuple(sorted(found))) for (path, of), found in sorted(rest.items())]  # type: ignore[arg-type]
    along = outermost(sorted({path for part in parts for path in part.along if not _covered(path, whole)}))
    repair = "learned" if any(part.repair == "learned" for part in parts) else "auto"
    return Layers(tuple(of), repair, tuple(along))  # type: ignore[arg-type]


def removal(arm: Arm) -> Hashable:
    """Return what an arm takes away, as a key that is equal for arms that differ in their names alone."""
    layers, features = arm.layers, arm.features
    return (
        None if layers is None else (frozenset(layers.targets), layers.repair, frozenset(layers.along)),
        None if features is None else (frozenset(features.names), features.how, repr(features.value)),
        frozenset((name, repr(value)) for name, value in arm.settings.items()),
        arm.variant,
    )


def distinct(arms: Iterable[Arm]) -> tuple[list[Arm], dict[str, str]]:
    """Return arms without those that take away the same as an earlier one, and which these are.

    Returns:
        The arms, and for the name of each that was left out, the name of the one that stands for it.

    Raises:
        ConfigError: One name stands for two removals.
    """
    kept: dict[Hashable, Arm] = {}
    by_name: dict[str, Hashable] = {}
    same: dict[str, str] = {}
    for arm in arms:
        key = removal(arm)
        if by_name.setdefault(arm.name, key) != key:
            raise ConfigError(
                f"Two arms are called {arm.name!r} and take away different things, so that tables could not tell them "
                "apart. Give one of them another name."
            )
        first = kept.setdefault(key, arm)
        if first.name != arm.name:
            same[arm.name] = first.name
    return list(kept.values()), same


class Results:
    """What came of arms so far, found by what they take away, whatever they are called.

    Args:
        losses: Each arm with its mean over seeds, turned so that lower is better; NaN for an arm that failed.
    """

    def __init__(self, losses: Iterable[tuple[Arm, float]] = ()) -> None:
        self._losses = {removal(arm): loss for arm, loss in losses}

    def __contains__(self, arm: Arm) -> bool:
        return removal(arm) in self._losses

    def loss(self, arm: Arm) -> float:
        """Return the mean loss of an arm over its seeds: lower is better, and NaN says that it failed.

        Args:
            arm: The arm; one that takes away the same under another name does as well.

        Raises:
            KeyError: Nothing came of it yet.
        """
        return self._losses[removal(arm)]


def _joined_features(arms: Sequence[Arm]) -> Features | None:
    parts = [arm.features for arm in arms if arm.features is not None]
    if not parts:
        return None
    ways = list(dict.fromkeys((part.how, repr(part.value)) for part in parts))
    if len(ways) > 1:
        said = " and ".join(how if value == "None" else f"{how} ({value})" for how, value in ways)
        raise _apart(arms, f"treat features differently, {said}")
    names = sorted({name for part in parts for name in part.names})
    return Features(tuple(names), parts[0].how, parts[0].value)


def _covered(path: str, whole: Iterable[str]) -> bool:
    return any(path == outer or is_inside(path, outer) for outer in whole)


def _apart(arms: Sequence[Arm], why: str) -> ConfigError:
    names = ", ".join(repr(arm.name) for arm in arms)
    return ConfigError(
        f"{names} cannot be one arm: they {why}. Take them away one at a time, with the policy 'leave_one_out', "
        "or make them agree."
    )
