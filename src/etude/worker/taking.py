"""What an arm of an ablation takes away, taken away where it runs: as it was planned and checked before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etude.frameworks.removers import replay, replay_cuts


def taken_out(built: Any, repair: Mapping[str, Any], *, seed: int) -> Any:
    """Take a component out of what the model function returned, and return that.

    Args:
        built: A model, or several in any nesting.
        repair: How: which framework's it is, and the plan.
        seed: Of the trial.

    Raises:
        ResultError: It is no model of that framework.
    """
    if "plan" in repair:
        replay(built, repair, seed=seed)
    return built


def without_inputs(built: Any, repair: Mapping[str, Any]) -> Any:
    """Take off what the model function returned, built for all features, what reads those that are dropped.

    Args:
        built: A model, or several in any nesting.
        repair: How: which framework's it is, and the cuts.

    Raises:
        ConfigError: Its layers have other inputs than were planned for.
        ResultError: It is no model of that framework.
    """
    replay_cuts(built, repair)
    return built
