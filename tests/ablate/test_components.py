"""Components as text and as values: what is read, what is printed, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import etude
from etude.ablate.components import (
    BetweenComponent,
    Component,
    DataComponent,
    LayerComponent,
    Natural,
    PartComponent,
    SettingComponent,
    read_component,
)
from etude.ablate.spelling import counted, read_value, spelled_indices, spelled_value
from etude.core.errors import ConfigError

make = etude.components

READ = {
    "feature:age": make.feature("age"),
    "features:[a,b]": make.feature("a", "b"),
    "feature:~^DER_": make.feature(matching="^DER_"),
    "features:~^DER_": make.feature(matching="^DER_"),
    "features:DER_*": make.feature("DER_*"),
    "feature:Age (years)": make.feature("Age (years)"),
    'features:["a,b", "]" ,c]': make.feature("a,b", "]", "c"),
    "feature:age how=permute": make.feature("age", how="permute"),
    "feature:age how=constant value=0.5": make.feature("age", how="constant", value=0.5),
    "feature:deck how=constant value=unknown": make.feature("deck", how="constant", value="unknown"),
    "channel:0": make.channel(0),
    "channels:[0,2]": make.channel(0, 2),
    "modality:image": make.modality("image"),
    "layer:conv2": make.layer("conv2"),
    "layer: conv2 ": make.layer("conv2"),
    "layers:[conv1,pool1]": make.layer("conv1", "pool1"),
    "layer:[conv1, pool1]": make.layer("conv1", "pool1"),
    "layers:block1_*": make.layer("block1_*"),
    "layers:~dropout": make.layer(matching="dropout"),
    "layer:conv2 with=relu2": make.layer("conv2", with_="relu2"),
    "layer:conv2 with=[relu2,pool2] repair=learned": make.layer("conv2", with_=["relu2", "pool2"], repair="learned"),
    "module:encoder.block3": LayerComponent("module", ("encoder.block3",)),
    "type:Dropout": make.of_type("Dropout"),
    "types:[Dropout,ReLU]": make.of_type("Dropout", "ReLU"),
    "between:mixed0..mixed1": make.between("mixed0", "mixed1"),
    "between:encoder.1..encoder.3 repair=learned": make.between("encoder.1", "encoder.3", repair="learned"),
    "filters:conv2[0:16]": make.filters("conv2", range(16)),
    "units:fc1[0:64]": make.units("fc1", slice(0, 64)),
    "heads:attn[0, 3]": make.heads("attn", [0, 3]),
    "units:fc1[-8:]": make.units("fc1", slice(-8, None)),
    "dropout": etude.setting("dropout"),
    "optimizer.lr": etude.setting("optimizer.lr"),
    "optimizer=sgd": etude.setting("optimizer", off="sgd"),
    "optimizer = sgd": etude.setting("optimizer", off="sgd"),
    "clip=inf": etude.setting("clip", off=math.inf),
    "schedule=None": etude.setting("schedule", off=None),
    "version='2'": etude.setting("version", off="2"),
    "url=layer:x": etude.setting("url", off="layer:x"),
}
"""What people write -> what it means."""


@pytest.mark.parametrize("text", READ)
def test_a_text_and_a_value_mean_the_same(text: str) -> None:
    read = read_component(text)
    assert read == READ[text]
    assert type(read) is type(READ[text])
    assert read_component(read) is read
    assert read_component(str(read)) == read
    assert len(str(read)) <= len(text) + 1  # a list has a plural


def test_a_module_and_a_layer_print_the_word_that_was_used() -> None:
    assert str(read_component("module:encoder.block3")) == "module:encoder.block3"
    assert str(read_component("layer:encoder.block3")) == "layer:encoder.block3"


def test_off_values_keep_their_type() -> None:
    for text, off in {"a=0": 0, "a=0.0": 0.0, "a=False": False, "a='False'": "False", "a=(1, 2)": (1, 2)}.items():
        read = read_component(text)
        assert isinstance(read, SettingComponent)
        assert (type(read.off), read.off, str(read)) == (type(off), off, text)


# --- every value reads back -----------------------------------------------------------------------

NAMES = st.one_of(
    st.from_regex(r"[a-z]{1,4}(\.[a-z0-9]{1,4}){0,3}", fullmatch=True),
    st.text(min_size=1, max_size=8),
    st.text(alphabet=' .,:[]~"=*\\with', min_size=1, max_size=10),
    st.sampled_from(["a with=b", "x repair=learned", "~a", "[", '"', "a..b", "a.", ".a", " a", "a\n", "\ud800"]),
)
SEVERAL = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
OPTIONS: Any = {"with_": st.lists(NAMES, max_size=2).map(tuple), "repair": st.sampled_from(["auto", "learned"])}
PATTERNS = st.sampled_from(["^DER_", "drop(out)?", "a b", '"', " a", "[ab]$", "x how=drop", "~"])
CONSTANTS = st.one_of(NAMES, st.floats(allow_nan=False), st.integers(), st.sampled_from(["'", "'a' with=b'", "1"]))
OFFS = st.one_of(CONSTANTS, st.none(), st.booleans(), st.tuples(st.integers(), st.text(max_size=3)))


@st.composite
def data_components(draw: st.DrawFn) -> Component:
    kind = draw(st.sampled_from(["feature", "channel", "modality"]))
    by = {"names": draw(SEVERAL)} if draw(st.booleans()) else {"pattern": draw(PATTERNS)}
    how = draw(st.sampled_from(["drop", "permute", "constant"]))
    return DataComponent(kind, **by, how=how, value=draw(CONSTANTS) if how == "constant" else None)  # type: ignore[arg-type]


COMPONENTS = st.one_of(
    data_components(),
    st.builds(LayerComponent, st.sampled_from(["layer", "module", "type"]), SEVERAL, **OPTIONS),
    st.builds(LayerComponent, st.just("layer"), pattern=PATTERNS, **OPTIONS),
    st.builds(BetweenComponent, NAMES, NAMES, **OPTIONS),
    st.builds(
        PartComponent,
        st.sampled_from(["filters", "units", "heads"]),
        NAMES,
        st.lists(st.integers(0, 30), min_size=1, max_size=3).map(spelled_indices),
        **OPTIONS,
    ),
    st.builds(SettingComponent, st.from_regex(r"[a-z_]{1,4}(\.[a-z]{1,3})?", fullmatch=True), OFFS),
)


@given(COMPONENTS)
def test_every_component_reads_back_as_what_it_prints(component: Component) -> None:
    read = read_component(str(component))
    assert read == component
    assert repr(read) == repr(component)  # 0 and False are equal, and not the same


def unquoted(text: str) -> Iterator[str]:
    """Yield the text with one of its quoted names bare."""
    parts = text.split('"')
    for i in range(1, len(parts) - 1):
        yield '"'.join(parts[:i]) + parts[i] + '"'.join(parts[i + 1 :])


@given(COMPONENTS)
def test_no_quote_is_printed_that_could_be_left_out(component: Component) -> None:
    for shorter in unquoted(str(component)):
        try:
            assert repr(read_component(shorter)) != repr(component)
        except ConfigError:
            continue


@given(NAMES)
def test_a_value_reads_back(text: str) -> None:
    assert read_value(spelled_value(text)) == text


# --- what is refused ------------------------------------------------------------------------------

REFUSED = {
    "": "it has no kind",
    "conv 2": "it has no kind",
    "2": "it has no kind",
    "layr:conv2": "has the kind 'layr', and there are: feature, channel, modality, layer, module, type, between, "
    "filters, units, heads",
    "layer:": "lacks a name",
    "layers:[]": "lacks a name",
    "layers:[a,]": "lacks a name",
    "layers:[~a,b]": "has a pattern where names are asked for; a pattern stands alone, as in 'layers:~drop'",
    "layer:a with=~b": "has a pattern where names are asked for",
    "layers:[a": "has a bracket that is not closed",
    "layers:[a]b": "goes on with 'b'",
    'layer:"a': "has a quote that is not closed",
    "layers:~(": "is no regular expression",
    "layers:~*dropout": "with '*' and '?' alone leave the '~' out",
    "layer:a repair=magic": "There are: 'auto', 'learned'",
    "layer:a how=drop": "has the option how=, and here there are: with=, repair=",
    "layer:a with=b with=c": "has the option with= twice",
    "feature:a how=mean": "There are: 'drop', 'permute', 'constant'",
    "feature:a how=constant": "A constant needs its value",
    "feature:a value=0": "only a constant has one",
    "between:a": "does not say up to where",
    "filters:conv2": "does not say which, in brackets",
    "filters:conv2[x]": "Pass whole numbers, a slice or a range",
    "filters:conv2[]": "Pass whole numbers, a slice or a range",
    "filters:conv2[0:8:0]": "Pass whole numbers, a slice or a range",
    "custom:no_se": "Pass etude.custom('no_se', model=...) itself",
    "drop=nan": "NaN, which equals nothing",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_text_that_is_no_component_is_refused_with_the_mend(text: str) -> None:
    if text == "drop=nan":  # the text is a word; only the number is refused
        assert read_component(text) == etude.setting("drop", off="nan")
        with pytest.raises(ConfigError, match=REFUSED[text]):
            etude.setting("drop", off=math.nan)
        return
    with pytest.raises(ConfigError) as refused:
        read_component(text)
    assert REFUSED[text] in str(refused.value)


def test_a_refusal_reads_as_sentences() -> None:
    with pytest.raises(ConfigError) as refused:
        read_component("layers:[conv1,pool1")
    assert str(refused.value) == (
        "'layers:[conv1,pool1' is no component: it has a bracket that is not closed. Names with odd characters stand "
        "in double quotes; etude.components has functions that make the same from plain arguments."
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"paired": "no"},
            "etude.custom('x', paired='no') says neither that its runs are pairs nor that they are not. "
            "Pass True or False, or leave it out to go by how they begin.",
        ),
        (
            {"paired": 0},
            "etude.custom('x', paired=0) says neither that its runs are pairs nor that they are not. "
            "Pass True or False, or leave it out to go by how they begin.",
        ),
        ({"says": 3}, "etude.custom('x', says=3) is no sentence. Pass a text."),
        ({"says": None}, "etude.custom('x', says=None) is no sentence. Pass a text."),
    ],
)
def test_what_is_said_of_functions_is_checked(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        etude.custom("x", train=print, **given)
    assert str(refused.value) == told


def test_values_are_checked_as_texts_are() -> None:
    for call, problem in (
        (make.layer, "pass one of them"),
        (lambda: make.layer("a", matching="b"), "pass one of them"),
        (lambda: make.feature(""), "are not all names"),
        (lambda: make.layer("a", repair="magic"), "There are: 'auto', 'learned'"),  # type: ignore[arg-type]
        (lambda: make.filters("a", True), "Pass whole numbers"),
        (lambda: make.filters("a", range(0)), "Pass whole numbers"),
        (lambda: make.filters("a", slice(4, 0, -1)), "Pass whole numbers"),
        (lambda: etude.setting("a b"), "no name of a hyperparameter"),
        (lambda: etude.custom("x"), "changes nothing"),
        (lambda: etude.custom("", model=dict), "needs a name"),
        (lambda: etude.custom("x", model=3), "is no function"),  # type: ignore[arg-type]
        (lambda: read_component(3), "is no component"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigError, match=problem):
            call()  # type: ignore[no-untyped-call]


def test_a_custom_variant_prints_its_name_and_holds_its_functions() -> None:
    variant = etude.custom("no_se", model=dict, train=list)
    assert str(variant) == "custom:no_se"
    assert variant.functions == {"model": dict, "train": list}


# --- indices and differences ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("indices", "n", "numbers"),
    [
        ("0:4", 8, (0, 1, 2, 3)),
        ("-2:", 8, (6, 7)),
        ("5,1,1", 8, (1, 5)),
        ("-1", 8, (7,)),
        ("0:8:3,1", 8, (0, 1, 3, 6)),
        (":", 2, (0, 1)),
        ("0:8", 8, tuple(range(8))),
        ("4:2", 8, ()),
        ("8", 8, None),
        ("0:9", 8, None),
        ("-9", 8, None),
        ("-9:", 8, None),
    ],
)
def test_indices_are_counted_as_python_counts_but_never_beyond(
    indices: str, n: int, numbers: tuple[int, ...] | None
) -> None:
    assert counted(indices, n) == numbers


def test_what_differs_between_configurations_becomes_components() -> None:
    start = {"lr": 0.1, "augment": True, "optimizer": "adam", "epochs": 3}
    end = {"lr": 0.1, "augment": 1, "optimizer": "sgd", "epochs": 3}
    assert [str(one) for one in make.differences(start, end)] == ["augment=1", "optimizer=sgd"]
    with pytest.raises(ConfigError, match="are equal"):
        make.differences(start, dict(start))
    with pytest.raises(ConfigError, match="'lr' stands in one of the two configurations alone"):
        make.differences({"a": 1}, {"a": 2, "lr": 1})


def test_a_setting_without_an_off_value_says_so() -> None:
    assert read_component("dropout") == SettingComponent("dropout", Natural.OFF)
