"""What a study measures: names, directions, losses; and what cannot be."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from etude.core.errors import ConfigError
from etude.core.metrics import Metrics

BOTH = Metrics({"accuracy": "max", "latency_s": "min"})


def test_one_metric_is_main_and_watched() -> None:
    metrics = Metrics.read("accuracy", "max")
    assert (metrics.names, metrics.main, metrics.watched) == (("accuracy",), "accuracy", "accuracy")
    assert repr(metrics) == "accuracy (max)"


def test_of_several_the_first_is_main_and_another_may_be_watched() -> None:
    assert (BOTH.main, BOTH.watched) == ("accuracy", "accuracy")
    watching = BOTH.watching("latency_s")
    assert (watching.main, watching.watched) == ("accuracy", "latency_s")
    assert BOTH.watching(None) is BOTH
    assert repr(BOTH) == "accuracy (max), latency_s (min)"


@pytest.mark.parametrize(
    ("name", "value", "loss"),
    [
        (None, 0.9, -0.9),
        ("accuracy", 0.9, -0.9),
        ("latency_s", 0.9, 0.9),
        ("accuracy", math.nan, math.inf),
        ("latency_s", math.nan, math.inf),
        ("accuracy", math.inf, -math.inf),
    ],
)
def test_a_loss_is_less_where_a_value_is_better_and_nan_is_worst(name: str | None, value: float, loss: float) -> None:
    assert BOTH.loss(value, name) == loss


def test_a_finished_trial_has_a_value_of_each() -> None:
    trial = SimpleNamespace(value=0.9, extra={"latency_s": 2.0, "note": "beside"})
    assert BOTH.values(trial) == {"accuracy": 0.9, "latency_s": 2.0}
    assert BOTH.losses(BOTH.values(trial)) == (-0.9, 2.0)


def test_what_is_missing_is_nan() -> None:
    values = BOTH.values(SimpleNamespace(value=0.9, extra={"latency_s": "fast"}))
    assert math.isnan(values["latency_s"])
    assert BOTH.losses(values) == (-0.9, math.inf)


@pytest.mark.parametrize(
    ("metric", "mode", "message"),
    [
        (
            "accuracy",
            None,
            "mode=None says neither that larger values of 'accuracy' are better nor that smaller ones are. "
            "Pass mode='max' or mode='min'.",
        ),
        (
            {"accuracy": "best"},
            None,
            "mode='best' says neither that larger values of 'accuracy' are better nor that smaller ones are. "
            "Pass mode='max' or mode='min'.",
        ),
        ("", "max", "metric='' is no name. Pass the name of what train returns or reports."),
        (
            ["a", "b"],
            ["max", "min"],
            "metric=['a', 'b'] is no name. Pass the name of what train returns or reports. Several are a dict: "
            'metric={"accuracy": "max", "latency_s": "min"}.',
        ),
        (None, None, "metric=None is no name. Pass the name of what train returns or reports."),
        (3, "max", "metric=3 is no name. Pass the name of what train returns or reports."),
        (
            {},
            None,
            "metric={} with mode=None cannot be. A mapping gives each metric its own mode: "
            'metric={"accuracy": "max", "latency_s": "min"}, without mode=.',
        ),
        (
            {"accuracy": "max"},
            "max",
            "metric={'accuracy': 'max'} with mode='max' cannot be. A mapping gives each metric its own mode: "
            'metric={"accuracy": "max", "latency_s": "min"}, without mode=.',
        ),
    ],
)
def test_what_names_no_metric_or_no_direction_is_refused(metric: Any, mode: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Metrics.read(metric, mode)
    assert str(refused.value) == message
