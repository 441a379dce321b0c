"""Which epochs belong to which interval, and which of them count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.fit.importance.schedule import Schedule, Stage

schedules = st.builds(
    lambda warmup, interval, ignored, window: Schedule(warmup, interval, min(ignored, warmup), window),
    st.integers(0, 8),
    st.integers(1, 6),
    st.integers(0, 8),
    st.sampled_from(["interval", "all"]),
)


@given(schedules, st.integers(1, 40))
def test_stages_follow_each_other_to_the_end(schedule: Schedule, epochs: int) -> None:
    stages = schedule.stages(epochs)
    assert [stage.first for stage in stages] == [0, *(stage.end for stage in stages[:-1])]
    assert stages[-1].end == epochs
    intervals = [stage for stage in stages if stage.name == "interval"]
    assert all(stage.end - stage.first == schedule.interval for stage in intervals[:-1])
    if intervals and epochs - schedule.warmup >= schedule.interval:
        assert schedule.interval <= intervals[-1].end - intervals[-1].first < 2 * schedule.interval
    for stage in stages:
        for epoch in range(stage.first, stage.end):
            assert schedule.stage(epoch, epochs=epochs) == stage
            assert schedule.assigns(epoch, epochs=epochs) == (stage.name == "interval" and epoch == stage.first)


@given(schedules, st.integers(1, 40))
def test_what_is_recorded_is_what_some_assignment_uses(schedule: Schedule, epochs: int) -> None:
    used = {e for epoch in range(epochs) if schedule.assigns(epoch, epochs=epochs) for e in schedule.uses(epoch)}
    assert {epoch for epoch in range(epochs) if schedule.records(epoch, epochs=epochs)} == used


def test_the_papers_settings() -> None:
    schedule = Schedule(warmup=15, interval=30, ignore=5)
    assert schedule.stages(100) == (Stage("warmup", 0, 15), Stage("interval", 15, 45), Stage("interval", 45, 100))
    assert schedule.uses(15) == range(5, 15)
    assert schedule.uses(45) == range(15, 45)
    assert Schedule(15, 30, 5, "all").uses(45) == range(5, 45)


def test_where_the_end_is_unknown_the_last_interval_is_what_is_left() -> None:
    schedule = Schedule(warmup=2, interval=3, ignore=1)
    assert [epoch for epoch in range(12) if schedule.assigns(epoch)] == [2, 5, 8, 11]
    assert [epoch for epoch in range(12) if schedule.assigns(epoch, epochs=12)] == [2, 5, 8]
    assert schedule.stage(11) == Stage("interval", 11, 14)


def test_less_than_an_interval_is_one_all_the_same() -> None:
    assert Schedule(warmup=5, interval=10, ignore=0).stages(9) == (Stage("warmup", 0, 5), Stage("interval", 5, 9))
    assert Schedule(warmup=5, interval=10, ignore=0).stages(3) == (Stage("warmup", 0, 3),)


@pytest.mark.parametrize("interval", [1, 5, 8, 10, 15, 30])
@pytest.mark.parametrize("warmup", [10, 15, 20, 30, 40, 60])
def test_the_number_of_assignments_is_that_of_the_papers_program(warmup: int, interval: int) -> None:
    intervals = [s for s in Schedule(warmup, interval, 5).stages(100) if s.name == "interval"]
    assert len(intervals) == (100 - warmup) // interval
    assert intervals[-1].end - intervals[-1].first == (100 - warmup) % interval + interval
