"""What components stand for in a listing, and what is refused or warned of before anything runs."""

from __future__ import annotations

import pytest

import etude
from etude.ablate.arms import together
from etude.ablate.listing import Feature, Layer, Listing, Setting, outermost
from etude.ablate.matching import Matched, check_arm, match, match_all
from etude.core.errors import ConfigError
from etude.core.removal import Arm, Features, Layers, Part, Whole

make = etude.components

LAYERS = (
    Layer("conv1", "Conv2d", 320, filters=32, called=(1,)),
    Layer("relu1", "ReLU", called=(2,)),
    Layer("drop1", "Dropout", called=(3,)),
    Layer("block1", "Block", 900, called=(8,)),
    Layer("block1.conv2", "Conv2d", 400, 1, filters=64, called=(4,)),
    Layer("block1.relu2", "ReLU", 0, 1, called=(5,)),
    Layer("block1.attn", "MultiheadAttention", 500, 1, heads=4, called=(6,)),
    Layer("block1.dropout", "Dropout", 0, 1, called=(7,)),
    Layer("block2", "Block", 400, called=(11,)),
    Layer("block2.conv2", "Conv2d", 400, 1, filters=64, called=(9,)),
    Layer("block2.relu2", "ReLU", 0, 1, called=(10,)),
    Layer("fc1", "Linear", 640, units=128, called=(12,)),
    Layer("dead", "Linear", 10, units=5),
    Layer("head", "Linear", 100, units=10, called=(13,), role="output"),
)
FEATURES = (
    Feature("age"),
    Feature("fare"),
    Feature("DER_mass"),
    Feature("DER_sum"),
    Feature("a*b"),
    Feature("survived", role="label"),
    Feature("passenger", role="id"),
    Feature("0", kind="channel", modality="image"),
    Feature("1", kind="channel", modality="image"),
    Feature("caption", modality="text"),
)
SETTINGS = (
    Setting("dropout", 0.5),
    Setting("layers", 3),
    Setting("augment", True),
    Setting("amsgrad", False),
    Setting("optimizer", "adam"),
    Setting("clip", None),
    Setting("path", "/data", kind="stateless"),
    Setting("n_features", 30, kind="derived"),
)
LISTING = Listing(LAYERS, FEATURES, SETTINGS)


def whole(component: object) -> list[str]:
    layers = match(component, LISTING).arm.layers  # type: ignore[arg-type]
    assert layers is not None
    assert all(isinstance(target, Whole) for target in layers.targets)
    return [target.path for target in layers.targets]


def problem(component: object, listing: Listing = LISTING) -> str:
    with pytest.raises(ConfigError) as refused:
        match(component, listing)  # type: ignore[arg-type]
    return str(refused.value)


# --- layers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("component", "paths"),
    [
        ("layer:conv1", ["conv1"]),
        ("layer:attn", ["block1.attn"]),  # the end of one path
        ("layer:block1.conv2", ["block1.conv2"]),
        ("module:block1", ["block1"]),
        ("layers:[fc1,conv1]", ["conv1", "fc1"]),
        ("layers:[block1,block1.conv2]", ["block1"]),  # what is inside goes with it
        ("layers:relu?", ["block1.relu2", "block2.relu2", "relu1"]),
        ("layers:block?.conv2", ["block1.conv2", "block2.conv2"]),
        ("layers:conv*", ["block1.conv2", "block2.conv2", "conv1"]),
        ("layers:~drop", ["block1.dropout", "drop1"]),
        ("layers:~block1", ["block1"]),
        ("type:Dropout", ["block1.dropout", "drop1"]),
        ("types:[Dropout,Block]", ["block1", "block2", "drop1"]),
        ("type:~^(ReLU|Block)$", ["block1", "block2", "relu1"]),
        ("between:conv1..block1", ["block1", "drop1", "relu1"]),
        ("between:block1..block2", ["block2"]),
        ("between:conv1..attn", ["block1.attn", "block1.conv2", "block1.relu2", "drop1", "relu1"]),
        ("between:attn..fc1", ["block1.dropout", "block2", "fc1"]),  # not the block that attn stands in
    ],
)
def test_layers_are_found(component: str, paths: list[str]) -> None:
    assert whole(component) == paths


