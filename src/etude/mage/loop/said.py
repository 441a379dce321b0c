"""What was said of a study, and what is said now: what a plan is made of holds; what carries it out may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from etude.core.errors import ConfigError
from etude.mage.asking.budget import Budget
from etude.mage.loop.book import STEPS, Setup, Whom
from etude.mage.near import listed
from etude.mage.tree import digest_of

S = TypeVar("S", bound=msgspec.Struct)

OF_THE_PLAN: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "entry": ("--entry", repr),
    "metric": ("--metric", repr),
    "mode": ("--mode", str),
    "docs": ("--doc", lambda docs: ", ".join(_told_text(name, text) for name, text in docs.items())),
    "columns": ("--column", listed),
    "steps": ("--steps", str),
}
"""What a study has one of: its option, and how it is told."""


def heeded(before: Setup | None, now: Setup, *, study: str) -> Setup:
    """Return how a study is prepared, after something more was said of it.

    Entry, metric, direction, documents, columns, steps and choices hold from when they were first said: a plan, and
    all that was judged by it, is made of them. Who is asked, limits and the sandbox are those that were said last. That
    nothing may leave this machine holds once it was said. What a model takes holds as long as that model is asked.

    Args:
        before: What was said; None of a study that begins.
        now: What is said now, with nothing in it that is not.
        study: Its name.

    Raises:
        ConfigError: Something else than before is said of what holds, or something of a model that nobody names.
    """
    if before is None:
        _check_named(now.writer)
        return msgspec.structs.replace(now, steps=now.steps or STEPS)  # the untouched program is watched for as many
    for name, (option, told) in OF_THE_PLAN.items():
        earlier, later = getattr(before, name), getattr(now, name)
        if earlier and later and not _alike(earlier, later):
            raise _other(option, told(later), told(earlier), study)
    for component, reading in now.choices.items():
        if (chosen := before.choices.get(component, reading)) != reading:
            raise _other("--choose", f"{component}={reading}", f"{component}={chosen}", study)
    return msgspec.structs.replace(
        _newest(before, now),
        tag=before.tag,
        seed=before.seed,
        choices={**before.choices, **now.choices},
        planner=asked_now(before.planner, now.planner),
        writer=asked_now(before.writer, now.writer),
        local_only=before.local_only or now.local_only,
        budget=Budget(
            study=_newest(before.budget.study, now.budget.study),
            variant=_newest(before.budget.variant, now.budget.variant),
            prices=now.budget.prices or before.budget.prices,
        ),
    )


def asked_now(before: Whom, now: Whom) -> Whom:
    """Return who is asked from now on: whoever is named, else whoever was; of the same one what is known is kept.

    Raises:
        ConfigError: Something is said of a model, and none was ever named.
    """
    if now.name and (now.name, now.base_url) != (before.name, before.base_url):
        return now
    whom = _newest(before, now)
    _check_named(whom)
    return whom


def _check_named(whom: Whom) -> None:
    if whom != Whom() and not whom.name:
        raise ConfigError(
            "--context and --most-output say what a model takes and gives, and none is named. Name it, as in --backend "
            "openai:MODEL@URL (or --planner, --explainer)."
        )


def plan_said(setup: Setup) -> str:
    """Return what tells the words that a plan is made with from other ones; empty if there are none."""
    docs = setup.docs if setup.planner.name else {}  # rules read none
    planner = Whom(name=setup.planner.name, base_url=setup.planner.base_url)  # what it takes changes no plan
    said = [setup.choices, setup.columns, msgspec.to_builtins(planner) if planner.name else None, docs]
    return digest_of(msgspec.msgpack.encode(said, order="deterministic")) if any(said) else ""


def _newest(before: S, now: S) -> S:
    """Return what was said last of each part; what is as it is by itself nobody has said."""
    unsaid = {
        field.name: getattr(before, field.name)
        for field in msgspec.structs.fields(before)
        if getattr(now, field.name) == _by_itself(field)
    }
    return msgspec.structs.replace(now, **unsaid)


def _by_itself(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return "" if field.default is msgspec.NODEFAULT else field.default


def _alike(one: Any, other: Any) -> bool:
    return set(one) == set(other) if isinstance(one, tuple) else bool(one == other)


def _other(option: str, later: str, earlier: str, study: str) -> ConfigError:
    return ConfigError(
        f"{option} is {later} now, and was {earlier} before in study {study}. What was planned and judged there would "
        f"be of something else. Leave {option} out to go on with what was said, or begin another study with --name."
    )


def _told_text(name: str, text: str) -> str:
    return f"{name} ({len(text.encode()):,} bytes, {digest_of(text.encode())[:8]})"
