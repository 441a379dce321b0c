"""What the paper on AutoAblation prints of its experiments, and how its released notebooks ran them.

Sheikholeslami et al. 2021, doi:10.1145/3437984.3458834. The notebooks are those of the repository
``ssheikholeslami/ablation-paper-experiments``.
"""

from __future__ import annotations

from typing import Final

BASE: Final = "base"

TITANIC: Final = {
    BASE: "0.583",
    "feature:Pclass": "0.596",
    "feature:Sex": "0.609",
    "feature:SibSp": "0.616",
    "feature:Age": "0.667",
    "feature:Parch": "0.672",
    "feature:Fare": "0.695",
}
"""Table 1: mean test accuracy of five runs, by what was left out."""

MNIST: Final = {
    "layer:second_conv with=second_relu": "0.913",
    "layer:dense_layer with=dense_relu": "0.954",
    BASE: "0.969",
    "layer:second_dropout": "0.982",
    "layer:first_dropout": "0.988",
}
"""Table 2: likewise."""

RUNS: Final = 5
WORKERS: Final = (1, 2, 4)
"""Executors in figure 3, which prints no numbers; the text calls it near-linear."""
