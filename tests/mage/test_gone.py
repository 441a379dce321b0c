"""Modules that are gone, unused, replaced or resized: names, lists, wrappers, shared weights and several models."""

from typing import Any

import pytest

from etude.mage.facts import Ended, Facts, ModelFacts, ModuleFacts, ParameterFacts
from etude.mage.judge.baseline import compare_runs
from etude.mage.judge.comparing import names_call, plain
from etude.mage.judge.judging import judge
from etude.mage.judge.tables import expected, fits, renumbered, unwrapped
from etude.mage.variants import Variant
from etude.mage.verdicts import Outcome, Verdict
from etude.mage.witnesses import ModuleGone, ModuleReplaced, ModuleUnused, ModuleValue, Resized, Witness


def model(modules: dict[str, Any], *, kind: str = "Net", dead: tuple[str, ...] = (), calls: int = 3) -> ModelFacts:
    """Return a model of modules by path: shapes of ``weight``, or the class of one without parameters."""
    rows, made = {}, {"": ModuleFacts(type=kind, calls=calls)}
    for path, what in modules.items():
        if isinstance(what, str):
            made[path] = ModuleFacts(type=what, calls=0 if path in dead else calls)
        else:
            made[path] = ModuleFacts(type="Linear", calls=0 if path in dead else calls)
            rows[f"{path}.weight"] = ParameterFacts(shape=what, digest="d", got_gradient=path not in dead)
    return ModelFacts(type=kind, parameters=rows, modules=made)


def run(*models: ModelFacts, **others: Any) -> Facts:
    return Facts(ended=Ended(code=0, why="enough seen"), steps=3, models=models, losses=(1.0, 0.9, 0.8), **others)


def verdict(base: Facts, facts: Facts, *witnesses: Witness) -> Verdict:
    return judge(Variant(name="odd", intent="", witnesses=witnesses), compare_runs([base, base]), facts)


def told(found: Verdict) -> str:
    return "\n".join(reason.text for reason in found.reasons)


CHAIN = {"a": (4, 4), "b": (4, 4), "c": (2, 4)}


def test_a_module_is_gone() -> None:
    assert verdict(run(model(CHAIN)), run(model({"a": (4, 4), "c": (2, 4)})), ModuleGone(path="b")).passed


def test_a_neighbour_may_have_any_shape_where_only_the_program_can_tell() -> None:
    claim = ModuleGone(path="b", resized={"c.weight": None})
    assert verdict(run(model(CHAIN)), run(model({"a": (4, 4), "c": (2, 9)})), claim).passed
    strict = ModuleGone(path="b", resized={"c.weight": (2, 5)})
    found = verdict(run(model(CHAIN)), run(model({"a": (4, 4), "c": (2, 9)})), strict)
    assert told(found) == "`c.weight` is [2, 9] and was to become [2, 5]."


def test_others_need_not_stay_where_the_plan_says_so() -> None:
    other = run(model({"a": (4, 4), "c": (7, 4)}))
    assert not verdict(run(model(CHAIN)), other, ModuleGone(path="b")).passed
    found = verdict(run(model(CHAIN)), other, ModuleGone(path="b", others_stay=False))
    assert found.passed
    assert "`c.weight` is [7, 4], [2, 4] in the baseline." in found.alarms


def test_an_empty_sequence_is_nothing_and_a_full_one_is_something() -> None:
    base = run(model(CHAIN))
    assert verdict(base, run(model({"a": (4, 4), "b": "Sequential", "c": (2, 4)})), ModuleGone(path="b")).passed
    full = model({"a": (4, 4), "b": "Sequential", "b.0": "Tanh", "c": (2, 4)})
    assert not verdict(base, run(full), ModuleGone(path="b")).passed


def test_a_module_without_parameters_that_is_made_and_never_called_is_gone() -> None:
    base = run(model({"a": (4, 4), "act": "ReLU"}))
    assert verdict(base, run(model({"a": (4, 4), "act": "ReLU"}, dead=("act",))), ModuleGone(path="act")).passed
    assert not verdict(base, base, ModuleGone(path="act")).passed


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod."])
def test_a_wrapper_around_the_model_changes_no_names(prefix: str) -> None:
    plain_model = model({"a": (4, 4), "c": (2, 4)})
    parts = prefix.strip(".").split(".")
    modules = {f"{prefix}{name}".rstrip("."): one for name, one in plain_model.modules.items()}
    modules |= {".".join(parts[:n]): ModuleFacts(type="DataParallel", calls=3) for n in range(len(parts))}
    wrapped = ModelFacts(
        type="DataParallel",
        parameters={f"{prefix}{name}": row for name, row in plain_model.parameters.items()},
        modules=modules,
    )
    assert unwrapped(wrapped) == plain_model
    found = verdict(run(model(CHAIN)), run(wrapped), ModuleGone(path="b"))
    assert found.passed, told(found)
    assert "The model Net is wrapped in one of the two runs and not in the other." in found.alarms


