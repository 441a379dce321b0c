"""The fidelity of a search: the parameter that says how much a trial may cost, and the budgets that it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.core.metrics import Fidelity
from etude.core.numbers import is_number, whole
from etude.core.signature import Kind, Signature, plain
from etude.core.text import brief
from etude.tune.halving import ASHA, ETA, Hyperband
from etude.tune.spaces import Space
from etude.tune.stop import FirstOf, NeverStop, Stopper, members

DIGITS: Final = 12
"""Budgets that are no whole numbers keep so many digits: a third of 0.9 is 0.3."""


def read_fidelity(
    name: str | None,
    budget: Sequence[Any] | None,
    eta: int | None,
    *,
    signature: Signature,
    space: Space,
    promotes: bool = True,
) -> Fidelity | None:
    """Read what ``tune`` was given as ``fidelity``, ``budget`` and ``eta``.

    The budgets are the largest one, and from there each the ``eta``-th part of the one above, as long as that is not
    below the smallest. Whole numbers stay whole. Where nothing ``promotes`` trials they all have the largest one.

    Raises:
        ConfigError: They do not go together, or not with the functions and the space.
    """
    if name is None:
        given = [f"{what}={value!r}" for what, value in (("budget", budget), ("eta", eta)) if value is not None]
        if given:
            raise ConfigError(
                f"{' and '.join(given)} without fidelity: nothing says what is to be budgeted. Name the parameter, "
                "fidelity='epochs'. Without one, the options are the stopper's: etude.ASHA(min_steps=1, eta=3)."
            )
        return None
    _check_name(name, signature, space)
    low, high = _limits(name, budget)
    for value in (low, high):
        if name in signature.parameters:
            signature.parameters[name].check(value)
    eta = whole("eta", ETA if eta is None else eta, 2, "everybody would go on")
    rungs = _rungs(low, high, eta)
    if len(rungs) < 2 and promotes:  # noqa: PLR2004
        raise ConfigError(
            f"budget=({low!r}, {high!r}) has one rung with eta={eta}: a promoted trial gets {eta} times as much, and "
            f"{eta} * {low!r} is more than {high!r}. Pass budget=({low!r}, {_shown(low * eta)!r}) or more"
            f"{f', or an eta of at most {int(high / low)}' if high >= 2 * low else ''}."
        )
    return Fidelity(name, rungs)


def check_fidelity(name: object, signature: Signature) -> None:
    """Refuse a fidelity that is no parameter; before the space is read, where nothing else gives that parameter.

    Raises:
        ConfigError: It is no name, or no function takes it.
    """
    if name is None:
        return
    if not isinstance(name, str):
        raise ConfigError(
            f"fidelity={brief(name)} is no name. Name the parameter that says how much a trial may cost: "
            "fidelity='epochs'."
        )
    signature.check_names([name])


def _check_name(name: str, signature: Signature, space: Space) -> None:
    if name in space.names:
        raise ConfigError(
            f"fidelity={name!r} is in the space as well. Its value is the budget, which is not the sampler's to "
            "choose. Take it out of the space."
        )
    signature.check_names([name])
    parameter = signature.parameters.get(name)
    if parameter is not None and parameter.kind is Kind.STATELESS:
        raise ConfigError(
            f"fidelity={name!r} is Stateless in {parameter.taken_by}: it is said not to change the numbers, and a "
            f"budget does. Write {name}: T instead of {name}: etude.Stateless[T]."
        )


def _limits(name: str, budget: Sequence[Any] | None) -> tuple[Any, Any]:
    if budget is None:
        raise ConfigError(
            f"fidelity={name!r} without budget: nothing says how little and how much of it a trial gets. "
            "Pass budget=(1, 27)."
        )
    if not isinstance(budget, list | tuple) or len(budget) != 2:  # noqa: PLR2004
        raise ConfigError(f"budget={budget!r} is no pair. Pass the smallest and the largest budget: budget=(1, 27).")
    low, high = map(plain, budget)
    if not (is_number(low) and is_number(high) and 0 < low < high < float("inf")):
        raise ConfigError(
            f"budget=({low!r}, {high!r}) cannot be: it takes two numbers above 0, the smaller one first. "
            "Pass budget=(1, 27)."
        )
    return low, high


def _rungs(low: Any, high: Any, eta: int) -> tuple[int | float, ...]:
    entire = isinstance(low, int) and isinstance(high, int)
    rungs: list[int | float] = []
    budget: float = high
    while budget >= low * (1 - 10**-DIGITS):
        rungs.append(round(budget) if entire else _shown(float(budget)))
        budget = high / eta ** len(rungs)
    return tuple(reversed(rungs))


def _shown(value: Any) -> Any:
    return value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")


def split(stopper: Stopper, *, eta: int | None, fidelity: bool) -> tuple[ASHA | Hyperband | None, Stopper]:
    """Return the rule by which trials are promoted, if there is one, and the stoppers that go by reports.

    Raises:
        ConfigError: Promotion is asked for and cannot be, or the options say two things.
    """
    halvings = [one for one in members(stopper) if isinstance(one, ASHA | Hyperband)]
    if not fidelity:
        asked = next((one for one in halvings if one.promote is not None), None)
        if asked is not None:
            name = type(asked).__name__
            raise ConfigError(
                f"{name}(promote={asked.promote!r}) without fidelity: nothing says what a promoted trial has more of. "
                f"Pass fidelity='epochs' and budget=(1, 27), or leave promote out: then {name} stops trials on their "
                "reports."
            )
        return None, stopper
    if not halvings:
        return None, stopper
    if len(halvings) > 1:
        names = " and ".join(type(one).__name__ for one in halvings)
        raise ConfigError(f"stopper has {names}, and a trial can be promoted by one of them alone. Drop the other.")
    rule = halvings[0]
    _check_rule(rule, eta)
    rest = [one for one in members(stopper) if one is not rule]
    return rule, FirstOf(rest) if rest else NeverStop()


def _check_rule(rule: ASHA | Hyperband, eta: int | None) -> None:
    name = type(rule).__name__
    if rule.min_steps != 1:
        raise ConfigError(
            f"{name}(min_steps={rule.min_steps}) counts reports, and with a fidelity the rungs are budgets. "
            "Leave it out; the smaller number in budget= is the first rung."
        )
    if isinstance(rule, Hyperband) and rule.brackets != Hyperband.brackets:
        raise ConfigError(
            f"{name}(brackets={rule.brackets}) with a fidelity: there is one for each rung. Leave it out; a larger "
            "smallest budget makes fewer."
        )
    if eta is not None and rule.eta not in (ETA, eta):
        raise ConfigError(f"eta={eta}, and {name}(eta={rule.eta}). Say it once.")
