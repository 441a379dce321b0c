"""Budgets and prices: no call that could pass a limit, no cost that nobody knows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.core.errors import BudgetSpent, ConfigError
from etude.mage.asking.budget import Budget, Limits, Spending, Spent, amounts, most_input
from etude.mage.asking.prices import EXAMPLE, Price, Prices, read_prices
from etude.mage.backends.protocol import Message, Request, Usage

NAME = "anthropic:claude-sonnet-5-5"
PRICES = Prices(date="2026-11-24", currency="USD", models={"anthropic:*": Price(input=3.0, output=15.0)})


def request_of(characters: int, most_tokens: int = 100) -> Request:
    return Request(system="", messages=(Message(role="user", text="x" * characters),), most_tokens=most_tokens)


def refusal_of(budget: Budget, spent: Spending, request: Request, *, variant: str = "") -> BudgetSpent:
    with pytest.raises(BudgetSpent) as refused:
        budget.reserve(request, spent=Spent(variants={variant: spent}), backend=NAME, variant=variant)
    return refused.value


def test_the_words_for_money_that_is_over() -> None:
    budget = Budget(study=Limits(cost=1.0), prices=PRICES)
    request = request_of(3 * 1_000 - 96, 20_466)
    refused = refusal_of(budget, Spending(calls=6, cost=0.88), request)
    assert str(refused) == "Stopped before call 7: it could cost 0.31, 0.12 is left."
    assert (refused.what, refused.variant) == ("cost", "")


@pytest.mark.parametrize(
    ("limits", "spent", "what", "told"),
    [
        (Limits(calls=6), Spending(calls=6), "calls", "Stopped before call 7: 6 are allowed."),
        (Limits(calls=1), Spending(calls=1), "calls", "Stopped before call 2: 1 is allowed."),
        (
            Limits(output=4_099),
            Spending(calls=6, output=4_000),
            "output",
            "Stopped before call 7: it could take 100 output tokens, 99 are left.",
        ),
        (
            Limits(input=1_131),
            Spending(calls=6),
            "input",
            "Stopped before call 7: it could take 1,132 input tokens, 1,131 are left.",
        ),
        (Limits(wall_s=60), Spending(calls=6, wall_s=60.0), "wall_s", "Stopped before call 7: all of 60 s were used."),
    ],
)
def test_every_limit_has_its_words(limits: Limits, spent: Spending, what: str, told: str) -> None:
    request = request_of(3_300)
    refused = refusal_of(Budget(study=limits), spent, request)
    assert (str(refused), refused.what) == (told, what)
    named = refusal_of(Budget(variant=limits), spent, request, variant="without-conv2")
    assert str(named) == told.replace(":", " of without-conv2:", 1)
    assert named.variant == "without-conv2"


def test_what_exactly_fits_is_let_through() -> None:
    limits = Limits(calls=7, input=1_132, output=100, wall_s=60)
    budget = Budget(study=limits, variant=limits)
    could = budget.reserve(
        request_of(3_300), spent=Spent(variants={"a": Spending(calls=6, wall_s=59.9)}), backend=NAME, variant="a"
    )
    assert (could.calls, could.input, could.output, could.cost) == (1, 1_132, 100, None)


def test_a_variant_has_a_limit_of_its_own_and_the_study_one_for_all() -> None:
    budget = Budget(study=Limits(calls=3), variant=Limits(calls=2))
    spent = Spent(variants={"a": Spending(calls=2), "b": Spending()})
    with pytest.raises(BudgetSpent, match=r"^Stopped before call 3 of a: 2 are allowed\.$"):
        budget.reserve(request_of(1), spent=spent, backend=NAME, variant="a")
    budget.reserve(request_of(1), spent=spent, backend=NAME, variant="b")
    with pytest.raises(BudgetSpent, match=r"^Stopped before call 4: 3 are allowed\.$"):
        budget.reserve(request_of(1), spent=spent.plus("b", Spending(calls=1)), backend=NAME, variant="b")


def test_a_limit_of_money_without_a_price_is_refused_at_once() -> None:
    for prices, why in ((None, "no price table was given"), (PRICES, "the price table does not name it")):
        with pytest.raises(ConfigError) as refused:
            Budget(study=Limits(cost=5), prices=prices).check("openai:gpt-5")
        assert str(refused.value) == (
            f"--max-cost=5 cannot be kept: what 'openai:gpt-5' costs is unknown, {why}. Unknown is not 0. Give prices "
            f"that you have looked up, or limit tokens and calls instead. A price table:\n{EXAMPLE}"
        )
    Budget(study=Limits(cost=5), prices=PRICES).check(NAME)
    Budget(study=Limits(calls=5)).check("openai:gpt-5")


def test_an_unknown_cost_stays_unknown_however_much_is_added() -> None:
    unknown = Budget().settle(Spending(calls=1, cost=None), Usage(input=1, output=1), backend=NAME)
    assert unknown.cost is None
    assert (unknown + Spending(cost=1.0)).cost is None
    spent = Spent(variants={"a": unknown, "b": Spending(cost=1.0)})
    assert spent.total.cost is None
    refused = refusal_of(Budget(study=Limits(cost=9), prices=PRICES), spent.total, request_of(1))
    assert str(refused) == "Stopped before call 2: what it costs, or what was spent before, is unknown, which is not 0."


def test_a_lost_call_settles_at_what_was_reserved_and_others_at_what_they_took() -> None:
    budget = Budget(prices=PRICES)
    reserved = budget.reserve(request_of(3_000), spent=Spent(), backend=NAME)
    assert reserved.cost == pytest.approx((1_032 * 3 + 100 * 15) / 1e6)
    lost = budget.settle(reserved, None, backend=NAME, wall_s=2.0)
    assert lost == Spending(calls=1, input=1_032, output=100, cost=reserved.cost, wall_s=2.0)
    took = budget.settle(reserved, Usage(input=700, output=40), backend=NAME, wall_s=2.0)
    assert (took.input, took.output, took.cost) == (700, 40, pytest.approx((700 * 3 + 40 * 15) / 1e6))
    silent = budget.settle(reserved, Usage(), backend=NAME)
    assert (silent.input, silent.output, silent.cost) == (1_032, 100, reserved.cost)


def test_kept_and_newly_kept_parts_have_prices_of_their_own() -> None:
    price = Price(input=3.0, output=15.0, cached=0.3, written=3.75)
    usage = Usage(input=10_000, output=100, cached=6_000, written=3_000)
    assert price.of(usage) == pytest.approx((1_000 * 3 + 6_000 * 0.3 + 3_000 * 3.75 + 100 * 15) / 1e6)
    assert price.of(Usage(input=5)) is None
    assert price.at_most(10_000, 100) >= 0.0375


def test_characters_of_any_language_are_guessed_from_above() -> None:
    chinese = Request(system="", messages=(Message(role="user", text="変異" * 50),), most_tokens=1)
    assert most_input(chinese) >= 100
    assert most_input(request_of(300)) >= 100


spendings = st.builds(
    Spending, calls=st.just(1), input=st.integers(0, 400), output=st.integers(0, 100), wall_s=st.floats(0, 5)
)


@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(1, 100), st.floats(0, 1)), max_size=30),
    st.integers(1, 8),
    st.integers(0, 2_000),
    st.integers(0, 600),
    st.floats(0, 0.02),
)
def test_no_order_of_calls_ever_passes_a_limit(
    calls: list[tuple[int, int, float]], most_calls: int, most_input_: int, most_output: int, most_cost: float
) -> None:
    limits = Limits(calls=most_calls, input=most_input_, output=most_output, cost=most_cost)
    budget, spent = Budget(study=limits, prices=PRICES), Spent()
    for characters, most_tokens, share in calls:
        try:
            reserved = budget.reserve(request_of(characters, most_tokens), spent=spent, backend=NAME)
        except BudgetSpent:
            continue
        usage = Usage(input=int(reserved.input * share), output=int(reserved.output * share))
        spent = spent.plus("", budget.settle(reserved, usage if share < 0.9 else None, backend=NAME))
    total = spent.total
    assert total.calls <= most_calls
    assert total.input <= most_input_
    assert total.output <= most_output
    assert total.cost is not None
    assert total.cost <= most_cost + 1e-12


@given(st.floats(0, 1e4), st.floats(0, 1e4))
def test_what_is_needed_is_shown_no_smaller_and_what_is_left_no_larger(could: float, left: float) -> None:
    needed, there = amounts(could, left)
    assert float(needed) >= could - 1e-8
    assert float(there) <= left + 1e-8


# --- price tables ---------------------------------------------------------------------------------


def test_a_price_table_is_read() -> None:
    prices = read_prices(EXAMPLE)
    assert (prices.date, prices.currency) == ("2026-11-24", "USD")
    assert prices.of("anthropic:claude-sonnet-4-5") == Price(input=3.0, output=15.0, cached=0.3)
    assert prices.of("openai:gpt-5") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("date = ", "is no TOML"),
        ('["a:b"]\ninput = 1\noutput = 1', "has no date"),
        ("date = 2026-11-24", "names no backend"),
        ('date = 2026-11-24\n["a:b"]\ninput = 1', "'a:b' has no price for output"),
        ('date = 2026-11-24\n["a:b"]\ninput = -1\noutput = 1', "input = -1 of 'a:b' is no price"),
        ('date = 2026-11-24\n["a:b"]\ninput = inf\noutput = 1', "input = inf of 'a:b' is no price"),
        ('date = 2026-11-24\n["a:b"]\ninput = 1\noutput = 1\nthinking = 1', "thinking = 1 of 'a:b' is no price"),
        ('date = 2026-11-24\n"a:b" = 3', "'a:b' is 3, and no table of prices"),
    ],
)
def test_a_price_table_that_is_none_says_what_is_wrong(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_prices(text, source="prices.toml")
    assert told in str(refused.value)
    assert str(refused.value).startswith("prices.toml")
