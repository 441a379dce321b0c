"""What tokens cost: only what the user says, and when that was true. Without it a cost is unknown, which is not 0."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date
from fnmatch import fnmatchcase
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.mage.backends.protocol import Usage
from etude.mage.values import Value

MILLION: Final = 1_000_000
KINDS: Final = ("input", "output", "cached", "written")

EXAMPLE: Final = (
    'date = 2026-11-24\ncurrency = "USD"\n\n["anthropic:claude-sonnet-*"]\ninput = 3.0\noutput = 15.0\ncached = 0.3\n'
)
"""What a price table looks like. The numbers are no claim."""


class Price(Value, frozen=True):
    """What a million tokens of a model cost.

    Attributes:
        input: Of the question.
        output: Of the answer.
        cached: Of the part of the question that the service had kept; None if that is no cheaper.
        written: Of the part that it began to keep; None if that is no dearer.
    """

    input: float
    output: float
    cached: float | None = None
    written: float | None = None

    def of(self, usage: Usage) -> float | None:
        """Return what a question cost; None where the service does not say how long it was."""
        if usage.input is None or usage.output is None:
            return None
        cached, written = usage.cached or 0, usage.written or 0
        plain = max(usage.input - cached - written, 0)
        for_input = plain * self.input + cached * self._cached + written * self._written
        return (for_input + usage.output * self.output) / MILLION

    def at_most(self, tokens_in: int, tokens_out: int) -> float:
        """Return what a question of such a size costs at most."""
        return (tokens_in * max(self.input, self._written, self._cached) + tokens_out * self.output) / MILLION

    @property
    def _cached(self) -> float:
        return self.input if self.cached is None else self.cached

    @property
    def _written(self) -> float:
        return self.input if self.written is None else self.written


class Prices(Value, frozen=True):
    """A user's price table.

    Attributes:
        date: When it was true, as ``2026-11-24``.
        currency: In what.
        models: Backend -> price; ``*`` and ``?`` stand for other characters, and the first that fits counts.
    """

    date: str
    currency: str
    models: Mapping[str, Price]

    def of(self, backend: str) -> Price | None:
        """Return the price of a backend; None if it is not in the table."""
        return next((price for name, price in self.models.items() if fnmatchcase(backend, name)), None)


def read_prices(text: str, *, source: str = "the price table") -> Prices:
    """Return a price table that is written as TOML.

    Args:
        text: What it says: a date, a currency, and a table for each backend.
        source: Where it came from, for errors.

    Raises:
        ConfigError: It has no date, or says something that is no price.

    Example:
        >>> read_prices(EXAMPLE).of("anthropic:claude-sonnet-4-5").output
        15.0
    """
    try:
        said: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is no TOML: {error}. It should look like this:\n{EXAMPLE}") from None
    day = said.pop("date", None)
    if not isinstance(day, date):
        raise ConfigError(f"{source} has no date. Prices change: say when they were true, as in date = 2026-11-24.")
    currency = said.pop("currency", "USD")
    models = {name: _price(name, value, source) for name, value in said.items()}
    if not models or not isinstance(currency, str):
        raise ConfigError(f"{source} names no backend. It should look like this:\n{EXAMPLE}")
    return Prices(date=day.isoformat()[:10], currency=currency, models=models)


def _price(name: str, value: Any, source: str) -> Price:
    if not isinstance(value, dict):
        raise ConfigError(
            f"{source}: {name!r} is {value!r}, and no table of prices. Write [{name!r}] above its prices."
        )
    for kind, number in value.items():
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if kind not in KINDS or not is_number or not 0 <= number < float("inf"):
            raise ConfigError(
                f"{source}: {kind} = {number!r} of {name!r} is no price. "
                f"Prices are numbers of 0 or more for a million tokens: {', '.join(KINDS)}."
            )
    missing = [kind for kind in ("input", "output") if kind not in value]
    if missing:
        raise ConfigError(f"{source}: {name!r} has no price for {' and '.join(missing)}.")
    return Price(**{kind: float(number) for kind, number in value.items()})
