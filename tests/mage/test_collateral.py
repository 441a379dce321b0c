"""All that no claim is about has to be as in the baseline."""

from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from etude.mage.facts import Ended, Facts, FitFacts, ModelFacts, ModuleFacts, ParameterFacts
from etude.mage.judge import beginning as beginnings
from etude.mage.judge.baseline import compare_runs
from etude.mage.judge.beginning import beginning
from etude.mage.judge.judging import judge
from etude.mage.judge.licence import Licence
from etude.mage.judge.tables import Pair
from etude.mage.variants import Thing, Variant, What
from etude.mage.verdicts import Outcome, Verdict
from etude.mage.witnesses import CallGone, ColumnsGone, GroupValue, Holds, ModuleGone, SettingValue, Witness

GROUP = {"lr": 0.1, "momentum": 0.9, "betas": (0.9, 0.99)}


def net(*paths: str) -> ModelFacts:
    return ModelFacts(
        type="Net",
        parameters={f"{path}.weight": ParameterFacts(shape=(4, 4), got_gradient=True) for path in paths},
        modules={path: ModuleFacts(type="Linear", calls=3) for path in paths},
    )


PLAIN: dict[str, Any] = {
    "ended": Ended(code=0, why="finished"),
    "steps": 3,
    "models": (net("a", "b"),),
    "optimizers": ((GROUP, {**GROUP, "lr": 0.01}),),
    "scheduled": ("StepLR",),
    "batches": (((16, 8), (16,)), ((10, 8), (10,))),
    "batch_digests": ("x", "y"),
    "lengths": (3, 2),
    "losses": (1.0, 0.9, 0.8),
    "calls": {"train.py:main": 1, "train.py:evaluate": 2, "train.py:helper": 6, "torch.nn.utils.clip_grad_norm_": 3},
    "settings": {"args.lr": 0.1, "train.py:EPOCHS": 3, "args.out": "/tmp/a", "args.use_clip": True},
    "seeds": ("torch 0", "numpy 0"),
    "metrics": {"accuracy": 0.5},
}
GONE: dict[str, Any] = {**PLAIN, "models": (net("a"),), "losses": (1.1, 1.0, 0.9), "batch_digests": ("z", "y")}


def verdict(base: dict[str, Any], facts: dict[str, Any], *witnesses: Witness, what: What = What.MODULE) -> Verdict:
    thing = Thing(name="x", what=what, declared=("train.py", 1))
    variant = Variant(name="odd", intent="", witnesses=witnesses, things=(thing,))
    return judge(variant, compare_runs([Facts(**base), Facts(**base)]), Facts(**facts))


def told(found: Verdict) -> str:
    return "\n".join(reason.text for reason in found.reasons)


def test_what_keeps_to_its_claim_passes() -> None:
    assert verdict(PLAIN, GONE, ModuleGone(path="b")).passed


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        (
            {"optimizers": (({**GROUP, "lr": 0.2}, {**GROUP, "lr": 0.01}),)},
            "The learning rate is 0.2, 0.1 in the baseline",
        ),
        ({"optimizers": ((GROUP, {**GROUP, "lr": 0.1}),)}, "The learning rate (group 1) is 0.1, 0.01 in the baseline"),
        ({"optimizers": (({**GROUP, "betas": (0.8, 0.9)}, {**GROUP, "lr": 0.01}),)}, "`betas` of the optimizer"),
        ({"optimizers": ()}, "The number of optimizers is 0, 1 in the baseline"),
        ({"optimizers": (({**GROUP, "lr": 0.05},),)}, "The number of groups of parameters is 1, 2 in the baseline"),
        ({"scheduled": ()}, "The schedulers are [], [StepLR] in the baseline"),
        ({"batches": (((8, 8), (8,)), ((10, 8), (10,)))}, "The shapes of the first batches"),
        ({"lengths": (2, 2)}, "The numbers of batches in an epoch"),
        ({"losses": (1.1, 1.0)}, "The number of backward passes"),
        ({"steps": 2, "losses": (1.1, 1.0)}, "its training is shorter"),
        ({"steps": 4}, "its training is longer"),
        ({"seeds": ("torch 1", "numpy 0")}, "The seeds are [torch 1, numpy 0], [torch 0, numpy 0] in the baseline"),
        ({"seeds": ()}, "The seeds"),
        ({"settings": {**PLAIN["settings"], "train.py:EPOCHS": 1}}, "`train.py:EPOCHS` is 1, 3 in the baseline"),
        ({"calls": {**PLAIN["calls"], "train.py:evaluate": 0}}, "`train.py:evaluate` is called not at all, 2 times"),
        ({"calls": {**PLAIN["calls"], "train.py:evaluate": 9}}, "`train.py:evaluate` is called 9 times"),
        ({"calls": {**PLAIN["calls"], "torch.nn.utils.clip_grad_norm_": 0}}, "clip_grad_norm_"),
        (
            {"calls": {**PLAIN["calls"], "torch.nn.functional.mixup": 3}},
            "called in the variant and not in the baseline",
        ),
        ({"metrics": {}}, "The variant reports no `accuracy`, which the baseline does."),
        ({"metrics": {"accuracy": float("inf")}}, "`accuracy` is inf, which is no finite number."),
        ({"models": (net("a", "c"),)}, "`b` is not gone but renamed: `c.weight`"),
        ({"models": (net("a"), net("z"))}, "The number of trained models"),
    ],
)
def test_what_nobody_claimed_may_not_differ(changed: dict[str, Any], found: str) -> None:
    verdict_ = verdict(PLAIN, {**GONE, **changed}, ModuleGone(path="b"))
    assert not verdict_.passed
    assert found in told(verdict_)


