"""Libraries that distribute a training by themselves: they see the ranks by torchrun's environment."""

from __future__ import annotations

import sys
from typing import Any, Final

from torch import nn

TWICE: Final = (
    "{who} distributes over {ranks} processes by itself, while Étude averages gradients and divides batches too: they "
    "would be divided twice. Leave it to the library: "
    "fit(ranks={ranks}, parallel=etude.DDP(attach=False))."
)
NOBODY: Final = (
    "{optimizer} steps on {ranks} ranks, and no model came from model(), so nobody averages gradients: each rank would "
    "train a model of its own. Make the model in a model function, Experiment(train, model=...), and call model(); or, "
    "if a library distributes by itself, say so: parallel=etude.DDP(attach=False)."
)
NOT_LEFT: Final = (
    "{who} distributes by itself, and {given} wants Étude to do it. Leave that to the library: "
    "parallel=etude.DDP(attach=False)."
)
NO_PARTITION: Final = (
    "{who} distributes by itself, so it divides the examples, and partition= cannot assign them. Leave partition= out, "
    "or write the loop yourself."
)
LEFT: Final = "{who} distributes by itself: gradients and batches are left to it (attach=False)."


def trains_itself(module: nn.Module) -> bool:
    """Whether a module's trainer sees to ranks: a LightningModule."""
    return any(cls.__name__ == "LightningModule" for cls in type(module).__mro__)


def library_at_work() -> str:
    """Return the name of a library that distributes over several processes here; empty if none does."""
    state: Any = sys.modules.get("accelerate.state")
    shared: Any = getattr(getattr(state, "PartialState", None), "_shared_state", None) or {}
    several = shared.get("num_processes", 1) > 1
    return "Accelerate (or a Trainer that uses it)" if several else ""
