"""One number from what an epoch cost, refused where it could not be known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.core.errors import ConfigError
from etude.system.energy import Energy, Label
from etude.system.objective import Cost, Weighted, objective_of

COST = Cost(seconds=10.0, steps=5, energy=Energy.measured(20.0, "RAPL"))
UNKNOWN = Cost(seconds=10.0, steps=5, energy=Energy.unavailable("no meter"))
AMOUNTS = st.floats(1e-3, 1e6)


def test_time_and_energy_are_counted_by_the_step() -> None:
    assert objective_of("time").of(COST) == 2.0
    assert objective_of("energy").of(COST) == 4.0
    assert Weighted(time=2, energy=1).of(COST) == 16.0


def test_what_is_not_known_is_no_number() -> None:
    assert objective_of("energy").of(UNKNOWN) is None
    assert Weighted().of(UNKNOWN) is None
    assert objective_of("time").of(UNKNOWN) == 2.0
    assert objective_of("time").of(Cost(1.0, 0, COST.energy)) is None


def test_energy_is_refused_where_nothing_tells_it() -> None:
    with pytest.raises(ConfigError) as refused:
        objective_of("energy").check(Label.UNAVAILABLE, "no counter")
    assert str(refused.value) == (
        "objective='energy' cannot be made small here, since nothing tells the energy: no counter. "
        "Pass objective='time', or the address of a power meter."
    )
    assert objective_of("time").check(Label.UNAVAILABLE, "no counter") == ""


def test_energy_that_is_only_modelled_is_said_to_be() -> None:
    assert objective_of("energy").check(Label.MODELLED, "CPU seconds x 15 W") == (
        "Energy is only modelled here (CPU seconds x 15 W), and may be off by 40 % and more: a setting that is said to "
        "take less of it may not."
    )
    assert objective_of("energy").check(Label.MEASURED, "RAPL") == ""


@given(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
def test_units_do_not_matter_for_which_is_better(s1: float, j1: float, s2: float, j2: float, unit: float) -> None:
    def both(seconds: float, joules: float) -> float:
        value = Weighted(time=1, energy=0.5).of(Cost(seconds, 1, Energy.measured(joules, "RAPL")))
        assert value is not None
        return value

    assert both(s1 * unit, j1) / both(s2 * unit, j2) == pytest.approx(both(s1, j1) / both(s2, j2))


def test_what_is_no_objective_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"objective='tme' \(str\) is not known. Did you mean 'time'\? There are: 'time', "
    ):
        objective_of("tme")
    with pytest.raises(ConfigError, match=r"objective=3 \(int\) is not known. There are"):
        objective_of(3)
    with pytest.raises(ConfigError, match="makes nothing small"):
        Weighted(time=0, energy=0)
    with pytest.raises(ConfigError, match=r"time=-1 \(int\) cannot be"):
        Weighted(time=-1)


def test_an_objective_has_a_name_or_is_the_call() -> None:
    assert [str(Weighted(1, 0)), str(Weighted(0, 1)), str(Weighted(2, 1))] == [
        "time",
        "energy",
        "Weighted(time=2, energy=1)",
    ]