@pytest.mark.parametrize(
    "changed",
    [
        {"settings": {**PLAIN["settings"], "args.out": "/tmp/b"}},
        {"calls": {**PLAIN["calls"], "train.py:helper": 3}},
        {"calls": {**PLAIN["calls"], "train.py:<lambda>": 3}},
        {"optimizers": ((GROUP,),)},
        {"wall_s": 9.0, "peak_mb": 50.0},
        {"ended": Ended(code=0, why="enough seen")},
    ],
)
def test_what_follows_from_a_removal_is_no_failure(changed: dict[str, Any]) -> None:
    assert verdict(PLAIN, {**GONE, **changed}, ModuleGone(path="b")).passed


def test_frozen_parameters_are_told() -> None:
    frozen = ModelFacts(
        type="Net",
        parameters={"a.weight": ParameterFacts(shape=(4, 4), trainable=False)},
        modules={"a": ModuleFacts(type="Linear", calls=3)},
    )
    assert "`a.weight` is frozen in this variant" in told(
        verdict(PLAIN, {**GONE, "models": (frozen,)}, ModuleGone(path="b"))
    )


def test_a_number_of_the_baseline_to_the_last_digit_is_written_down_and_not_measured() -> None:
    base = {**PLAIN, "metrics": {"loss": 0.8734213}}
    assert "written down and not measured" in told(
        verdict(base, {**GONE, "metrics": {"loss": 0.8734213}}, ModuleGone(path="b"))
    )
    shared = verdict(PLAIN, GONE, ModuleGone(path="b"))
    assert "`accuracy` is as in the baseline, though the losses differ." in shared.alarms


def test_data_may_not_change_where_nothing_was_drawn_otherwise() -> None:
    decay = {**PLAIN, "optimizers": (({**GROUP, "momentum": 0.0}, {**GROUP, "lr": 0.01, "momentum": 0.0}),)}
    claim = GroupValue(name="momentum", value=0.0)
    assert verdict(PLAIN, decay, claim).passed
    assert "the data are others" in told(verdict(PLAIN, {**decay, "batch_digests": ("q", "y")}, claim))
    assert "The first loss is 3.0, 1.0 in the baseline" in told(
        verdict(PLAIN, {**decay, "losses": (3.0, 0.9, 0.8)}, claim)
    )
    assert "was to become 0.0" in told(verdict(PLAIN, PLAIN, claim))
    assert verdict(PLAIN, PLAIN, GroupValue(name="nesterov", value=1)).outcome is Outcome.INCONCLUSIVE


def test_what_the_baseline_does_not_repeat_is_not_demanded() -> None:
    other = {**PLAIN, "calls": {**PLAIN["calls"], "train.py:helper": 7}}
    variant = Variant(name="odd", intent="", witnesses=(ModuleGone(path="b"),))
    base = compare_runs([Facts(**PLAIN), Facts(**other)])
    assert base.deterministic
    assert judge(variant, base, Facts(**{**GONE, "calls": {**PLAIN["calls"], "train.py:helper": 1}})).passed


# --- settings -------------------------------------------------------------------------------------


def test_what_follows_a_setting_from_its_old_value_to_its_new_one_is_explained() -> None:
    base = {**PLAIN, "settings": {"args.momentum": 0.9, "args.lr": 0.1}}
    group = {**GROUP, "momentum": 0.0}
    facts = {
        **base,
        "settings": {"args.momentum": 0.0, "args.lr": 0.1},
        "optimizers": ((group, {**group, "lr": 0.01}),),
        "losses": (1.0, 0.95, 0.9),
    }
    assert verdict(base, facts, SettingValue(name="momentum", value=0.0), what=What.SETTING).passed
    worse = {**facts, "optimizers": (({**group, "lr": 0.3}, {**group, "lr": 0.01}),)}
    assert "learning rate" in told(verdict(base, worse, SettingValue(name="momentum", value=0.0), what=What.SETTING))


def test_a_switch_that_takes_a_layer_along_is_for_a_person() -> None:
    off = {**GONE, "settings": {**PLAIN["settings"], "args.use_clip": False}}
    found = verdict(PLAIN, off, SettingValue(name="use_clip", value=False), what=What.SETTING)
    assert found.outcome is Outcome.FOR_A_PERSON
    assert "`b.weight`" in told(found)


def test_a_switch_takes_along_what_has_its_name() -> None:
    off = {
        **PLAIN,
        "settings": {**PLAIN["settings"], "args.use_clip": False},
        "calls": {key: n for key, n in PLAIN["calls"].items() if "clip" not in key},
        "losses": (1.0, 0.95, 0.9),
    }
    assert verdict(PLAIN, off, SettingValue(name="use_clip", value=False), what=What.SETTING).passed


def test_an_unknown_setting_shows_nothing() -> None:
    assert verdict(PLAIN, PLAIN, SettingValue(name="ghost", value=1)).outcome is Outcome.INCONCLUSIVE


# --- calls ----------------------------------------------------------------------------------------


def test_a_call_that_the_baseline_does_not_make_shows_nothing() -> None:
    assert verdict(PLAIN, PLAIN, CallGone(name="ghost")).outcome is Outcome.INCONCLUSIVE


def test_others_that_were_to_be_called_still_are() -> None:
    calls = {**PLAIN["calls"], "torch.nn.utils.clip_grad_norm_": 0, "train.py:helper": 5}
    facts = {**PLAIN, "calls": calls, "losses": (1.0, 0.95, 0.9)}
    found = verdict(PLAIN, facts, CallGone(name="clip_grad_norm_", still=("train.py:helper",)), what=What.TRICK)
    assert "`train.py:helper` is called 5 times, 6 times in the baseline: only `clip_grad_norm_` was to go." in told(
        found
    )


# --- columns --------------------------------------------------------------------------------------


def fitted(*columns: str, digests: bool = True, **others: Any) -> dict[str, Any]:
    contents = tuple(f"of {name}" for name in columns) if digests else ()
    if others.pop("numbered", False):
        columns = tuple(map(str, range(len(columns))))
    fit = FitFacts(type="Trees", rows=50, columns=columns, target="t", digests=contents, **others)
    return {"ended": Ended(code=0, why="finished"), "fits": (fit,), "metrics": {"auc": 0.5}}


