"""Calls as type checkers see them: ``make types`` reads this file, and nothing runs it.

A line that has to be an error is marked as one. If it is none any more, the mark is unused, and that is an error.
"""

from __future__ import annotations

from typing import assert_type

import etude
from etude.results.across import AblationAcross
from etude.verbs.ablation_draft import AblationDraft
from etude.verbs.across import DraftAcross


def ablations(experiment: etude.Experiment) -> None:
    """Call ``ablate`` with right and wrong options."""
    assert_type(experiment.ablate("lr", seeds=3, margin=0.1, engine="local"), etude.Ablation)
    assert_type(experiment.ablate(["lr"], seeds=3, dry_run=False), etude.Ablation)
    assert_type(experiment.ablate("lr", seeds=range(3), dry_run=True), AblationDraft)
    assert_type(experiment.ablate("lr", retune=10, space={"wd": [0.0, 0.1]}, sampler="random"), etude.Ablation)
    assert_type(experiment.ablate("lr", across={"size": [1, 2]}), AblationAcross)
    assert_type(experiment.ablate("lr", folds=5, dry_run=True), DraftAcross)
    experiment.ablate("lr", seed_count=3)  # type: ignore[call-overload]
    experiment.ablate("lr", seeds=3, dry_run=True, margins=0.1)  # type: ignore[call-overload]
    experiment.ablate("lr", seeds=3.5)  # type: ignore[call-overload]
    experiment.ablate("lr", retune="10")  # type: ignore[call-overload]
    experiment.ablate("lr", on_refusal="stop")  # type: ignore[call-overload]
