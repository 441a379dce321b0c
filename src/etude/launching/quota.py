"""Whether what weights may take on the disk holds those of one model at all: seen before anything is started."""

from __future__ import annotations

import random

from etude.core.errors import ConfigError
from etude.core.events import Keep
from etude.core.shelf import GB
from etude.core.signature import Definition
from etude.fit.plan import FitPlan, ProbedPlan
from etude.frameworks import torch_adapter
from etude.results.rebuilt import build
from etude.tune.question import Question


def check_quota(experiment: Definition, question: Question, keep: Keep) -> None:
    """Refuse a bound that cannot hold the weights of one trial.

    The model function is called once in this process, with a configuration that a trial may have. If it fails here,
    trials will say so.

    Args:
        experiment: Whose functions are run.
        question: What the study is to find out.
        keep: What is to be kept.

    Raises:
        ConfigError: It cannot hold them.
    """
    if keep.max_gb is None or not keep.trials or not keep.epochs or "model" not in experiment.functions:
        return
    try:
        size = _size_of_model(experiment, question)
    except Exception:
        return
    if size / GB > keep.max_gb:
        raise ConfigError(
            f"keep has max_gb={keep.max_gb:g}, and the weights of one model take {size / GB:.3g} GB, so none would "
            "ever be kept. Give them more room, or keep none (keep=0)."
        )


def _size_of_model(experiment: Definition, question: Question) -> int:
    """Return the bytes that the states of a model's modules take; 0 if it is none of torch."""
    plan = question.plan
    if isinstance(plan, FitPlan | ProbedPlan):
        params = plan.params
    else:
        params = question.space.sample(random.Random(question.seed)) if question.space is not None else {}
    model = build(experiment, params, 0)
    torch = torch_adapter()
    return torch.size_of(model) if torch is not None else 0