A_GONE = ColumnsGone(columns=("a",))


def test_exactly_the_columns_are_gone() -> None:
    base = fitted("a", "b", "c")
    assert verdict(base, fitted("b", "c"), A_GONE, what=What.COLUMNS).passed
    assert "`a` still reaches Trees.fit" in told(verdict(base, base, A_GONE))
    assert "2 were to go" not in told(verdict(base, fitted("b"), A_GONE))
    assert not verdict(base, fitted("b"), A_GONE).passed
    assert "in another order" in told(verdict(base, fitted("c", "b"), A_GONE))


def test_columns_without_names_are_told_by_their_values() -> None:
    base = {**fitted("a", "b", "c", numbered=True), "settings": {"COLUMNS": ["a", "b", "c"]}}
    right = {**fitted("b", "c", numbered=True), "settings": {"COLUMNS": ["b", "c"]}}
    wrong = {**fitted("a", "c", numbered=True), "settings": {"COLUMNS": ["b", "c"]}}
    assert verdict(base, right, A_GONE).passed
    assert "other values" in told(verdict(base, wrong, A_GONE))


def test_columns_of_which_nothing_is_known_are_inconclusive() -> None:
    base = fitted("a", "b", "c", numbered=True, digests=False)
    found = verdict(base, fitted("b", "c", numbered=True, digests=False), A_GONE)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "nobody can tell whether it is `a` that went" in told(found)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"rows": 40}, "The number of rows that reach Trees.fit is 40, 50 in the baseline"),
        ({"target": "u"}, "The labels that reach Trees.fit are others than in the baseline."),
        ({"type": "Forest"}, "The class of what is fitted"),
        ({"values": {"depth": 5}}, "`depth` of Trees is 5, 3 in the baseline"),
    ],
)
def test_rows_labels_and_settings_of_a_fit_stay(changed: dict[str, Any], found: str) -> None:
    def with_fit(*columns: str, **others: Any) -> dict[str, Any]:
        facts = fitted(*columns)
        fit = facts["fits"][0]
        values = {"rows": 50, "type": "Trees", "target": "t", "values": {"depth": 3}, **others}
        return {**facts, "fits": (FitFacts(columns=fit.columns, digests=fit.digests, **values),)}

    verdict_ = verdict(with_fit("a", "b"), with_fit("b", **changed), A_GONE)
    assert not verdict_.passed
    assert found in told(verdict_)


def test_a_narrower_batch_explains_a_narrower_first_layer() -> None:
    settings = {"COLUMNS": list("abcdefgh")}

    def tabular(width: int, columns: list[str]) -> dict[str, Any]:
        model = ModelFacts(
            type="Net",
            parameters={"a.weight": ParameterFacts(shape=(4, width), got_gradient=True)},
            modules={"a": ModuleFacts(type="Linear", calls=3, values={"in_features": width})},
        )
        return {**PLAIN, "models": (model,), "batches": (((16, width), (16,)),), "settings": {"COLUMNS": columns}}

    base = tabular(8, settings["COLUMNS"])
    assert verdict(base, tabular(7, list("bcdefgh")), A_GONE).passed
    assert verdict(base, tabular(7, list("abcdefg")), A_GONE).outcome is not Outcome.PASSED
    assert "columns were to go" in told(verdict(base, tabular(6, list("cdefgh")), A_GONE))


# --- expressions ----------------------------------------------------------------------------------


def test_what_an_expression_looks_at_may_differ() -> None:
    facts = {**PLAIN, "scheduled": (), "losses": (1.0, 0.95, 0.9)}
    assert verdict(PLAIN, facts, Holds(expression="len(variant.scheduled) == 0"), what=What.OTHER).passed
    assert not verdict(PLAIN, {**facts, "lengths": (1, 1)}, Holds(expression="len(variant.scheduled) == 0")).passed
    assert "is not true of this variant" in told(verdict(PLAIN, PLAIN, Holds(expression="len(variant.scheduled) == 0")))


def test_an_expression_that_may_not_be_evaluated_is_inconclusive() -> None:
    facts = {**PLAIN, "losses": (1.0, 0.95, 0.9)}
    assert verdict(PLAIN, facts, Holds(expression="open('x')")).outcome is Outcome.INCONCLUSIVE


def begun(digest: str, *paths: str) -> ModelFacts:
    rows = {f"{path}.weight": ParameterFacts(shape=(4, 4), digest=digest) for path in paths}
    return ModelFacts(
        type="Net", parameters=rows, modules={path: ModuleFacts(type="Linear", calls=3) for path in paths}
    )


def test_data_that_no_seed_changes_have_to_be_the_same_whatever_is_drawn_otherwise() -> None:
    other = Facts(**{**PLAIN, "models": (begun("2", "a", "b"),), "batch_digests": ("w", "y")})
    base = {**PLAIN, "models": (begun("1", "a", "b"),), "other": other}
    gone = {**GONE, "models": (begun("3", "a"),), "other": None}
    assert verdict(base, gone, ModuleGone(path="b")).passed
    found = verdict(base, {**gone, "batch_digests": ("z", "odd")}, ModuleGone(path="b"))
    assert found.outcome is Outcome.FAILED
    assert "The first batch of loader 2 is another than in the baseline, where no seed changes it" in told(found)


def test_a_seed_that_changes_nothing_tells_nothing_about_data() -> None:
    same_again = Facts(**{**PLAIN, "models": (begun("1", "a", "b"),)})
    base = {**PLAIN, "models": (begun("1", "a", "b"),), "other": same_again}
    gone = {**GONE, "models": (begun("3", "a"),), "batch_digests": ("z", "odd")}
    assert verdict(base, gone, ModuleGone(path="b")).passed


