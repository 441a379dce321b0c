"""What may still be spent: room is reserved before a call, and settled with what the call really took.

Pure: a budget knows its limits, and is told what was spent. ``asking`` keeps the sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final

from etude.core.errors import BudgetSpent, ConfigError
from etude.mage.asking.prices import EXAMPLE, Prices
from etude.mage.backends.protocol import Request, Usage
from etude.mage.values import Value

BYTES_A_TOKEN: Final = 3
"""A token has at least so many bytes of text, or nearly so: the guess is to be too high rather than too low."""

AROUND_A_MESSAGE: Final = 16
"""Tokens that a service adds to each message."""


class Limits(Value, frozen=True):
    """What may be spent at most; None for any.

    Attributes:
        calls: Requests that are sent, those that are sent again included.
        input: Tokens of questions.
        output: Tokens of answers.
        cost: Money, in the currency of the price table.
        wall_s: Seconds of working time: waiting for a service that is busy is none.
    """

    calls: int | None = None
    input: int | None = None
    output: int | None = None
    cost: float | None = None
    wall_s: float | None = None


class Spending(Value, frozen=True):
    """What was spent, or is reserved.

    Attributes:
        calls: Requests.
        input: Tokens of questions.
        output: Tokens of answers.
        cost: Money; None if nobody knows.
        wall_s: Seconds.
    """

    calls: int = 0
    input: int = 0
    output: int = 0
    cost: float | None = 0.0
    wall_s: float = 0.0

    def __add__(self, other: Spending) -> Spending:
        unknown = self.cost is None or other.cost is None
        return Spending(
            calls=self.calls + other.calls,
            input=self.input + other.input,
            output=self.output + other.output,
            cost=None if unknown else (self.cost or 0.0) + (other.cost or 0.0),
            wall_s=self.wall_s + other.wall_s,
        )


class Spent(Value, frozen=True):
    """What a study has spent so far, by variant; what belongs to none is under the empty name."""

    variants: Mapping[str, Spending] = {}

    @property
    def total(self) -> Spending:
        """All of it."""
        return sum(self.variants.values(), Spending())

    def of(self, variant: str) -> Spending:
        """Return what a variant has spent."""
        return self.variants.get(variant, Spending())

    def plus(self, variant: str, spending: Spending) -> Spent:
        """Return what has been spent after a variant has spent something more."""
        return Spent(variants={**self.variants, variant: self.of(variant) + spending})


class Budget(Value, frozen=True):
    """The user's limits.

    Attributes:
        study: Of all calls of a study together.
        variant: Of those of each variant.
        prices: What tokens cost; None if nobody said.
    """

    study: Limits = Limits()
    variant: Limits = Limits()
    prices: Prices | None = None

    def check(self, backend: str) -> None:
        """Refuse a limit of money where nobody knows what a backend costs; called before anything is asked.

        Raises:
            ConfigError: There is such a limit and no price.
        """
        limit = self.study.cost if self.study.cost is not None else self.variant.cost
        if limit is None or (self.prices is not None and self.prices.of(backend) is not None):
            return
        option = "--max-cost" if self.study.cost is not None else "--per-variant cost"
        table = "no price table was given" if self.prices is None else "the price table does not name it"
        raise ConfigError(
            f"{option}={limit:g} cannot be kept: what {backend!r} costs is unknown, {table}. Unknown is not 0. "
            f"Give prices that you have looked up, or limit tokens and calls instead. A price table:\n{EXAMPLE}"
        )

    def reserve(self, request: Request, *, spent: Spent, backend: str, variant: str = "") -> Spending:
        """Return what a call could take at most, if there is room for it.

        Args:
            request: The question.
            spent: What was spent so far.
            backend: Who is asked, as the price table names it.
            variant: For which variant; empty for none.

        Raises:
            BudgetSpent: It could pass a limit.
            ConfigError: As of ``check``.
        """
        self.check(backend)
        tokens, price = most_input(request), self.prices.of(backend) if self.prices is not None else None
        cost = price.at_most(tokens, request.most_tokens) if price is not None else None
        could = Spending(calls=1, input=tokens, output=request.most_tokens, cost=cost)
        if variant:
            refuse_what_could_pass(self.variant, spent.of(variant), could, variant=variant)
        refuse_what_could_pass(self.study, spent.total, could)
        return could

    def settle(self, reserved: Spending, usage: Usage | None, *, backend: str, wall_s: float = 0.0) -> Spending:
        """Return what a call took.

        Args:
            reserved: What was reserved for it.
            usage: What the service says; None if it was lost on the way, and then all that was reserved counts.
            backend: Who was asked.
            wall_s: How long it took.
        """
        if usage is None:
            return Spending(calls=1, input=reserved.input, output=reserved.output, cost=reserved.cost, wall_s=wall_s)
        price = self.prices.of(backend) if self.prices is not None else None
        known = price.of(usage) if price is not None else None
        return Spending(
            calls=1,
            input=reserved.input if usage.input is None else usage.input,
            output=reserved.output if usage.output is None else usage.output,
            cost=reserved.cost if known is None else known,
            wall_s=wall_s,
        )

    def left_s(self, *, spent: Spent, variant: str = "") -> float | None:
        """Return how much working time is left; None if there is no limit to it."""
        left = [
            limits.wall_s - so_far.wall_s
            for limits, so_far in ((self.study, spent.total), (self.variant, spent.of(variant)))
            if limits.wall_s is not None
        ]
        return max(min(left), 0.0) if left else None


def most_input(request: Request) -> int:
    """Return a guess of how many tokens a question has, from above."""
    texts = [request.system, *(message.text for message in request.messages)]
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    if request.schema is not None:
        size += len(repr(request.schema))
    return -(-size // BYTES_A_TOKEN) + AROUND_A_MESSAGE * len(texts)


def refuse_what_could_pass(limits: Limits, spent: Spending, could: Spending, *, variant: str = "") -> None:
    """Refuse a call that could pass one of some limits.

    Raises:
        BudgetSpent: It could.
    """
    call = f"Stopped before call {spent.calls + 1}" + (f" of {variant}" if variant else "")
    if limits.calls is not None and spent.calls + 1 > limits.calls:
        allowed = "1 is" if limits.calls == 1 else f"{limits.calls} are"
        raise BudgetSpent(f"{call}: {allowed} allowed.", what="calls", variant=variant)
    for what, limit, so_far, more in (
        ("input", limits.input, spent.input, could.input),
        ("output", limits.output, spent.output, could.output),
    ):
        if limit is not None and so_far + more > limit:
            left = max(limit - so_far, 0)
            raise BudgetSpent(
                f"{call}: it could take {more:,} {what} tokens, {left:,} {'is' if left == 1 else 'are'} left.",
                what=what,
                variant=variant,
            )
    if limits.cost is not None:
        if spent.cost is None or could.cost is None:
            raise BudgetSpent(
                f"{call}: what it costs, or what was spent before, is unknown, which is not 0.",
                what="cost",
                variant=variant,
            )
        if spent.cost + could.cost > limits.cost:
            asked, left_money = amounts(could.cost, max(limits.cost - spent.cost, 0.0))
            raise BudgetSpent(f"{call}: it could cost {asked}, {left_money} is left.", what="cost", variant=variant)
    if limits.wall_s is not None and spent.wall_s >= limits.wall_s:
        raise BudgetSpent(f"{call}: all of {limits.wall_s:g} s were used.", what="wall_s", variant=variant)


def amounts(could: float, left: float) -> tuple[str, str]:
    """Return two amounts of money as they are shown: what is needed rounded up, and what there is rounded down.

    Example:
        >>> amounts(0.3071, 0.1299)
        ('0.31', '0.12')
    """
    digits = Decimal("0.01") if could >= 0.1 else Decimal("0.0001")  # noqa: PLR2004 - below it cents say too little
    up = Decimal(str(round(could, 9))).quantize(digits, ROUND_CEILING)
    down = Decimal(str(round(left, 9))).quantize(digits, ROUND_FLOOR)
    return str(up), str(down)
