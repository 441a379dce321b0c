"""Claims as expressions: what they can say, and that they can do nothing else."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.core.errors import ExpressionError, MissingFactError
from etude.mage.facts import Ended, Facts, ModelFacts, ModuleFacts, ParameterFacts
from etude.mage.judge.expression import check_expression, holds, mentioned

ROWS = {"conv1.weight": ParameterFacts(shape=(8, 3, 3, 3)), "fc.weight": ParameterFacts(shape=(10, 8))}
BASE = Facts(
    ended=Ended(code=0, why="finished"),
    steps=3,
    models=(ModelFacts(type="Net", parameters=ROWS, modules={"conv1": ModuleFacts(type="Conv2d", calls=3)}),),
    lengths=(4, 2),
    calls={"train.py:smooth": 3},
    settings={"sizes": [1, 2, 3], "name": "x"},
    metrics={"accuracy": 0.5},
)


@pytest.mark.parametrize(
    "expression",
    [
        "len(variant.models) == 1",
        "variant.steps == base.steps == 3",
        "variant.models[0].parameters['fc.weight'].shape == (10, 8)",
        "variant.models[0].parameters['fc.weight'].shape[-1] * 2 == 16",
        "all(variant.models[0].parameters[name].trainable for name in variant.models[0].parameters)",
        "'bn' not in variant.models[0].modules",
        "not any('bn' in name for name in variant.models[0].parameters)",
        "sum(variant.lengths) == 6 and max(variant.lengths) - min(variant.lengths) == 2",
        "sorted([n for n in variant.lengths if n > 2]) == [4]",
        "set(variant.calls) == {'train.py:smooth'}",
        "variant.settings['sizes'] == (1, 2, 3)",
        "variant.settings['sizes'][1:] == [2, 3]",
        "0 < variant.metrics['accuracy'] <= 1",
        "abs(variant.metrics['accuracy'] - base.metrics['accuracy']) < 1e-9",
        "set(base.calls) - set(variant.calls) == set([])",
        "len({name[0] for name in variant.models[0].parameters}) == 2",
        "variant.ended.why == 'finished' or variant.ended.code is None",
        "all(a == b for a, b in [(1, 1), (2, 2)])",
    ],
)
def test_what_can_be_said(expression: str) -> None:
    assert holds(expression, BASE, BASE)


ESCAPES = [
    "__import__('os').system('true')",
    "().__class__.__bases__[0].__subclasses__()",
    "base.__class__",
    "base.__struct_fields__",
    "base._x",
    "variant.models[0].parameters.values()",
    "variant.calls.get('x')",
    "'{0.__class__}'.format(base)",
    "f'{base}' == ''",
    "open('/etc/passwd')",
    "eval('1')",
    "exec('1')",
    "getattr(base, 'steps')",
    "len.__self__",
    "(lambda: 1)()",
    "[x for x in (lambda: [1])()]",
    "[len for len in [1]]",
    "[base for base in [1]]",
    "[_ for _ in [1]]",
    "(x := 1) == 1",
    "9 ** 9 ** 9 > 1",
    "2 << 99999999 > 1",
    "'%999999999d' % 1 == ''",
    "[0] * 10 ** 9 == []",
    "[0] * 999999999 == []",
    "'a' * 999999999 == ''",
    "(1, 2) + (3,) == ()",
    "'a' + 'b' == 'ab'",
    "{'a': 1} == {}",
    "{**base.calls} == {}",
    "[*base.lengths] == []",
    "max(*base.lengths) == 4",
    "sorted(base.lengths, key=len) == []",
    "max(base.lengths, default=print) == 4",
    "min(base, key=eval)",
    "await base",
    "[x async for x in base.lengths]",
    "yield_",
    "b'bytes' == b''",
    "1j == 1",
    "... == 1",
    "base.steps if print(1) else 1",
    "~base.steps == 1",
    "base.steps @ base.steps",
    "base.steps & 1 == 1",
    "range(10**9)",
    "type(base)",
    "globals()",
    "sum([[1], [2]], []) == []",
    "any(True for a in base.calls for b in a for base in b)",
    "999999999999999999 * 999999999999999999 > 1",
    "9999999999999999999999999 > 1",
    "breakpoint()",
    "base",
    "base.steps",
    "",
    "   ",
    "1 +",
    "import os",
    "x = 1",
    "True; False",
    "True\nFalse",
    "\0",
    "(" * 300 + ")" * 300,
    "not " * 450 + "True",
    "-" * 1500 + "1 == 1",
    "1" + " + 1" * 480 + " == 2",
    "a" * 3000,
]


@pytest.mark.parametrize("expression", ESCAPES)
def test_nothing_else_can_be_done(expression: str) -> None:
    with pytest.raises(ExpressionError):
        holds(expression, BASE, BASE)


def test_work_is_bounded() -> None:
    many = Facts(ended=Ended(code=0, why="finished"), lengths=tuple(range(200)))
    with pytest.raises(ExpressionError, match="steps"):
        holds("len([1 for a in variant.lengths for b in variant.lengths for c in variant.lengths]) > 1", many, many)
    with pytest.raises(ExpressionError, match="steps"):
        holds("all(sum(variant.lengths) > 0 for a in variant.lengths for b in variant.lengths)", many, many)


def test_what_is_large_is_not_spelt_out() -> None:
    many = Facts(ended=Ended(code=0, why="finished"), lengths=tuple(range(50)), models=BASE.models)
    nested = "[[[variant for a in variant.lengths] for b in variant.lengths] for c in (1, 2, 3)]"
    with pytest.raises(ExpressionError) as refused:
        holds(nested, many, many)
    assert str(refused.value).endswith("gives a list, which is neither true nor false. Compare it with something.")
    with pytest.raises(ExpressionError):
        holds(f"variant.calls[{nested}[0] == 1] == 1", many, many)


def test_a_refusal_says_what_is_not_allowed_and_what_is() -> None:
    with pytest.raises(ExpressionError) as refused:
        holds("open('x') == 1", BASE, BASE)
    assert str(refused.value) == (
        "`open('x') == 1` has `open(...)`, which a claim may not. It may call len, sum, min, max, any, all, sorted, "
        "set, abs."
    )
    with pytest.raises(ExpressionError, match=r"Facts has ended, steps, models"):
        holds("variant.optimisers == ()", BASE, BASE)
    with pytest.raises(ExpressionError, match=r"which is neither true nor false"):
        holds("len(variant.models)", BASE, BASE)


def test_a_fact_that_is_not_there_is_told_apart_from_what_is_not_allowed() -> None:
    with pytest.raises(MissingFactError, match=r"bn\.weight"):
        holds("variant.models[0].parameters['bn.weight'].trainable", BASE, BASE)
    with pytest.raises(MissingFactError):
        holds("variant.models[7].type == 'Net'", BASE, BASE)


def test_it_is_refused_before_there_are_facts() -> None:
    check_expression("len(variant.models) == 1")
    with pytest.raises(ExpressionError):
        check_expression("True or open('x')")


def test_a_part_that_would_not_be_reached_is_refused_all_the_same() -> None:
    with pytest.raises(ExpressionError):
        holds("True or __import__('os')", BASE, BASE)


def test_the_fields_that_it_looks_at_are_known() -> None:
    assert mentioned("len(variant.optimizers) == len(base.models) and variant.lengths[0] > 1") == {
        "optimizers",
        "lengths",
    }
    assert mentioned("((") == frozenset()


ATOMS = st.sampled_from(
    [
        "base",
        "variant",
        "len",
        "x",
        "1",
        "'a'",
        "__class__",
        "[1]",
        "base.calls",
        "open",
        "base.steps",
        "()",
        "{1}",
        "1e9",
    ]
)


def grown(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(children, children)
    return st.one_of(
        two.map(lambda p: f"{p[0]}({p[1]})"),
        two.map(lambda p: f"{p[0]}[{p[1]}]"),
        two.map(lambda p: f"({p[0]} == {p[1]})"),
        two.map(lambda p: f"({p[0]} * {p[1]})"),
        two.map(lambda p: f"({p[0]} ** {p[1]})"),
        two.map(lambda p: f"[{p[0]} for x in {p[1]}]"),
        children.map(lambda one: f"{one}.__class__"),
        children.map(lambda one: f"{one}.steps"),
        children.map(lambda one: f"(lambda: {one})"),
        children.map(lambda one: f"sum({one})"),
        children.map(lambda one: f"not {one}"),
    )


@given(st.recursive(ATOMS, grown, max_leaves=12))
def test_any_expression_gives_a_truth_value_or_is_refused(expression: str) -> None:
    found: object = None
    with suppress(ExpressionError):
        found = holds(expression, BASE, BASE)
    assert found in (True, False, None)
    if found is not None:
        assert not any(word in expression for word in ("__class__", "open", "lambda", "**"))


@given(st.text(max_size=40))
def test_any_text_gives_a_truth_value_or_is_refused(text: str) -> None:
    with suppress(ExpressionError):
        assert holds(text, BASE, BASE) in (True, False)