def test_what_is_wrong_with_another_seed_alone_is_told_and_says_so() -> None:
    base = {**PLAIN, "other": Facts(**PLAIN)}
    odd = Facts(**{**GONE, "steps": 2})
    found = verdict(base, {**GONE, "other": odd}, ModuleGone(path="b"))
    assert found.outcome is Outcome.FAILED
    assert [reason.text for reason in found.reasons] == [
        "With another seed: The variant takes 2 optimizer steps, 3 in the baseline: its training is shorter, and no "
        "claim says so."
    ]


def test_a_variant_that_fails_with_another_seed_alone_does_not_pass() -> None:
    failed = Facts(ended=Ended(code=1, why="raised", error="ValueError", message="no seed 1"))
    found = verdict({**PLAIN, "other": Facts(**PLAIN)}, {**GONE, "other": failed}, ModuleGone(path="b"))
    assert found.outcome is Outcome.FAILED
    assert told(found) == "With another seed: ValueError: no seed 1."
    broken = verdict({**PLAIN, "other": failed}, {**GONE, "other": failed}, ModuleGone(path="b"))
    assert broken.passed
    assert "does not run with another seed" in broken.alarms[-1]


# --- what goes along ------------------------------------------------------------------------------

SCHEDULED = {**GROUP, "lr": 0.01, "initial_lr": 0.1}


@pytest.mark.parametrize(("now", "outcome"), [(0.1, Outcome.PASSED), (0.05, Outcome.FAILED), (0.01, Outcome.FAILED)])
def test_where_a_scheduler_goes_the_rate_is_what_it_was_set_to(now: float, outcome: Outcome) -> None:
    called = {**PLAIN["calls"], "scheduler.step": 3}
    base = {**PLAIN, "scheduled": (), "optimizers": ((SCHEDULED,),), "calls": called}
    after = {**base, "optimizers": (({**GROUP, "lr": now},),), "calls": {**called, "scheduler.step": 0}}
    found = verdict(base, after, CallGone(name="scheduler.step"), what=What.TRICK)
    assert found.outcome is outcome, told(found)


@pytest.mark.parametrize(
    ("left", "outcome"), [(0, Outcome.FOR_A_PERSON), (1, Outcome.FAILED), (3, Outcome.PASSED), (4, Outcome.FAILED)]
)
def test_what_ran_as_often_as_what_goes_and_outside_of_a_call_of_the_model_is_for_a_person(
    left: int, outcome: Outcome
) -> None:
    base = {**PLAIN, "elsewhere": {"aten.sigmoid": 3, "aten.mul": 9}}
    after = {**GONE, "elsewhere": {"aten.sigmoid": left, "aten.mul": 9}}
    found = verdict(base, after, ModuleGone(path="b"))
    assert found.outcome is outcome, told(found)


@pytest.mark.parametrize(("left", "outcome"), [(1, Outcome.FOR_A_PERSON), (0, Outcome.FAILED)])
def test_what_ran_as_often_as_what_goes_was_called_by_methods_of_the_model_is_for_a_person(
    left: int, outcome: Outcome
) -> None:
    models = tuple(
        msgspec.structs.replace(
            one, modules={**one.modules, "b": msgspec.structs.replace(one.modules["b"], calls=6, apart=3)}
        )
        for one in PLAIN["models"]
    )
    base = {**PLAIN, "models": models, "elsewhere": {"aten.mul": 4}}
    found = verdict(base, {**GONE, "elsewhere": {"aten.mul": left}}, ModuleGone(path="b"))
    assert found.outcome is outcome, told(found)


@pytest.mark.parametrize(("times", "outcome"), [(3, Outcome.FOR_A_PERSON), (2, Outcome.FAILED), (9, Outcome.FAILED)])
def test_layers_that_a_term_of_the_loss_called_once_more_are_for_a_person(times: int, outcome: Outcome) -> None:
    def called(count: int) -> tuple[ModelFacts, ...]:
        return tuple(
            msgspec.structs.replace(
                one, modules={**one.modules, "b": msgspec.structs.replace(one.modules["b"], calls=count)}
            )
            for one in PLAIN["models"]
        )

    base = {**PLAIN, "models": called(6), "calls": {**PLAIN["calls"], "train.py:pull": 3}}
    after = {**PLAIN, "models": called(times), "losses": (1.1, 1.0, 0.9)}
    found = verdict(base, after, CallGone(name="train.py:pull"), what=What.LOSS_TERM)
    assert found.outcome is outcome, told(found)


@pytest.mark.parametrize(
    ("left", "elsewhere", "witness", "outcome"),
    [
        (0, 8, ModuleGone(path="b"), Outcome.FOR_A_PERSON),
        (1, 9, ModuleGone(path="b"), Outcome.FAILED),
        (0, 8, GroupValue(name="momentum", value=0.0), Outcome.FAILED),
        (0, 10, ModuleGone(path="b"), Outcome.FAILED),
    ],
)
def test_a_function_that_only_a_module_that_goes_needed_is_for_a_person(
    left: int, elsewhere: int, witness: Witness, outcome: Outcome
) -> None:
    base = {**PLAIN, "calls": {**PLAIN["calls"], "data.py:histories": 5}, "elsewhere": {"aten.scatter": 9}}
    calls = {**PLAIN["calls"], **({"data.py:histories": left} if left else {})}
    found = verdict(base, {**GONE, "calls": calls, "elsewhere": {"aten.scatter": elsewhere}}, witness)
    assert found.outcome is outcome, told(found)


@pytest.mark.parametrize(
    ("witness", "outcome"),
    [
        (CallGone(name="tables.py:drop_strange"), Outcome.FOR_A_PERSON),
        (CallGone(name="sklearn.preprocessing.Scaler"), Outcome.FAILED),
    ],
)
def test_rows_that_a_function_of_the_program_had_dropped_are_for_a_person(witness: Witness, outcome: Outcome) -> None:
    base, after = (
        {
            **with_fits(*held("Ridge", {}, target=str(rows))),
            "calls": {"tables.py:drop_strange": calls, "train.py:main": 1},
        }
        for calls, rows in ((1, 460), (0, 490))
    )
    found = verdict(base, {**after, "metrics": {"error": 0.25}}, witness, what=What.TRICK)
    assert found.outcome is outcome, told(found)