def test_a_list_that_lost_one_counts_the_rest_anew() -> None:
    base = model({f"layers.{n}": (n + 1, n + 2) for n in range(4)})
    lost = model({"layers.0": (1, 2), "layers.1": (3, 4), "layers.2": (4, 5)})
    assert set(renumbered(lost, base, ["layers.1"]).parameters) == {f"layers.{n}.weight" for n in (0, 2, 3)}
    assert verdict(run(base), run(lost), ModuleGone(path="layers.1")).passed
    assert not verdict(run(base), run(lost), ModuleGone(path="layers.2")).passed


def test_a_list_that_lost_two_is_read_right() -> None:
    base = model({f"{n}": (n + 1, n + 2) for n in range(4)})
    lost = model({"0": (1, 2), "1": (3, 4)})
    assert verdict(run(base), run(lost), ModuleGone(path="1"), ModuleGone(path="3")).passed


def test_nested_modules_go_as_a_whole() -> None:
    base = model({"enc.block.fc": (4, 4), "enc.block.out": (4, 4), "head": (2, 4)})
    assert verdict(run(base), run(model({"head": (2, 4)})), ModuleGone(path="enc.block")).passed
    left = verdict(run(base), run(model({"enc.block.out": (4, 4), "head": (2, 4)})), ModuleGone(path="enc.block"))
    assert left.outcome is Outcome.FAILED


def test_a_name_that_begins_alike_is_another_module() -> None:
    base = model({"conv1": (4, 4), "conv10": (4, 4)})
    assert verdict(run(base), run(model({"conv10": (4, 4)})), ModuleGone(path="conv1")).passed


def test_of_two_models_the_one_that_changed_is_meant() -> None:
    base = run(model(CHAIN, kind="G"), model(CHAIN, kind="D"))
    found = verdict(
        base, run(model(CHAIN, kind="G"), model({"a": (4, 4), "c": (2, 4)}, kind="D")), ModuleGone(path="b")
    )
    assert found.passed, told(found)
    assert "2 models have `b`; it changed in `D` and not in `G`." in found.alarms
    assert not verdict(base, base, ModuleGone(path="b")).passed
    other = run(model({**CHAIN, "a": (5, 4)}, kind="G"), model({"a": (4, 4), "c": (2, 4)}, kind="D"))
    assert not verdict(base, other, ModuleGone(path="b")).passed


def test_a_model_that_is_not_trained_any_more_is_missed() -> None:
    base = run(model(CHAIN, kind="G"), model({"x": (4, 4)}, kind="D"))
    found = verdict(base, run(model({"a": (4, 4), "c": (2, 4)}, kind="G")), ModuleGone(path="b"))
    assert "The number of trained models is 1, 2 in the baseline" in told(found)


def test_a_replacement_has_the_planned_shapes_or_at_least_another_class() -> None:
    base = run(model(CHAIN))
    small = run(model({"a": (4, 4), "b": (4, 2), "c": (2, 4)}))
    assert verdict(base, small, ModuleReplaced(path="b", shapes={"weight": (4, 2)})).passed
    assert verdict(base, small, ModuleReplaced(path="b")).passed
    assert not verdict(base, small, ModuleReplaced(path="b", shapes={"weight": (4, 3)})).passed
    assert "the same Linear at `b`" in told(verdict(base, base, ModuleReplaced(path="b")))
    act = run(model({"a": (4, 4), "b": "GELU", "c": (2, 4)}))
    assert verdict(base, act, ModuleReplaced(path="b", type="GELU")).passed
    assert "is to be of class SiLU, and is GELU" in told(verdict(base, act, ModuleReplaced(path="b", type="SiLU")))


def test_sizes_that_may_be_any_are_any() -> None:
    claim = Resized(shapes={"c.weight": (None, 4)})
    assert "in the baseline already" in told(verdict(run(model(CHAIN)), run(model({**CHAIN, "c": (9, 4)})), claim))
    claim = Resized(shapes={"c.weight": (None, 9)})
    assert verdict(run(model(CHAIN)), run(model({**CHAIN, "c": (3, 9)})), claim).passed
    assert fits((3, 9), (None, 9))
    assert not fits((3, 9, 1), (None, 9))


def test_two_claims_that_disagree_about_a_neighbour_leave_it_open() -> None:
    claims = (ModuleGone(path="a", resized={"c.weight": (2, 5)}), ModuleGone(path="b", resized={"c.weight": (2, 6)}))
    assert expected(model(CHAIN), claims).rows == {"c.weight": None}


def test_an_unused_module_keeps_its_parameters() -> None:
    base = run(model(CHAIN))
    assert verdict(base, run(model(CHAIN, dead=("b",))), ModuleUnused(path="b")).passed
    assert "it was to stay" in told(verdict(base, run(model({"a": (4, 4), "c": (2, 4)})), ModuleUnused(path="b")))
    assert "still calls `b`" in told(verdict(base, base, ModuleUnused(path="b")))


def test_a_value_that_was_there_already_shows_nothing() -> None:
    base = ModelFacts(type="Net", modules={"d": ModuleFacts(type="Dropout", calls=3, values={"p": 0.0})})
    found = verdict(run(base), run(base), ModuleValue(path="d", name="p", value=0.0))
    assert found.outcome is Outcome.INCONCLUSIVE