def test_a_star_stands_for_no_dot() -> None:
    assert whole("layers:block*") == ["block1", "block2"]
    assert "matches no layer" in problem("layers:b*.c*.*")


def test_an_exact_path_is_never_ambiguous() -> None:
    listing = Listing((Layer("conv", "Conv2d", 1), Layer("block", "B", 1), Layer("block.conv", "Conv2d", 1)))
    assert match("layer:conv", listing).arm.layers == Layers((Whole("conv"),))


def test_what_goes_along_is_looked_for_beside_the_layer_first() -> None:
    along = match("layer:block2.conv2 with=relu2", LISTING).arm.layers
    assert along == Layers((Whole("block2.conv2"),), along=("block2.relu2",))
    both = match("layers:block?.conv2 with=relu2", LISTING).arm.layers
    assert both is not None
    assert both.along == ("block1.relu2", "block2.relu2")
    assert "'relu2' stands for 2 layers" in problem("layer:fc1 with=relu2")
    inside = match("layer:block1 with=block1.relu2", LISTING).arm.layers
    assert inside == Layers((Whole("block1"),))  # it goes anyway
    assert match("layer:fc1 repair=learned", LISTING).arm.layers == Layers((Whole("fc1"),), repair="learned")


def test_patterns_say_what_they_matched_and_plain_names_say_nothing() -> None:
    assert match("layers:~drop", LISTING).says == ("'layer:~drop' is 2 layers: drop1, block1.dropout.",)
    assert match("type:Dropout", LISTING).says == ("'type:Dropout' is 2 layers: drop1, block1.dropout.",)
    assert match("between:block1..fc1", LISTING).says == ("'between:block1..fc1' is 2 layers: block2, fc1.",)
    assert match("features:DER_*", LISTING).says == ("'feature:DER_*' is 2 features: DER_mass, DER_sum.",)
    assert match("layer:attn", LISTING).says == ()
    assert match("feature:age", LISTING).says == ()
    many = Listing(tuple(Layer(f"conv{i}", "Conv2d", 1) for i in range(12)))
    assert match("layers:conv?", many).says == (
        "'layer:conv?' is 10 layers: conv0, conv1, conv2, conv3, conv4, conv5, conv6, conv7 and 2 more.",
    )


def test_a_field_whose_columns_have_no_names_is_a_modality_by_itself() -> None:
    field = match("modality:age", LISTING)
    assert field.arm.features == match("feature:age", LISTING).arm.features
    assert field.says == ("'modality:age' is 1 feature: age.",)
    both = Listing(features=(*FEATURES, Feature("image")))
    assert match("modality:image", both).says == ("'modality:image' is 2 features: channel:0, channel:1.",)
    assert match("modality:[image,age]", both).arm.features == Features(("age", "channel:0", "channel:1"))
    with pytest.raises(ConfigError, match="'survived' is the label"):
        match("modality:survived", LISTING)
    with pytest.raises(ConfigError, match="matches no modality"):
        match("modality:agee", LISTING)
    assert match("modality:*", LISTING).says == ("'modality:*' is 3 features: channel:0, channel:1, caption.",)


def test_a_layer_that_reads_the_data_itself_is_marked_and_warned_of() -> None:
    model = Listing(
        (
            Layer("stem", "S", 9),
            Layer("stem.conv", "Conv2d", 9, 1, filters=4, reads_data=True),
            Layer("side", "Linear", 5, units=2, reads_data=True),
            Layer("fc", "Linear", 9),
        )
    )
    assert "    stem.conv  Conv2d  9 parameters, 4 filters, reads the data" in str(model).splitlines()
    assert match("layer:stem", model).warns == (
        "'stem.conv' reads the data itself: without it, what comes after reads the data as it is. "
        "What a feature is worth is another question: 'feature:NAME'.",
    )
    assert match("layers:[stem.conv,side]", model).warns[0].startswith("'stem.conv', 'side' read the data itself: with")
    assert match("layer:fc", model).warns == match("filters:stem.conv[0]", model).warns == ()