def a_fit(**given: Any) -> FitFacts:
    return FitFacts(rows=20, **given)


SELECTED: dict[str, Any] = {
    "ended": Ended(code=0, why="finished"),
    "calls": {"train.py:select": 1},
    "fits": (a_fit(type="SelectKBest", columns=("a", "b", "c", "d")), a_fit(type="Trees", columns=("a", "c"))),
}


@pytest.mark.parametrize(
    ("first", "then", "outcome"),
    [
        (("b", "c", "d"), ("b", "c"), Outcome.FOR_A_PERSON),
        (("b", "c", "d"), ("c",), Outcome.FOR_A_PERSON),
        (("a", "b", "c", "d"), ("b", "c"), Outcome.FAILED),
        (("c", "d"), ("c",), Outcome.FAILED),
    ],
)
def test_a_selection_chooses_anew_among_the_columns_that_are_left(
    first: tuple[str, ...], then: tuple[str, ...], outcome: Outcome
) -> None:
    after = {**SELECTED, "fits": (a_fit(type="SelectKBest", columns=first), a_fit(type="Trees", columns=then))}
    found = verdict(SELECTED, after, ColumnsGone(columns=("a",)), what=What.COLUMNS)
    assert found.outcome is outcome, told(found)


@pytest.mark.parametrize(
    ("fits", "outcome"),
    [
        (("Trees",), Outcome.FOR_A_PERSON),
        (("SelectKBest",), Outcome.FOR_A_PERSON),  # nobody here knows which of them it was to be
        ((), Outcome.INCONCLUSIVE),
        (("SelectKBest", "Trees", "Trees"), Outcome.FAILED),
    ],
)
def test_an_estimator_that_goes_takes_its_own_calls_along_and_a_person_looks(
    fits: tuple[str, ...], outcome: Outcome
) -> None:
    columns = ("a", "b", "c", "d")
    after = {
        **SELECTED,
        "calls": {"train.py:select": 0},
        "fits": tuple(a_fit(type=name, columns=columns) for name in fits),
    }
    found = verdict(SELECTED, after, CallGone(name="select"), what=What.TRICK)
    assert found.outcome is outcome, told(found)


@pytest.mark.parametrize(
    ("witness", "outcome"),
    [(CallGone(name="balance"), Outcome.FOR_A_PERSON), (ColumnsGone(columns=("d",)), Outcome.FAILED)],
)
def test_weights_of_rows_that_a_call_has_made_are_for_a_person(witness: Witness, outcome: Outcome) -> None:
    base, after = (
        {
            "ended": Ended(code=0, why="finished"),
            "calls": {"train.py:balance": calls},
            "fits": (a_fit(type="Trees", columns=("a", "d")[:columns], values={"fit.sample_weight": weights}),),
        }
        for calls, columns, weights in ((1, 2, "x"), (0, 1 if isinstance(witness, ColumnsGone) else 2, "y"))
    )
    found = verdict(base, after, witness, what=What.TRICK)
    assert found.outcome is outcome, told(found)


CALIBRATED: dict[str, Any] = {
    "cv": 4,
    "estimator": "Pipeline()",
    "estimator__verbose": False,
    "estimator__scale": "Scaler()",
    "estimator__scale__copy": True,
    "estimator__ridge": "Ridge()",
    "estimator__ridge__alpha": 0.5,
}
CHAIN = {"verbose": False, "scale": "Scaler()", "scale__copy": True, "ridge": "Ridge()", "ridge__alpha": 0.5}


def with_fits(*fits: FitFacts) -> dict[str, Any]:
    return {"ended": Ended(code=0, why="finished"), "fits": fits, "metrics": {"error": 0.5 + len(fits) / 64}}


def held(kind: str, values: dict[str, Any], **more: Any) -> tuple[FitFacts, FitFacts]:
    """Return a fit, and what was asked then."""
    given: dict[str, Any] = {"columns": ("a", "d"), "target": "t", "values": values, **more}
    return a_fit(type=kind, digests=("1", "4"), **given), a_fit(type=f"{kind}.predict", **given)


STEPS_OF_CHAIN = (
    a_fit(type="Scaler", columns=("a", "d"), within="Pipeline"),
    a_fit(type="Ridge", columns=("0", "1"), within="Pipeline"),
)
CALIBRATION_GONE = CallGone(name="sklearn.calibration.Calibrated")
SCALER_GONE = CallGone(name="sklearn.preprocessing.Scaler")


@pytest.mark.parametrize(
    ("witness", "fits", "outcome"),
    [
        (CALIBRATION_GONE, (*held("Pipeline", CHAIN), *STEPS_OF_CHAIN), Outcome.PASSED),
        (CALIBRATION_GONE, held("Pipeline", {**CHAIN, "ridge__alpha": 5.0}), Outcome.FAILED),
        (CALIBRATION_GONE, held("Pipeline", {**CHAIN, "scale": "Ranks()"}), Outcome.FAILED),
        (CALIBRATION_GONE, held("Ridge", {"alpha": 0.5}), Outcome.FAILED),  # the scaler went as well
        (CALIBRATION_GONE, held("Bagging", {"estimator": "Pipeline()"}), Outcome.FAILED),
        (CALIBRATION_GONE, held("Pipeline", CHAIN, target="u"), Outcome.FAILED),
        (CALIBRATION_GONE, (*held("Pipeline", CHAIN), *held("Isotonic", {})), Outcome.FAILED),
        (CALIBRATION_GONE, held("Calibrated", CALIBRATED), Outcome.FAILED),
        (SCALER_GONE, held("Calibrated", {"cv": 4, "estimator": "Ridge()", "estimator__alpha": 0.5}), Outcome.PASSED),
        (SCALER_GONE, held("Calibrated", {"cv": 4, "estimator": "Ridge()", "estimator__alpha": 5.0}), Outcome.FAILED),
        (SCALER_GONE, held("Calibrated", {**CALIBRATED, "estimator__scale": "Ranks()"}), Outcome.FAILED),
        (SCALER_GONE, held("Calibrated", CALIBRATED), Outcome.FAILED),
    ],
)
def test_what_is_left_of_estimators_that_hold_others_is_demanded(
    witness: Witness, fits: tuple[FitFacts, ...], outcome: Outcome
) -> None:
    found = verdict(with_fits(*held("Calibrated", CALIBRATED)), with_fits(*fits), witness, what=What.TRICK)
    assert found.outcome is outcome, told(found)


