"""What an arm of an ablation takes away, taken away where it runs: as it was planned and checked before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etude.core.errors import ResultError
from etude.frameworks import torch_adapter


def taken_out(built: Any, repair: Mapping[str, Any], *, seed: int) -> Any:
    """Take a component out of what the model function returned, and return that.

    Args:
        built: A model, or several in any nesting.
        repair: How: which framework's it is, and the plan.
        seed: Of the trial.

    Raises:
        ResultError: It is no model of that framework.
    """
    torch = torch_adapter()
    if repair["of"] != "torch" or torch is None or not (found := torch.modules(built)):
        raise ResultError(
            f"model() gave a {type(built).__name__} where the ablation was planned for a model of {repair['of']}. It "
            "has to give the same kind of model in every process."
        )
    from etude.frameworks.removal.replay import replay

    replay(found, repair["plan"], seed=seed)
    return built


def fingerprints() -> Any:
    """Return what takes the fingerprints of how a training of an arm begins, with torch."""
    from etude.frameworks.torch_prints import Fingerprints  # few want them

    return Fingerprints()
