"""An energy always says how it is known."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.system.energy import STRENGTH, Energy, Label, total

JOULES = st.floats(0, 1e9)
ENERGIES = st.one_of(
    st.builds(Energy.measured, JOULES, st.sampled_from(["RAPL", "NVML"])),
    st.builds(Energy.modelled, JOULES, st.just("CPU seconds x 15 W")),
    st.builds(Energy.unavailable, st.sampled_from(["no meter", "no permission"])),
)


@pytest.mark.parametrize(
    ("energy", "said"),
    [
        (Energy.measured(12.3, "RAPL"), "12.3 J measured (RAPL)"),
        (Energy.measured(0.01234, "RAPL"), "0.0123 J measured (RAPL)"),
        (Energy.measured(123_456, "RAPL"), "123 kJ measured (RAPL)"),
        (Energy.measured(999.9, "RAPL"), "1000 J measured (RAPL)"),
        (Energy.measured(7.5e9, "RAPL"), "7500 MJ measured (RAPL)"),
        (Energy.measured(12.3, "a meter", low=10, high=14), "12.3 J measured (10 to 14), a meter"),
        (Energy.modelled(40, "CPU seconds x 15 W"), "about 40 J modelled (24 to 56), CPU seconds x 15 W"),
        (Energy.unavailable("no meter"), "energy unavailable: no meter"),
    ],
)
def test_it_is_printed_with_its_label(energy: Energy, said: str) -> None:
    assert str(energy) == said


def test_a_modelled_interval_is_widened_and_a_wider_one_stays() -> None:
    narrow = Energy.modelled(100, "a model", low=99, high=101)
    assert (narrow.low, narrow.high) == (60, 140)
    wide = Energy.modelled(100, "a model", low=10, high=400)
    assert (wide.low, wide.high) == (10, 400)


def test_what_is_unavailable_has_no_joules_and_no_sum_hides_it() -> None:
    lost = Energy.measured(5, "RAPL") + Energy.unavailable("the power meter does not answer")
    assert lost == Energy.unavailable("the power meter does not answer")
    assert lost.joules is None


def test_nothing_added_up_is_not_zero() -> None:
    assert total([]).label is Label.UNAVAILABLE


def test_sums_name_each_source_once_and_not_all_of_many() -> None:
    assert (
        total([Energy.measured(1, "RAPL"), Energy.measured(2, "NVML"), Energy.measured(3, "RAPL")]).source
        == "RAPL + NVML"
    )
    epochs = [Energy.unavailable(f"no reading for {n} s") for n in range(10, 100)]
    one_by_one = epochs[0]
    for epoch in epochs[1:]:
        one_by_one = one_by_one + epoch
    assert one_by_one.source == total(epochs).source
    assert total(epochs).source == "no reading for 10 s; no reading for 11 s; no reading for 12 s; others"


@given(st.lists(ENERGIES, min_size=1, max_size=6))
def test_a_sum_has_the_weakest_label_and_the_bounds_of_its_parts(parts: list[Energy]) -> None:
    whole = total(parts)
    assert whole.label is max((part.label for part in parts), key=STRENGTH.index)
    if whole.joules is None or whole.low is None or whole.high is None:
        assert any(part.joules is None for part in parts)
        return
    assert whole.joules == pytest.approx(sum(part.joules or 0 for part in parts))
    slack = 1e-9 * whole.joules
    assert whole.low <= sum(part.low or 0 for part in parts) + slack
    assert whole.high >= sum(part.high or 0 for part in parts) - slack
    if whole.label is Label.MODELLED:
        assert whole.low <= 0.6 * whole.joules + slack
        assert whole.high >= 1.4 * whole.joules - slack


@given(ENERGIES, ENERGIES, ENERGIES)
def test_it_does_not_matter_what_is_added_first(a: Energy, b: Energy, c: Energy) -> None:
    left, right = (a + b) + c, a + (b + c)
    assert (left.label, left.source) == (right.label, right.source)
    for ours, theirs in zip((left.joules, left.low, left.high), (right.joules, right.low, right.high), strict=True):
        assert (ours is None) == (theirs is None)
        assert ours is None or theirs is None or math.isclose(ours, theirs, abs_tol=1e-9)


@given(ENERGIES)
def test_it_travels_as_plain_data(energy: Energy) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(energy), type=Energy) == energy