def test_who_held_several_estimators_leaves_what_a_person_looks_at() -> None:
    votes = held("Votes", {"one": "Ridge()", "other": "Lasso()"})
    found = verdict(with_fits(*votes), with_fits(*held("Lasso", {})), CallGone(name="ensemble.Votes"), what=What.TRICK)
    assert found.outcome is Outcome.FOR_A_PERSON, told(found)


@pytest.mark.parametrize(
    ("before", "now", "outcome"),
    [
        ("y=calculated p=predict_proba[1]", "y=calculated p=calculated", Outcome.FOR_A_PERSON),
        ("y=calculated p=predict_proba[1] average=macro", "y=calculated p=predict_proba[1] average=micro", None),
        ("y=calculated p=predict_proba[1]", "y=calculated p=predict_proba[1]", Outcome.PASSED),
    ],
)
def test_what_a_metric_is_calculated_of_is_held_against_the_baseline(
    before: str, now: str, outcome: Outcome | None
) -> None:
    names = ("a", "b", "c", "d")
    base, after = (
        {**fitted(*columns), "arguments": {"sklearn.metrics.brier_score_loss": (way,)}}
        for columns, way in ((names, before), (names[1:], now))
    )
    found = verdict(base, {**after, "metrics": {"auc": 0.4}}, A_GONE, what=What.COLUMNS)
    assert found.outcome is (outcome or Outcome.FOR_A_PERSON), told(found)


# --- what parameters begin with, and what they are trained with -----------------------------------


def one_row(
    weight: tuple[float, float] | None = (0.0, 1.0),
    *,
    shape: tuple[int, ...] = (4, 4),
    digest: str = "",
    group: tuple[int, int] | None = None,
) -> dict[str, Any]:
    row = ParameterFacts(shape=shape, got_gradient=True, begins=weight, digest=digest, group=group)
    model = ModelFacts(type="Net", parameters={"a.weight": row}, modules={"a": ModuleFacts(type="Linear", calls=3)})
    return {**GONE, "models": (model,)}


def of_a(one: dict[str, Any], other: dict[str, Any], *more: Witness) -> Verdict:
    """Judge a variant without ``b`` by what is seen of ``a``."""
    with_b = msgspec.structs.replace(
        one["models"][0],
        parameters={**one["models"][0].parameters, **net("b").parameters},
        modules={**one["models"][0].modules, **net("b").modules},
    )
    return verdict({**PLAIN, "models": (with_b,)}, other, ModuleGone(path="b"), *more)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (one_row((0.0, 1.0)), one_row((0.3, 1.4))),  # sixteen numbers tell little
        (one_row((0.9, 0.01), shape=(2,)), one_row((-0.6, 0.2), shape=(2,))),
        (one_row((0.0, 0.05), shape=(100, 100)), one_row((0.001, 0.0502), shape=(100, 100))),
        (one_row((1.0, 0.0)), one_row((1.0, 0.0))),
        (one_row(None), one_row((0.0, 0.0))),
        (one_row((0.3, 0.0), shape=(1,)), one_row((-0.2, 0.0), shape=(1,))),
        (one_row((0.0, 1.0), digest="x"), one_row((0.0, 0.0), digest="x")),
    ],
    ids=["few numbers", "two numbers", "many numbers", "ones", "unknown", "one number", "equal to the bit"],
)
def test_what_stays_may_begin_with_other_numbers_that_were_drawn_alike(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    assert of_a(before, after).passed


@pytest.mark.parametrize("number", [2, 3, 7, 20, 63])
@pytest.mark.parametrize("apart", [2.0, 8.0, 100.0])
def test_how_seldom_samples_lie_so_far_apart_is_bounded_from_above(number: int, apart: float) -> None:
    means = 2 * stats.t.sf(apart, 2 * (number - 1))
    deviations = 2 * stats.f.sf(apart**2, number - 1, number - 1)
    assert means <= beginnings._of_means(apart, number) * (1 + 1e-9)
    assert deviations <= beginnings._of_deviations(apart, number) * (1 + 1e-9)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 64])
@pytest.mark.parametrize("draw", ["uniform", "normal", "laplace"])
def test_of_ten_thousand_pairs_that_were_drawn_alike_none_is_told(draw: str, size: int) -> None:
    generator = np.random.default_rng(size)

    def model() -> ModelFacts:
        numbers = getattr(generator, draw)(size=(10_000, size))
        begins = zip(numbers.mean(1).tolist(), numbers.std(1).tolist(), strict=True)
        rows = {f"{n}.weight": ParameterFacts(shape=(size,), begins=one) for n, one in enumerate(begins)}
        return ModelFacts(type="Net", parameters=rows)

    assert list(beginning(Pair(model(), model()), Licence())) == []


