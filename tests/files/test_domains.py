"""``NAME=DOMAIN``: what is read, and what is refused without ever being run."""

from __future__ import annotations

from typing import Any

import pytest

from etude import SpaceError, choice, integers, loguniform, ordered, uniform
from etude.files.domains import read_domain, read_space


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("loguniform(1e-4, 1)", loguniform(1e-4, 1)),
        ("etude.uniform(0, 1, step=0.25)", uniform(0, 1, step=0.25)),
        ("integers(1, 64, log=True)", integers(1, 64, log=True)),
        ("uniform(-1, +1)", uniform(-1, 1)),
        ("ordered(['s', 'm'])", ordered(["s", "m"])),
        (
            "choice({'sgd': {'momentum': uniform(0, 1)}, 'adam': {}})",
            choice({"sgd": {"momentum": uniform(0, 1)}, "adam": {}}),
        ),
        ("[32, 64]", [32, 64]),
        ("[-1, (1, 2)]", [-1, (1, 2)]),
        ("5", 5),
        ("'adam'", "adam"),
        ("None", None),
    ],
)
def test_a_domain_is_a_literal_or_a_call(text: str, domain: Any) -> None:
    assert read_domain("x", text) == domain


def test_a_space_keeps_its_order_and_may_have_dots_and_equals_signs() -> None:
    space = read_space(["b=1", "optimizer.lr = uniform(0, 1, step=0.5)", "a='x=y'"])
    assert list(space.items()) == [("b", 1), ("optimizer.lr", uniform(0, 1, step=0.5)), ("a", "x=y")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr=logunifrm(1e-4, 1)", "lr: There is no domain 'logunifrm'. Did you mean 'loguniform'?"),
        (
            "lr=open('x')",
            "lr: There is no domain 'open'. Known: uniform, loguniform, integers, choice, ordered, piecewise, upto.",
        ),
        (
            "opt=adam",
            "opt=adam is neither a Python literal nor a call of uniform, loguniform, integers, choice, ordered, "
            "piecewise, upto. "
            "Write opt='\"adam\"' if a text is meant.",
        ),
        (
            "lr=loguniform",
            "lr=loguniform is neither a Python literal nor a call of uniform, loguniform, integers, choice, ordered, "
            "piecewise, upto. "
            "Write lr='loguniform(...)'.",
        ),
        (
            "lr=uniform(1, 0)",
            "lr: uniform(1, 0) has its bounds reversed, so no value lies between them. Write uniform(0.0, 1.0).",
        ),
        (
            "lr=uniform(0)",
            "lr: uniform(0) cannot be called so: uniform() missing 1 required positional argument: 'high'.",
        ),
        (
            "lr",
            "'lr' is no NAME=DOMAIN. Write lr='loguniform(1e-4, 1)', width='[32, 64]' or epochs=5, with quotes where "
            "the shell would read more into it.",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_mend(text: str, message: str) -> None:
    with pytest.raises(SpaceError) as refused:
        read_space([text])
    assert str(refused.value) == message


def test_one_name_is_given_once() -> None:
    with pytest.raises(SpaceError, match=r"^lr is given twice: 1 and 2\. Leave one\.$"):
        read_space(["lr=1", "lr=2"])


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('false')",
        "uniform(0, 1).__class__",
        "[x for x in (1,)]",
        "uniform(*[0, 1])",
        "uniform(**{'low': 0})",
        "choice({**{}})",
        "os.uniform(0, 1)",
        "(lambda: 1)()",
        "1 +",
        "x := 1",
    ],
)
def test_nothing_but_literals_and_domains_is_ever_evaluated(text: str) -> None:
    with pytest.raises(SpaceError):
        read_domain("lr", text)
