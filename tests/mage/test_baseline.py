"""The untouched program: whether it runs, whether it repeats itself, and whether seeds pair it with a variant."""

import programs
import pytest
from variants_by_hand import CORRECT
from watching import watch

from etude.core.errors import BaselineError, ConfigError
from etude.mage.facts import Ended, Facts, ModelFacts, ParameterFacts
from etude.mage.judge.baseline import compare_runs, pairing

FINE = Ended(code=0, why="enough seen")


def run(*losses: float, **others: object) -> Facts:
    return Facts(ended=FINE, steps=len(losses), losses=losses, **others)  # type: ignore[arg-type]


def test_equal_runs_are_deterministic_and_two_are_enough() -> None:
    base = compare_runs([run(2.3, 2.2), run(2.3, 2.2)])
    assert base.deterministic
    assert base.is_enough
    assert base.text == ""


def test_a_baseline_that_differs_from_itself_is_told_word_for_word() -> None:
    base = compare_runs([run(2.5, 2.3048), run(2.5, 2.3051)])
    assert not base.deterministic
    assert base.text == (
        "Baseline differs from itself (step 2: 2.3048 and 2.3051). Equality cannot be demanded; using the spread of 5 "
        "runs."
    )
    assert base.wanted == 5
    assert not base.is_enough
    assert compare_runs([run(1.0, 2.0 + n) for n in range(5)]).is_enough


def test_runs_that_differ_in_late_digits_are_told_apart() -> None:
    base = compare_runs([run(1.00000001), run(1.00000002)])
    assert "step 1: 1.00000001 and 1.00000002" in base.text


def test_a_diverged_loss_equals_itself() -> None:
    assert compare_runs([run(float("nan")), run(float("nan"))]).deterministic


def test_the_spread_is_that_of_all_runs() -> None:
    base = compare_runs([run(1.0, 2.0), run(1.5, 1.0), run(1.2, 3.0)])
    assert base.lowest == (1.0, 1.0)
    assert base.highest == (1.5, 3.0)


def test_a_baseline_that_fails_by_itself_is_the_users_code() -> None:
    broken = Facts(
        ended=Ended(code=1, why="raised", error="ValueError", message="no data", frame="train.py, line 3, main")
    )
    with pytest.raises(BaselineError) as refused:
        compare_runs([broken, broken])
    assert str(refused.value) == (
        "The program does not run by itself: ValueError: no data (train.py, line 3, main). That is your code, not the "
        "patch: no variant was written, and none of your code was sent. Make it run as it is, then begin again."
    )
    assert isinstance(refused.value, ConfigError)


def test_one_run_says_nothing() -> None:
    with pytest.raises(ValueError, match="Pass 2 or more"):
        compare_runs([run(1.0)])


def test_a_program_that_draws_without_a_seed_differs_from_itself() -> None:
    text = programs.CNN.replace("    torch.manual_seed(args.seed)\n", "    torch.seed()\n")
    base = compare_runs([watch(text), watch(text)])
    assert not base.deterministic
    assert "losses" in base.varies
    assert "initial values" in base.varies


# --- pairs ----------------------------------------------------------------------------------------


def with_weights(batch: str, **digests: str) -> Facts:
    rows = {name.replace("_", "."): ParameterFacts(shape=(2,), digest=digest) for name, digest in digests.items()}
    return Facts(ended=FINE, models=(ModelFacts(type="Net", parameters=rows),), batch_digests=(batch,))


def test_runs_that_are_not_paired_are_told_word_for_word() -> None:
    found = pairing(
        with_weights("a", conv1_weight="1", fc1_weight="2"), with_weights("b", conv1_weight="1", fc1_weight="3")
    )
    assert found.paired is False
    assert found.text == (
        "Seeds do not pair these runs: initial `fc1.weight` and the batch order differ. Reported as independent."
    )


def test_one_difference_differs() -> None:
    found = pairing(with_weights("a", fc1_weight="2"), with_weights("b", fc1_weight="2"))
    assert found.text == "Seeds do not pair these runs: the batch order differs. Reported as independent."


def test_equal_beginnings_are_a_pair_and_unseen_ones_are_nobodys() -> None:
    one = with_weights("a", fc1_weight="2")
    assert pairing(one, one).paired is True
    assert pairing(Facts(ended=FINE), Facts(ended=FINE)).paired is None


def test_a_removed_layer_shifts_what_is_drawn_after_it() -> None:
    case = next(case for case in CORRECT if case.name == "conv2 goes, its pooling stays")
    found = pairing(watch(programs.CNN), watch(case.source))
    assert found.paired is False
    assert "`fc1.weight`" in found.text or "more" in found.text
    assert "the batch order" in found.text