@pytest.mark.parametrize(
    ("before", "after", "outcome", "text"),
    [
        (
            one_row(),
            one_row((0.0, 0.0)),
            Outcome.FAILED,
            "`a.weight` begins with 0 everywhere, and with numbers that were",
        ),
        (
            one_row((0.0, 0.05), shape=(100, 100)),
            one_row((0.0, 0.07), shape=(100, 100)),
            Outcome.FOR_A_PERSON,
            "`a.weight` begins with numbers that were drawn in another way than in the baseline",
        ),
        (
            one_row((0.0, 0.05), shape=(100, 100)),
            one_row((0.1, 0.05), shape=(100, 100)),
            Outcome.FOR_A_PERSON,
            "mean 0.1",
        ),
        (one_row((1.0, 0.0)), one_row((0.0, 0.0)), Outcome.FOR_A_PERSON, "has mean 0 and deviation 0, 1 and 0 in the"),
        (one_row((0.0, 0.07), shape=(4,)), one_row((-6.0, 0.07), shape=(4,)), Outcome.FOR_A_PERSON, "mean -6"),
        (one_row((0.0, 0.5), shape=(9,)), one_row((0.0, 0.0005), shape=(9,)), Outcome.FOR_A_PERSON, "deviation 0.0005"),
    ],
    ids=["one number", "another scale", "another mean", "another constant", "few, far away", "few, and close"],
)
def test_what_stays_begins_as_it_did(
    before: dict[str, Any], after: dict[str, Any], outcome: Outcome, text: str
) -> None:
    found = of_a(before, after)
    assert found.outcome is outcome
    assert text in told(found)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ((0, 0), (0, 1), "`a.weight` is trained with `lr` 0.01, 0.1 in the baseline, and no claim says so."),
        ((0, 0), None, ""),  # of a model none of whose groups were seen nobody can say anything
        ((0, 1), (0, 1), ""),
    ],
)
def test_a_parameter_stays_with_the_values_of_its_group(
    before: tuple[int, int], after: tuple[int, int] | None, text: str
) -> None:
    found = of_a(one_row(group=before), one_row(group=after))
    assert found.outcome is (Outcome.FAILED if text else Outcome.PASSED)
    assert text in told(found)


def test_a_claim_about_a_value_lets_parameters_have_it_wherever_they_are() -> None:
    equal = {"optimizers": ((GROUP, {**GROUP, "lr": 0.1}),)}
    found = of_a(
        {**one_row(group=(0, 0)), **equal}, {**one_row(group=(0, 1)), **equal}, GroupValue(name="lr", value=0.01)
    )
    assert "is trained with" not in told(found)


def test_a_parameter_that_no_optimizer_has_any_more_is_told() -> None:
    def two(group: tuple[int, int] | None) -> dict[str, Any]:
        rows = {
            f"{name}.weight": ParameterFacts(shape=(4, 4), got_gradient=True, group=one)
            for name, one in (("a", (0, 0)), ("c", group))
        }
        modules = {name: ModuleFacts(type="Linear", calls=3) for name in ("a", "c")}
        return {**GONE, "models": (ModelFacts(type="Net", parameters=rows, modules=modules),)}

    assert "`c.weight` is trained by no optimizer, by one in the baseline" in told(of_a(two((0, 1)), two(None)))
    assert of_a(two((0, 1)), two((0, 1))).passed


WAYS: dict[str, Any] = {**PLAIN, "elsewhere": {"aten.masked_fill": 9}, "calls": {**PLAIN["calls"]}}


@pytest.mark.parametrize(
    ("ways", "outcome"),
    [(("2=-1e9", "2=0.0"), Outcome.PASSED), (("2=0.0",), Outcome.FOR_A_PERSON)],
    ids=["as before", "one way takes the place of the other"],
)
def test_a_way_of_calling_that_gives_way_to_another_known_one_is_told(ways: tuple[str, ...], outcome: Outcome) -> None:
    base = {**WAYS, "arguments": {"aten.masked_fill": ("2=-1e9", "2=0.0")}}
    facts = {**GONE, "elsewhere": WAYS["elsewhere"], "arguments": {"aten.masked_fill": ways}}
    found = verdict(base, facts, ModuleGone(path="b"))
    assert found.outcome is outcome, told(found)
    assert ("never with 2=-1e9" in told(found)) is (outcome is Outcome.FOR_A_PERSON)


def seen_twice(first: str, second: str, **changed: Any) -> dict[str, Any]:
    """Return what is seen of a program with two seeds, whose parameter begins so."""

    def seen(digest: str) -> dict[str, Any]:
        rows = {"a.weight": ParameterFacts(shape=(4, 4), digest=digest, begins=(0.0, 1.0), got_gradient=True)}
        return {**PLAIN, "models": (ModelFacts(type="Net", parameters=rows, modules=net("a").modules),), **changed}

    return {**seen(first), "other": Facts(**seen(second))}


HELPED: dict[str, Any] = {"calls": {**PLAIN["calls"], "train.py:helper": 0}, "losses": (1.1, 1.0, 0.9)}
UNCLIPPED: dict[str, Any] = {"calls": {**PLAIN["calls"], "torch.nn.utils.clip_grad_norm_": 0}}
UNSET: dict[str, Any] = {"settings": {**PLAIN["settings"], "args.use_clip": False}, "losses": (1.1, 1.0, 0.9)}
REACHES = "`a.weight` begins alike with both seeds, and otherwise in the baseline: the seed does not reach it any more."


@pytest.mark.parametrize(
    ("without", "claim", "outcome"),
    [
        (UNCLIPPED, CallGone(name="torch.nn.utils.clip_grad_norm_"), Outcome.FAILED),
        (HELPED, CallGone(name="train.py:helper"), Outcome.FOR_A_PERSON),
        (UNSET, SettingValue(name="args.use_clip", value=False), Outcome.FOR_A_PERSON),
    ],
    ids=["a call after the loss", "a call", "a setting"],
)
def test_what_no_seed_reaches_any_more_is_for_a_person_where_it_may_follow_from_the_claim(
    without: dict[str, Any], claim: Witness, outcome: Outcome
) -> None:
    """A head that is drawn anew unless a setting, or a call, is gone: it begins as it was loaded then."""
    base = seen_twice("x", "y")
    found = verdict(base, seen_twice("z", "z", **without), claim)
    assert found.outcome is outcome, told(found)
    assert REACHES in told(found)
    assert verdict(base, seen_twice("x", "y", **without), claim).passed
    assert verdict(seen_twice("x", "x"), seen_twice("x", "x", **without), claim).passed  # nor did it before
    assert verdict(seen_twice("", ""), seen_twice("", "", **without), claim).passed  # nobody could tell


