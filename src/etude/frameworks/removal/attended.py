"""Positions that a model attends to: it takes sums over them, with weights that it computes.

An attention without anything learned looks at all of them alike: that is their mean, whatever their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from etude.frameworks.removal.operations import CONTRACTIONS
from etude.frameworks.removal.positions import Positions
from etude.frameworks.removal.sameness import Axis
from etude.frameworks.removal.trace import Op, Trace

MATRIX: Final = 2


def attended(trace: Trace, known: Positions) -> frozenset[int]:
    """Return the labels of the positions over which a run takes weighted sums of what it computes.

    Args:
        trace: The run.
        known: Its positions.
    """
    return frozenset(label for op in trace.ops for axis in _summed(op, trace, known) for label, _ in axis)


def _summed(op: Op, trace: Trace, known: Positions) -> Iterator[Axis]:
    """Go through the axes over which an operation sums."""
    if op.name == "scaled_dot_product_attention":
        if not op.kwargs.get("is_causal"):  # then not all of them are looked at
            yield known.of(op.inputs[1])[-2]
    elif op.name == "multi_head_attention_forward":
        yield known.of(op.inputs[1])[0]
    elif op.name in CONTRACTIONS and len(op.inputs) > 1:
        one, two = op.inputs[:2]
        computed = all(trace.values[n].kind != "parameter" for n in (one, two))
        if computed and min(len(known.of(one)), len(known.of(two))) >= MATRIX:
            yield known.of(two)[-2]