def test_an_input_that_the_framework_calls_a_layer_is_refused_as_what_it_is() -> None:
    model = Listing((Layer("c1", "Conv2D", 9), Layer("o", "Dense", 9)), inputs=("input_layer_3",))
    assert problem("layer:input_layer", model) == (
        "'layer:input_layer' cannot be taken away: 'input_layer_3' is an input of the model, and without it no data "
        "reaches what comes after. Take away what reads it, or features of the data."
    )


def test_parts_of_layers_are_counted() -> None:
    part = match("filters:conv1[-2:]", LISTING).arm.layers
    assert part == Layers((Part("conv1", "filters", (30, 31)),))
    assert match("heads:attn[3,0]", LISTING).arm.layers == Layers((Part("block1.attn", "heads", (0, 3)),))
    assert match("heads:block1[3,0]", LISTING).arm.layers == Layers((Part("block1.attn", "heads", (0, 3)),))


def test_a_layer_that_is_also_called_elsewhere_stays_and_that_is_said() -> None:
    shared = Listing(
        (
            Layer("a", "Conv2d", 1, called=(1,)),
            Layer("relu", "ReLU", called=(2, 4, 6)),
            Layer("b", "Conv2d", 1, called=(3,)),
            Layer("c", "Conv2d", 1, called=(5,)),
        )
    )
    found = match("between:a..b", shared)
    assert found.arm.layers == Layers((Whole("b"),))
    assert found.warns == ("'relu' is also called outside of 'between:a..b', and stays.",)
    assert "'relu' is called several times, before and after 'b'" in problem("between:b..relu", shared)


def test_a_dead_layer_is_warned_of() -> None:
    assert match("layer:dead", LISTING).warns == (
        "'dead' is never called with the example: a dead component, whose removal changes nothing.",
    )
    assert match("layer:fc1", LISTING).warns == ()
    unknown = Listing((Layer("a", "Linear", 1), Layer("b", "Linear", 1)))
    assert match("layer:a", unknown).warns == ()  # where no calls are known, none is missing


# --- features and settings ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("component", "features"),
    [
        ("feature:age", Features(("age",))),
        ("features:[fare,age]", Features(("age", "fare"))),
        ("feature:~^DER_", Features(("DER_mass", "DER_sum"))),
        ("feature:a*b", Features(("a*b",))),  # there is one of that very name
        ("channel:0", Features(("channel:0",))),
        ("modality:image", Features(("channel:0", "channel:1"))),
        ("modality:text", Features(("caption",))),
        ("feature:age how=constant value=0", Features(("age",), "constant", 0)),
        ("feature:age how=permute", Features(("age",), "permute")),
    ],
)
def test_features_are_found(component: str, features: Features) -> None:
    assert match(component, LISTING).arm == Arm(str(make.read_component(component)), features=features)


@pytest.mark.parametrize(
    ("component", "settings"),
    [
        ("dropout", {"dropout": 0.0}),
        ("layers", {"layers": 0}),
        ("augment", {"augment": False}),
        ("optimizer=sgd", {"optimizer": "sgd"}),
        ("dropout=0", {"dropout": 0.0}),
        ("layers=1", {"layers": 1}),
    ],
)
def test_settings_are_switched_off(component: str, settings: dict[str, object]) -> None:
    found = match(component, LISTING)
    assert found.arm == Arm(component, settings=settings)
    [(name, off)] = settings.items()
    assert type(found.arm.settings[name]) is type(off)
    was = next(setting.value for setting in SETTINGS if setting.name == name)
    assert found.says == (f"{name}: {was!r} -> {off!r}.",)


def test_a_custom_variant_is_an_arm_by_its_name() -> None:
    assert match(etude.custom("no_se", model=dict), Listing()).arm == Arm("custom:no_se", variant="no_se")


# --- what is refused ------------------------------------------------------------------------------

