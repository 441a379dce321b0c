"""Which combinations of components an ablation takes away: ``etude.policies.Pairs()``, and others."""

from __future__ import annotations

from etude.ablate.arms import BASE, Results, together
from etude.ablate.asking import needs
from etude.ablate.path import Step
from etude.ablate.policies import (
    Adaptive,
    AddOneIn,
    FullFactorial,
    LeaveGroupOut,
    LeaveOneOut,
    Pairs,
    Path,
    Policy,
    Shapley,
)
from etude.ablate.shapley import Worth, shapley_values
from etude.core.removal import Arm

__all__ = [
    "BASE",
    "Adaptive",
    "AddOneIn",
    "Arm",
    "FullFactorial",
    "LeaveGroupOut",
    "LeaveOneOut",
    "Pairs",
    "Path",
    "Policy",
    "Results",
    "Shapley",
    "Step",
    "Worth",
    "needs",
    "shapley_values",
    "together",
]
