"""Simulated runs of ablations whose truth is known, with noise of several kinds."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

Array = Any
Generator = Any

NOISES: Final = ("normal", "heavy-tailed", "bimodal", "unequal")
"""Kinds of noise: Student's t with 3 degrees; one run in six ends far below; arms that vary up to 3 times as much."""

MARKED: Final = 6.0
"""How far below the others a run of bimodal noise may end, in deviations of the others."""

RARE: Final = 1 / 6
"""How often it does."""


def runs(rng: Generator, noise: str, *, effects: Array, seeds: int) -> tuple[Array, Array]:
    """Return the base's runs and those of each arm, a row each, with what is due to the seed in all of them.

    Effects are in standard deviations of the difference of a pair.
    """
    effects = np.asarray(effects, dtype=float)
    shared = rng.normal(size=seeds) * 2
    own = draw(rng, noise, (1 + len(effects), seeds))
    if noise == "unequal":
        own[1:] *= np.linspace(0.5, 3, len(effects))[:, None]
    spread = np.sqrt(own_variance(noise) * (1 + np.linspace(0.5, 3, len(effects)) ** 2)) if noise == "unequal" else None
    scale = math.sqrt(2 * own_variance(noise)) if spread is None else spread[:, None]
    return shared + own[0], shared + own[1:] - effects[:, None] * scale


def draw(rng: Generator, noise: str, shape: tuple[int, ...]) -> Array:
    """Return noise of mean zero."""
    if noise == "heavy-tailed":
        return rng.standard_t(3, size=shape)
    if noise == "bimodal":
        return rng.normal(size=shape) - MARKED * ((rng.random(shape) < RARE) - RARE)
    return rng.normal(size=shape)


def own_variance(noise: str) -> float:
    """Return the variance of one run's own noise."""
    return {"heavy-tailed": 3.0, "bimodal": 1 + MARKED**2 * RARE * (1 - RARE)}.get(noise, 1.0)
