"""What was said to ``etude mage``, who is asked because of it, and within which limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from etude.cli.mage_options import OfAsking, OfRuns, OfThePlan
from etude.cli.mage_told import say
from etude.core.errors import ConfigError

if TYPE_CHECKING:
    from etude.mage.asking.budget import Budget, Limits
    from etude.mage.backends.protocol import Backend
    from etude.mage.loop.book import Setup, Whom

DIRECTIONS = ("", "max", "min")
PER_VARIANT: Final = {"calls": "calls", "tokens": "output", "input": "input", "cost": "cost", "seconds": "wall_s"}
"""What ``--per-variant`` limits, as it is said and as it is kept: the words are those of ``--max-...``."""


def said(
    root: Path | str,
    plan: OfThePlan,
    asking: OfAsking,
    *,
    runs: OfRuns = OfRuns(),  # noqa: B008 - it is frozen
    tier: str = "",
    writer: str | None = None,
    planner: str | None = None,
    repairs: int | None = None,
) -> Setup:
    """Return what is said of a study in one call, with nothing in it that is not.

    Raises:
        ConfigError: Something of it cannot be.
    """
    from etude.mage.loop.book import Setup, Whom
    from etude.mage.loop.preparing import read_docs

    if plan.mode not in DIRECTIONS:
        raise ConfigError(f"--mode {plan.mode} is no direction. Pass max or min.")
    if asking.base_url and not (writer or planner):
        raise ConfigError(
            f"--base-url {asking.base_url} says where somebody is asked, and nobody is named. Name them, as in "
            "--backend openai:MODEL (or --planner, --explainer)."
        )
    return Setup(
        root=str(Path(root).resolve()),
        entry=plan.entry,
        metric=plan.metric,
        mode=plan.mode,
        tier=tier,
        docs=read_docs(plan.doc or ()),
        columns=tuple(dict.fromkeys(plan.column or ())),
        choices=choices(plan.choose or ()),
        steps=plan.steps,
        planner=whom(planner, asking) if planner else Whom(),
        writer=whom(writer, asking) if writer or not planner else Whom(),
        local_only=asking.local_only,
        budget=limits(asking),
        repairs=repairs,
        most_bytes=plan.most_bytes,
        short=runs.short,
        short_s=runs.short_limit,
    )


def whom(name: str | None, asking: OfAsking) -> Whom:
    """Return who is asked, and what is said of them."""
    from etude.mage.loop.book import Whom

    return Whom(name=name or "", base_url=asking.base_url or "", context=asking.context, most_output=asking.most_output)


def service(api: str, model: str) -> str:
    """Return whom AblationMage's words name.

    Raises:
        ConfigError: It is none of the services.
    """
    from etude.mage.backends.naming import SERVICES

    if api not in SERVICES:
        raise ConfigError(
            f"--api {api} is none of {', '.join(SERVICES)}. A server that speaks the language of one of them is "
            "-a openai -m MODEL@URL; whoever else can be asked is named in `etude mage write PATH --backend`."
        )
    return f"{api}:{model}"


def named(said: Setup, setup: Setup) -> Whom:
    """Return whoever is named in one call, with what the study knows of them; nobody if none is."""
    from etude.mage.loop.book import Whom

    return setup.writer if said.writer.name else Whom()


def choices(texts: Sequence[str]) -> dict[str, str]:
    """Return how components are meant: component -> what goes along.

    Raises:
        ConfigError: A text says neither, or two say different things of one component.
    """
    chosen: dict[str, str] = {}
    for one in texts:
        name, equals, reading = one.partition("=")
        if not (name and equals and reading):
            raise ConfigError(f"--choose {one} is no choice. Write it as conv2=pool.")
        if chosen.setdefault(name, reading) != reading:
            raise ConfigError(f"--choose says {name}={chosen[name]} and {one}. Leave one of them out.")
    return chosen


def limits(asking: OfAsking) -> Budget:
    """Return the limits that were given.

    Raises:
        ConfigError: The price table cannot be read, or a limit of each variant is none.
    """
    from etude.mage.asking.budget import Budget, Limits
    from etude.mage.asking.prices import read_prices

    prices = asking.prices
    try:
        known = read_prices(prices.read_text(encoding="utf-8"), source=str(prices)) if prices is not None else None
    except OSError as error:
        raise ConfigError(f"--prices {prices} cannot be read: {error.strerror}. Name a file that is there.") from None
    except UnicodeDecodeError:
        raise ConfigError(
            f"--prices {prices} is no text in UTF-8, so it is no price table. Save it as UTF-8."
        ) from None
    return Budget(
        study=Limits(
            calls=asking.max_calls,
            input=asking.max_input,
            output=asking.max_tokens,
            cost=asking.max_cost,
            wall_s=asking.max_seconds,
        ),
        variant=per_variant(asking.per_variant or ()),
        prices=known,
    )


def per_variant(texts: Sequence[str]) -> Limits:
    """Return the limits of each variant: ``calls=4``.

    Raises:
        ConfigError: A text is no limit, or two are of the same.
    """
    import msgspec

    from etude.mage.asking.budget import Limits

    found: dict[str, str] = {}
    for one in texts:
        what, equals, number = one.partition("=")
        if what not in PER_VARIANT or not equals:
            raise ConfigError(
                f"--per-variant {one} is no limit. Write it as calls=4; what can be limited: {', '.join(PER_VARIANT)}."
            )
        if found.setdefault(PER_VARIANT[what], number) != number:
            raise ConfigError(f"--per-variant says {what}={found[PER_VARIANT[what]]} and {one}. Leave one of them out.")
    try:
        limits = msgspec.convert(found, Limits, strict=False)
    except msgspec.ValidationError:
        limits = None
    if limits is None or not all(0 <= number < math.inf for number in limits_said(limits)):
        raise ConfigError(
            f"--per-variant {' '.join(texts)} has no number of 0 or more, which has to be whole for calls and tokens. "
            "Write it as calls=4."
        )
    return limits


def limits_said(limits: Limits) -> list[float]:
    """Return the numbers of some limits, without what nobody has said."""
    every = (limits.calls, limits.input, limits.output, limits.cost, limits.wall_s)
    return [number for number in every if number is not None]


def backend(whom: Whom, setup: Setup, *, is_asked: bool = True) -> Backend | None:
    """Return who is asked; refused before anything is read if it cannot be, unless nothing is to be sent.

    Args:
        whom: As the user has named them; nobody if it is empty.
        setup: Says what may leave this machine, and what may be spent.
        is_asked: Whether something is to be sent: then what that needs has to be there.

    Raises:
        ConfigError: There is no such backend, or a limit of money cannot be kept for it.
        BackendError: It cannot be asked, or may send things elsewhere.
    """
    from etude.mage.backends.naming import backend_of, check_ready

    if not whom.name:
        return None
    found = backend_of(
        whom.name,
        base_url=whom.base_url or None,
        local_only=setup.local_only,
        context=whom.context,
        most_output=whom.most_output,
        say=say,
    )
    if is_asked:
        check_ready(found)
        setup.budget.check(found.name)
    return found
