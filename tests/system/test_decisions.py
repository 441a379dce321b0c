"""What facts say of machines that were tuned: why each epoch was set so, what was saved, and what trying cost."""

from __future__ import annotations

from etude.core.events import Tuned
from etude.core.system import Joules, Order, Phase, Setting, Taken
from etude.system.decisions import decided_in
from etude.system.uses import uses_of

JOULES = Joules("measured", "RAPL", 3.0, 3.0, 3.0)
TWO: Setting = {"threads": 2}


def fact(epoch: int, phase: Phase, setting: Setting, seconds: float, then: Order, *, attempt: int = 1) -> Tuned:
    taken = Taken(epoch, 9, seconds, 10, JOULES, setting=setting, phase=phase)
    return Tuned(at=float(epoch), trial=0, attempt=attempt, machine="here", taken=taken, order=then)


BASELINE = Order({}, Phase.BASELINE, "a second one")
PROBE = Order(TWO, Phase.PROBE, "probe 1 of 5", {"best so far": 1.0})
KEEP = Order(TWO, Phase.KEEP, "the best", {"of the default": 0.5, "tried": 1.0})


def test_an_epoch_says_why_it_was_set_so_and_what_it_came_to() -> None:
    taken = Taken(3, 9, 1.0, 10, JOULES, setting=TWO, phase=Phase.KEEP, why=KEEP.why, evidence=dict(KEEP.evidence))
    (one,) = decided_in({0: [Tuned(at=3.0, trial=0, attempt=1, machine="here", taken=taken, order=KEEP)]})
    assert (one.why, one.evidence) == ("the best", {"of the default": 0.5, "tried": 1.0})
    assert one.row()["energy"] == "measured"
    assert one.step_s == 0.1


def test_trials_come_in_order() -> None:
    one = fact(0, Phase.PROFILE, {}, 1.0, BASELINE)
    assert [d.epoch for d in decided_in({3: [one], 1: [one, one]})] == [0, 0, 0]
    assert decided_in({}) == []


def test_what_was_saved_is_counted_against_epochs_by_default_that_are_no_first_ones() -> None:
    facts = [
        fact(0, Phase.PROFILE, {}, 90.0, BASELINE),
        fact(1, Phase.BASELINE, {}, 2.0, PROBE),
        fact(2, Phase.PROBE, TWO, 3.0, KEEP),
        fact(3, Phase.KEEP, TWO, 1.0, KEEP),
    ]
    (use,) = uses_of({0: facts})
    assert (use.saved_s, use.probing_s) == (1.0, 1.0)


def test_a_first_epoch_alone_makes_nothing_look_as_if_it_saved() -> None:
    facts = [fact(0, Phase.PROFILE, {}, 90.0, KEEP), fact(1, Phase.KEEP, TWO, 1.0, KEEP)]
    (use,) = uses_of({0: facts})
    assert use.saved_s == 1.0  # what was kept takes half of the default, says its evidence
    reuse = Order(TWO, Phase.REUSE, "known", {"distance": 0.1})
    facts = [fact(0, Phase.PROFILE, {}, 90.0, reuse), fact(1, Phase.REUSE, TWO, 1.0, reuse)]
    (use,) = uses_of({0: facts})
    assert (use.saved_s, use.probing_s) == (None, None)


def test_the_first_epoch_of_a_later_attempt_is_a_first_one_too() -> None:
    facts = [
        fact(0, Phase.PROFILE, {}, 90.0, BASELINE),
        fact(1, Phase.BASELINE, {}, 2.0, BASELINE),
        fact(2, Phase.BASELINE, {}, 80.0, BASELINE, attempt=2),
        fact(3, Phase.PROBE, TWO, 1.0, KEEP, attempt=2),
    ]
    (use,) = uses_of({0: facts})
    assert use.probing_s == -1.0