def test_parameters_that_no_optimizer_has_are_not_trained() -> None:
    def moving(moved: bool) -> ModelFacts:
        rows = {"a.weight": ParameterFacts(shape=(4,), got_gradient=True, moved=moved)}
        return ModelFacts(type="Net", parameters=rows, modules={"a": ModuleFacts(type="Linear", calls=3)})

    base = run(moving(True), model(CHAIN))
    found = verdict(base, run(moving(False), model({"a": (4, 4), "c": (2, 4)})), ModuleGone(path="b"))
    assert told(found) == (
        "a keeps its first values in this variant, but is trained in the baseline: no optimizer has it."
    )


@pytest.mark.parametrize(
    ("name", "called", "means"),
    [
        ("clip_grad_norm_", "torch.nn.utils.clip_grad_norm_", True),
        ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_", True),
        ("smooth", "train.py:smooth", True),
        ("smooth", "train.py:Trainer.smooth", True),
        ("train.py:smooth", "src/train.py:smooth", True),
        ("train.py:smooth", "other.py:smooth", False),
        ("smooth", "train.py:smooth_more", False),
        ("relu", "aten.relu_.default", True),
        ("torch.nn.functional.relu", "train.py:relu", False),
        ("numpy.random.seed", "torch.random.seed", False),
    ],
)
def test_what_a_claims_name_means(name: str, called: str, means: bool) -> None:
    assert names_call(name, called) is means


def test_operators_are_told_by_plain_names() -> None:
    assert plain("aten.add_.Tensor") == plain("aten::add") == plain("add") == "add"
    assert plain("torch.nn.utils.clip_grad_norm_") == "torch.nn.utils.clip_grad_norm_"


# --- what goes along with a module ----------------------------------------------------------------


def activated(calls: int | None, *, rest: bool = True, relus: int = 12) -> Facts:
    """Return a run of a chain that calls one activation behind all of its layers, or of what is left of it."""
    layers = CHAIN if rest else {path: shape for path, shape in CHAIN.items() if path != "b"}
    found = model(layers)
    own = {"": ModuleFacts(type="Net", calls=3, operators={"aten.relu": relus})}
    own |= {"act": ModuleFacts(type="ReLU", calls=calls)} if calls is not None else {}
    return run(ModelFacts(type="Net", parameters=found.parameters, modules={**found.modules, **own}))


FEWER = "`act` is called 9 times, 12 times in the baseline."


@pytest.mark.parametrize(
    ("before", "left", "claim", "outcome", "alarms"),
    [
        (12, 9, ModuleGone(path="b", along=("act",)), Outcome.PASSED, ()),
        (12, 9, ModuleGone(path="b", idle=("act",)), Outcome.PASSED, (FEWER,)),
        (12, 9, ModuleGone(path="b"), Outcome.PASSED, (FEWER,)),
        (12, 6, ModuleGone(path="b", along=("act",)), Outcome.PASSED, (FEWER.replace("9", "6"),)),
        (12, 6, ModuleGone(path="b", along=("act", "act")), Outcome.PASSED, ()),
        (12, 11, ModuleGone(path="b", along=("act",)), Outcome.FAILED, ()),  # in one of three steps alone
        (12, None, ModuleGone(path="b", along=("act",)), Outcome.FAILED, ()),
        (12, 0, ModuleGone(path="b", along=("act",)), Outcome.FAILED, ()),
        (3, None, ModuleGone(path="b", along=("act",)), Outcome.PASSED, ()),
        (
            3,
            None,
            ModuleGone(path="b", idle=("act",)),
            Outcome.PASSED,
            ("The module `act` (ReLU) is not there any more, and by the plan it stays.",),
        ),
        (
            3,
            0,
            ModuleGone(path="b", idle=("act",)),
            Outcome.PASSED,
            ("`act` is called not at all, 3 times in the baseline.",),
        ),
        (3, None, ModuleGone(path="b"), Outcome.FAILED, ()),
    ],
)
def test_of_an_activation_no_more_calls_go_silently_than_the_plan_takes_away(
    before: int, left: int | None, claim: ModuleGone, outcome: Outcome, alarms: tuple[str, ...]
) -> None:
    found = verdict(activated(before), activated(left, rest=False), claim)
    assert (found.outcome, found.alarms) == (outcome, alarms), told(found)


@pytest.mark.parametrize(
    ("relus", "claim", "alarms"),
    [
        (9, ModuleGone(path="b", along=("relu",)), ()),
        (9, ModuleGone(path="b", idle=("relu",)), ("the model runs relu 9 times, 12 times in the baseline.",)),
        (9, ModuleGone(path="b", along=("act",)), ("the model runs relu 9 times, 12 times in the baseline.",)),
    ],
)
def test_of_a_function_no_more_calls_go_silently_than_the_plan_takes_away(
    relus: int, claim: ModuleGone, alarms: tuple[str, ...]
) -> None:
    found = verdict(activated(None), activated(None, rest=False, relus=relus), claim)
    assert (found.outcome, found.alarms) == (Outcome.PASSED, alarms), told(found)