@pytest.mark.parametrize(
    ("without", "claim", "outcome"),
    [
        (UNCLIPPED, CallGone(name="torch.nn.utils.clip_grad_norm_"), Outcome.FAILED),
        (HELPED, CallGone(name="train.py:helper"), Outcome.FOR_A_PERSON),
        (UNSET, SettingValue(name="args.use_clip", value=False), Outcome.FOR_A_PERSON),
    ],
    ids=["a call after the loss", "a call", "a setting"],
)
def test_a_constant_is_for_a_person_where_it_may_follow_from_the_claim(
    without: dict[str, Any], claim: Witness, outcome: Outcome
) -> None:
    found = of_a(one_row(), {**one_row((0.0, 0.0)), **without}, claim)
    assert found.outcome is outcome, told(found)
    assert "`a.weight` begins with 0 everywhere, and with numbers that were" in told(found)


@pytest.mark.parametrize(
    ("without", "claim", "text"),
    [
        (
            HELPED,
            CallGone(name="train.py:helper"),
            "`a.weight` begins with other numbers than in the baseline: it may follow from what is not called any "
            "more, be made before the seed is set, or be another first state.",
        ),
        (
            UNCLIPPED,
            CallGone(name="torch.nn.utils.clip_grad_norm_"),
            "`a.weight` begins with other numbers than in the baseline, and no claim says that something goes that "
            "draws any before: it may be made before the seed is set, or be another first state.",
        ),
    ],
    ids=["a call", "a call after the loss"],
)
def test_what_begins_otherwise_is_for_a_person_who_is_told_what_may_be_why(
    without: dict[str, Any], claim: Witness, text: str
) -> None:
    """Where no seed is set, each run may begin otherwise."""
    found = verdict(seen_twice("x", "y"), seen_twice("v", "w", **without), claim)
    assert found.outcome is Outcome.FOR_A_PERSON, told(found)
    assert text in [reason.text for reason in found.reasons]


def with_gates(
    first: str, second: str, *layers: str, shape: tuple[int, ...] = (3,), begins: Any = None
) -> dict[str, Any]:
    """Return what is seen with two seeds of layers and of three numbers beside them."""

    def seen(digest: str) -> dict[str, Any]:
        gates = ParameterFacts(shape=shape, digest=digest, begins=begins or (0.58, 0.31), got_gradient=True)
        layered = net(*layers)
        rows = {**layered.parameters, "gates": gates}
        model = ModelFacts(type="Net", parameters=rows, modules=layered.modules)
        return {**(PLAIN if "b" in layers else GONE), "models": (model,)}

    return {**seen(first), "other": Facts(**{**seen(second), "batch_digests": ("with the other seed", "y")})}


@pytest.mark.parametrize(
    ("base", "variant", "outcome"),
    [
        (("set", "set"), ("set", "set"), Outcome.PASSED),
        (("set", "set"), ("smaller", "smaller"), Outcome.FOR_A_PERSON),
        (("set", "set"), ("x", "y"), Outcome.FOR_A_PERSON),
        (("x", "y"), ("v", "w"), Outcome.PASSED),  # drawn, and the layer that goes has shifted the generator
        (("", ""), ("smaller", "smaller"), Outcome.PASSED),  # nobody could tell
    ],
)
def test_values_that_no_seed_changes_are_for_a_person_whatever_goes(
    base: tuple[str, str], variant: tuple[str, str], outcome: Outcome
) -> None:
    found = verdict(with_gates(*base, "a", "b"), with_gates(*variant, "a"), ModuleGone(path="b"))
    assert found.outcome is outcome, told(found)
    assert told(found) == (
        "`gates` begins with other values than in the baseline, where no seed changes them: they are set, loaded, or "
        "drawn with a seed of their own, and no claim says that they change."
        if outcome is Outcome.FOR_A_PERSON
        else ""
    )


def test_one_number_that_is_set_by_hand_is_seen_as_well() -> None:
    """A single number is its own mean, so that nothing else tells whether it was drawn."""
    before = with_gates("one", "one", "a", "b", shape=(1,), begins=(1.0, 0.0))
    after = with_gates("other", "other", "a", shape=(1,), begins=(0.01, 0.0))
    assert verdict(before, after, ModuleGone(path="b")).outcome is Outcome.FOR_A_PERSON


@pytest.mark.parametrize("resized", [{"gates": (2,)}, {"gates": None}])
def test_what_takes_another_size_by_the_plan_is_set_anew(resized: dict[str, Any]) -> None:
    after = with_gates("shorter", "shorter", "a", shape=(2,))
    assert verdict(with_gates("set", "set", "a", "b"), after, ModuleGone(path="b", resized=resized)).passed


@pytest.mark.parametrize(("what", "passed"), [(What.TRICK, True), (What.LOSS_TERM, False)])
def test_what_a_module_calculates_less_is_seldom_a_term_of_the_loss(what: What, passed: bool) -> None:
    def seen(operators: dict[str, int], helped: int) -> dict[str, Any]:
        model = msgspec.structs.replace(net("a"), modules={"": ModuleFacts(type="Net", calls=3, operators=operators)})
        return {**PLAIN, "models": (model,), "calls": {**PLAIN["calls"], "train.py:helper": helped}}

    found = verdict(seen({"aten.exp": 6}, 6), seen({}, 0), CallGone(name="train.py:helper"), what=what)
    assert found.passed is passed, told(found)
    assert found.outcome is (Outcome.PASSED if passed else Outcome.FOR_A_PERSON)
