"""How a machine is shared: laws that hold whatever studies want, and what follows from them when they come and go."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.core.errors import ConfigError
from etude.system.budget import NOTHING, Amount, Want, let_in, level, shares, times, total
from etude.system.tenants import SILENT_S, Process, Tenant, is_gone, share_of

amounts = st.builds(Amount, st.integers(0, 12), st.integers(0, 12))
steps = st.builds(Amount, st.integers(1, 4), st.integers(0, 4))
wants = st.builds(lambda least, more, step: Want(least, least + more, step), amounts, amounts, steps)
budgets = st.builds(Amount, st.integers(1, 24), st.integers(0, 24))
many = st.lists(wants, max_size=8)


def cores(budget: int, *wanted: tuple[int, int]) -> list[int]:
    """Return the shares of cores, given the least and the most that each wants."""
    return [one.cores for one in shares(Amount(budget), [Want(Amount(a), Amount(b)) for a, b in wanted])]


def before_the_last_step(want: Want, share: Amount) -> Amount:
    """Return the share that one had before it got its last step; the share itself if it got none."""
    before = now = want.least
    while now != share:
        before, now = now, (now + want.step).within(want.most)
    return before


# --- laws -----------------------------------------------------------------------------------------


@given(budgets, many)
def test_shares_are_never_more_than_there_is_nor_than_is_wanted(budget: Amount, wanted: list[Want]) -> None:
    granted = shares(budget, wanted)
    assert total(granted).fits(budget)
    assert all(share.fits(want.most) for share, want in zip(granted, wanted, strict=True))


@given(budgets, many)
def test_who_is_let_in_has_its_least_and_who_waits_has_nothing(budget: Amount, wanted: list[Want]) -> None:
    granted, inside = shares(budget, wanted), let_in(budget, wanted)
    assert all(want.least.within(budget).fits(share) for share, want in zip(granted[:inside], wanted, strict=False))
    assert set(granted[inside:]) <= {NOTHING}


@given(budgets, many)
def test_nobody_overtakes_and_nobody_waits_without_need(budget: Amount, wanted: list[Want]) -> None:
    inside = let_in(budget, wanted)
    if inside < len(wanted):
        before = total(want.least.within(budget) for want in wanted[: inside + 1])
        assert not before.fits(budget)


@given(budgets, st.lists(wants, min_size=1, max_size=8))
def test_the_first_is_let_in_whatever_it_wants_so_nobody_starves(budget: Amount, wanted: list[Want]) -> None:
    assert let_in(budget, wanted) >= 1


@given(budgets, many, wants)
def test_who_comes_later_puts_nobody_out(budget: Amount, wanted: list[Want], later: Want) -> None:
    assert let_in(budget, [*wanted, later]) >= let_in(budget, wanted)


@given(budgets, many, st.data())
def test_who_goes_or_wants_something_else_puts_nobody_out(
    budget: Amount, wanted: list[Want], data: st.DataObject
) -> None:
    inside = let_in(budget, wanted)
    nth = data.draw(st.integers(0, max(0, inside - 1)))
    if wanted:
        assert let_in(budget, [*wanted[:nth], *wanted[nth + 1 :]]) >= inside - 1
        changed = [*wanted[:nth], wanted[nth].then(data.draw(wants)), *wanted[nth + 1 :]]
        assert let_in(budget, changed) >= inside


@given(budgets, many)
def test_a_step_goes_to_who_has_least(budget: Amount, wanted: list[Want]) -> None:
    """Nobody could have one more step by taking one from somebody who would still have more."""
    granted, inside = shares(budget, wanted), let_in(budget, wanted)
    rest = budget - total(granted)
    for nth in range(inside):
        want = wanted[nth].within(budget)
        step = (granted[nth] + want.step).within(want.most) - granted[nth]
        if step == NOTHING:
            continue
        assert not step.fits(rest), "what is left could be used"
        for other in set(range(inside)) - {nth}:
            without = before_the_last_step(wanted[other].within(budget), granted[other])
            if step.fits(rest + (granted[other] - without)):
                assert level(without, budget) <= level(granted[nth], budget)


@given(st.integers(1, 24), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=6))
def test_of_cores_it_is_max_min_fair(budget: int, wanted: list[tuple[int, int]]) -> None:
    """Whoever has less than another by more than one core has all that it wants, or the other needs it."""
    bounds = [(least, least + more) for least, more in wanted]
    granted = cores(budget, *bounds)
    inside = let_in(Amount(budget), [Want(Amount(a), Amount(b)) for a, b in bounds])
    for one, (_, most) in zip(granted[:inside], bounds, strict=False):
        for other, (least, _) in zip(granted[:inside], bounds, strict=False):
            assert one == min(most, budget) or other <= one + 1 or other == min(least, budget)
    assert sum(granted) == budget or all(
        one == min(most, budget) for one, (_, most) in zip(granted[:inside], bounds, strict=False)
    )


@given(budgets, st.lists(wants, min_size=2, max_size=8), st.data())
def test_what_one_gives_back_reaches_those_who_want_more(
    budget: Amount, wanted: list[Want], data: st.DataObject
) -> None:
    """When all who were let in are modest but one, that one has all that is left, or all that it can use."""
    nth = data.draw(st.integers(0, len(wanted) - 1))
    modest = [want.then(Want(want.least, want.least, want.step)) for want in wanted]
    eager = [*modest[:nth], wanted[nth], *modest[nth + 1 :]]
    if let_in(budget, eager) == len(eager):
        share, rest = shares(budget, eager)[nth], budget - total(shares(budget, eager))
        want = wanted[nth].within(budget)
        step = (share + want.step).within(want.most) - share
        assert step == NOTHING or not step.fits(rest)


# --- holding --------------------------------------------------------------------------------------


def tenant(id_: int, want: Want, held: Amount = NOTHING, *, seen_s: float = 0.0) -> Tenant:
    return Tenant(id_, f"study {id_}", Process("here", 100 + id_, "7"), want, held, 0.0, None, seen_s)


acts = st.lists(
    st.tuples(st.sampled_from(["come", "go", "take", "give", "want"]), st.integers(0, 9), amounts, wants), max_size=40
)


@given(budgets, acts)
def test_whatever_they_do_they_never_hold_more_than_there_is(
    budget: Amount, acts: list[tuple[str, int, Amount, Want]]
) -> None:
    there: list[Tenant] = []
    for nth, (act, which, amount, want) in enumerate(acts):
        if act == "come":
            there.append(tenant(nth, want))
        elif there:
            place = which % len(there)
            one = there[place]
            if act == "go":
                there.pop(place)
            elif act == "want":
                there[place] = replace(one, want=one.want.then(want))
            else:
                held = one.held + amount if act == "take" else one.held - amount
                share = share_of(one, there, budget)
                assert act == "take" or share.allows(held), "less is always allowed"
                if share.allows(held):
                    there[place] = replace(one, held=held)
        assert total(one.held for one in there).fits(budget)
    for one in there:  # those who have too much give it back when their trials end
        others = [replace(o, held=o.held.within(share_of(o, there, budget).granted)) for o in there]
        me = next(other for other in others if other.id == one.id)
        share = share_of(me, others, budget)
        assert share.allows(share.granted), "and then everybody can have its share"


def test_who_holds_cores_keeps_them_when_another_comes_and_gives_them_back_trial_by_trial() -> None:
    want = Want(Amount(1), Amount(4))
    first = tenant(1, want, Amount(4))
    both = [first, tenant(2, want)]
    assert share_of(first, both, Amount(4)).granted == Amount(2)
    assert share_of(both[1], both, Amount(4)).room == NOTHING
    both[0] = replace(first, held=Amount(3))  # a trial has ended
    assert not share_of(both[0], both, Amount(4)).allows(Amount(4))
    assert share_of(both[1], both, Amount(4)).room == Amount(1)


def test_who_waits_is_told_how_many_are_before_it() -> None:
    whole = Want(Amount(4), Amount(4))
    queue = [tenant(nth, whole) for nth in range(4)]
    assert [share_of(one, queue, Amount(4)).ahead for one in queue] == [None, 0, 1, 2]


def test_a_process_that_has_ended_is_gone_and_so_is_one_with_its_number_again() -> None:
    one = tenant(1, Want(Amount(1), Amount(1)))
    for started, gone in (("7", False), ("8", True), (None, True)):
        assert is_gone(one, space="here", started=lambda _, found=started: found, now_s=1e9) is gone


def test_a_process_that_cannot_be_seen_is_gone_when_it_is_silent() -> None:
    one = tenant(1, Want(Amount(1), Amount(1)), seen_s=100.0)
    for after_s in (SILENT_S, SILENT_S + 1):
        assert is_gone(one, space="a container", started=lambda _: None, now_s=100 + after_s) is (after_s > SILENT_S)


# --- single cases ---------------------------------------------------------------------------------


def test_two_equal_studies_have_half_each_and_the_odd_core_is_the_firsts() -> None:
    assert cores(5, (1, 9), (1, 9)) == [3, 2]


def test_what_a_modest_study_leaves_goes_to_the_others() -> None:
    assert cores(12, (1, 2), (1, 9), (1, 9)) == [2, 5, 5]


def test_a_study_that_needs_the_whole_machine_waits_and_so_do_those_behind_it() -> None:
    assert cores(4, (1, 4), (4, 4), (1, 4)) == [4, 0, 0]


def test_whole_machines_are_given_out_first_come_first_served() -> None:
    assert cores(4, (4, 4), (4, 4), (4, 4)) == [4, 0, 0]


def test_memory_that_is_short_limits_who_needs_much_of_it() -> None:
    thin, fat = Want.of_trials(Amount(1, 1), most=8), Want.of_trials(Amount(1, 4), most=8)
    assert shares(Amount(8, 16), [thin, fat]) == (Amount(6, 6), Amount(2, 8))


def test_steps_are_whole_trials() -> None:
    two = Want.of_trials(Amount(2), most=4)
    assert [one.cores for one in shares(Amount(7), [two, two])] == [4, 2]
    assert times(Amount(2, 3), 3) == Amount(6, 9)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Amount(-1), "cores=-1 is no amount. Pass a whole number, 0 or more."),
        (lambda: Amount(1, 0.5), "memory_mb=0.5 is no amount. Pass a whole number, 0 or more."),  # type: ignore[arg-type]
        (
            lambda: Amount.of(cores=1, memory_gb=float("nan")),
            "memory_gb=nan is no memory. Pass GB, 0 or more, or None.",
        ),
        (
            lambda: Want(Amount(3), Amount(2)),
            "least=Amount(cores=3, memory_mb=0) is more than most=Amount(cores=2, memory_mb=0). "
            "Pass what one trial needs as least=.",
        ),
        (
            lambda: Want(Amount(1), Amount(2), NOTHING),
            "step=Amount(cores=0, memory_mb=0) has no core. Pass what one more trial needs.",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError) as refused:
        make()
    assert str(refused.value) == said