MESSAGES = {
    "layer:conv9": "'layer:conv9' matches no layer. Did you mean 'conv1' or 'block1.conv2' or 'block2.conv2'?",
    "layer:ATTN": "'layer:ATTN' matches no layer. Did you mean 'block1.attn'?",
    "layers:[conv1,zzz]": "'layers:[conv1,zzz]' matches no layer: there is no 'zzz'. There are: conv1, relu1, drop1, "
    "block1, block1.conv2, block1.relu2, block1.attn, block1.dropout and 6 more.",
    "layer:age": "There is 'feature:age'.",
    "layer:Dropout": "There is 'type:Dropout'.",
    "type:dropout": "'type:dropout' matches no type of layer. Did you mean 'Dropout'?",
    "layers:~xyz": "'layer:~xyz' matches no layer. There are: conv1, relu1,",
    "layer:conv2": "'layer:conv2' is ambiguous: 'conv2' stands for 2 layers, block1.conv2, block2.conv2. Write the "
    "whole path of one of them, or 'layers:~(^|\\.)conv2$' for all as one arm.",
    "between:conv2..fc1": "'between:conv2..fc1' is ambiguous",
    "between:block2..block1": "'between:block2..block1' is empty: 'block2' stays, and 'block1' is called before it. "
    "Did you mean 'between:block1..block2'?",
    "between:conv1..conv1": "'between:conv1..conv1' is empty: 'conv1' stays, and nothing is called between a layer and "
    "itself. Name a later layer as the end, or take this one away: 'layer:conv1'.",
    "between:attn..block1": "'between:attn..block1' is empty: 'block1.attn' stays, and 'block1' holds it. "
    "Name a later layer.",
    "between:dead..fc1": "needs to know when 'dead' is called, and with the example it never is",
    "layer:head": "'layer:head' cannot be taken away: 'head' is the output layer, which gives what the model returns. "
    "Take away a layer before it, or write a variant: etude.custom(name, model=...).",
    "type:Linear": "'head' is the output layer",
    "units:head[0]": "'head' is the output layer",
    "layer:fc1 with=head": "'head' is the output layer",
    "layer:attn with=block1": "would take along 'block1', which holds what is taken away itself",
    "filters:fc1[0]": "'fc1' is a Linear, which has no filters. It has: 128 units.",
    "filters:relu1[0]": "It has: no parts that could go alone.",
    "filters:conv1[0:64]": "'conv1' has 32 filters, and [0:64] goes beyond the last, which is 31. "
    "Pass indices from 0 to 31.",
    "filters:conv1[8:4]": "[8:4] stands for none",
    "filters:conv1[0:32]": "are all 32 filters of 'conv1'. Take the layer away: 'layer:conv1'.",
    "feature:~zzz": "'feature:~zzz' matches no feature. There are: age, fare,",
    "feature:aeg": "'feature:aeg' matches no feature. Did you mean 'age'?",
    "feature:dropout": "There is 'layer:dropout' and 'dropout'.",
    "channel:7": "'channel:7' matches no channel. There are: 0, 1.",
    "modality:audio": "'modality:audio' matches no modality. There are: image, text.",
    "feature:survived": "'survived' is the label, and without it nothing can be learned. Take another feature away.",
    "feature:passenger": "'passenger' tells examples apart and is not learned from",
    "feature:~a": "Leave it out of the pattern, or name the others.",
    "features:[age,fare,DER_mass,DER_sum,a*b,caption]": None,
    "dropuot": "'dropuot' matches no hyperparameter. Did you mean 'dropout'?",
    "fc1": "There is 'layer:fc1'.",
    "amsgrad": "'amsgrad' is off already: its value is False, so that nothing would change.",
    "dropout=0.5": "is off already",
    "layers=3": "is off already",
    "optimizer": "it is 'adam', neither a number nor a switch. Say which value is: "
    "etude.setting('optimizer', off=...), or 'optimizer=...'.",
    "clip": "it is None, neither a number nor a switch",
    "path": "it cannot change the numbers, being Stateless",
    "n_features": "its value comes from the data, as it is Derived",
}


@pytest.mark.parametrize("component", [text for text, said in MESSAGES.items() if said])
def test_what_cannot_be_is_refused_with_the_mend(component: str) -> None:
    said = MESSAGES[component]
    assert said is not None
    assert said in problem(component)


def test_the_mend_for_an_ambiguous_name_works() -> None:
    assert whole("layers:~(^|\\.)conv2$") == ["block1.conv2", "block2.conv2"]


def test_nothing_but_the_rest_of_the_data_is_no_data() -> None:
    table = Listing(features=(Feature("age"), Feature("fare"), Feature("y", role="label")))
    said = problem("features:[age,fare]", table)
    assert said == (
        "'features:[age,fare]' takes away all 2 features, so that there is nothing to learn from. Leave some of them "
        'out, take them away one at a time, or pass how="permute", which keeps their shapes.'
    )
    assert match("features:[age,fare] how=permute", table).arm.features is not None
    assert "There is no" not in problem("feature:x", Listing())
    assert "the data has no feature with a name" in problem("feature:x", Listing())


def test_a_model_without_layers_that_learn_is_no_model() -> None:
    model = Listing((Layer("a", "Linear", 9), Layer("relu", "ReLU"), Layer("b", "Sequential", 9), Layer("b.0", "L", 9)))
    assert "takes away every layer that learns" in problem("layers:[a,b]", model)
    assert "takes away every layer that learns" in problem("layer:a with=b.0", model)
    assert match("layers:[a,relu]", model).arm.layers is not None
    assert "no model function" in problem("layer:a", Listing())


def test_the_input_layer_stays_and_so_does_the_block_that_holds_it() -> None:
    model = Listing((Layer("stem", "S", 9), Layer("stem.in", "InputLayer", role="input"), Layer("fc", "Linear", 9)))
    assert "'stem.in' is the input layer" in problem("layer:stem.in", model)
    assert "'stem' holds the input layer 'stem.in'" in problem("layer:stem", model)


def test_arms_that_were_joined_are_looked_at_anew() -> None:
    arms = [match(one, LISTING).arm for one in ("filters:conv1[:16]", "filters:conv1[16:]")]
    with pytest.raises(ConfigError, match="takes away all 32 filters of 'conv1'"):
        check_arm(together(arms), LISTING)
    table = Listing(features=(Feature("a"), Feature("b")))
    both = together([match(one, table).arm for one in ("feature:a", "feature:b")])
    with pytest.raises(ConfigError, match="takes away all 2 features"):
        check_arm(both, table)


# --- several --------------------------------------------------------------------------------------


def test_components_that_stand_for_the_same_are_one() -> None:
    found = match_all(["layer:attn", "module:block1.attn", "dropout"], LISTING)
    assert [one.arm.name for one in found] == ["layer:attn", "dropout"]
    assert found[0].says == ("'module:block1.attn' takes away the same, and is no arm of its own.",)


def test_one_component_needs_no_list_and_none_is_an_error() -> None:
    [found] = match_all("dropout", LISTING)
    assert isinstance(found, Matched)
    with pytest.raises(ConfigError, match="nothing to take away"):
        match_all([], LISTING)


def test_custom_variants_need_names_of_their_own() -> None:
    same = etude.custom("x", model=dict)
    assert len(match_all([same, same], LISTING)) == 1
    with pytest.raises(ConfigError, match="Two custom variants are called 'custom:x'"):
        match_all([same, etude.custom("x", model=list)], LISTING)


# --- the listing itself ---------------------------------------------------------------------------


def test_a_listing_prints_what_could_be_taken_away() -> None:
    listing = Listing(
        (
            Layer("block", "Block", 1330, called=(2,)),
            Layer("block.conv", "Conv2d", 1330, 1, filters=32),
            Layer("head", "Linear", 10, units=2, called=(3,), role="output"),
        ),
        (Feature("age"), Feature("y", role="label"), Feature("0", kind="channel", modality="image")),
        (Setting("lr", 0.1), Setting("path", "x", kind="stateless")),
    )
    assert str(listing) == (
        "layers (1,340 parameters)\n"
        "  block         Block  1,330 parameters\n"
        "    block.conv  Conv2d  1,330 parameters, 32 filters, never called\n"
        "  head          Linear  10 parameters, 2 units, output\n"
        "features\n"
        "  age\n"
        "  y  label\n"
        "  channel:0  image\n"
        "settings\n"
        "  lr = 0.1\n"
        "  path = 'x'  stateless"
    )
    assert str(Listing()) == ""


def test_what_is_outermost() -> None:
    assert outermost(["a.b.c", "a", "ab", "a.b", "c.d"]) == ["a", "ab", "c.d"]
