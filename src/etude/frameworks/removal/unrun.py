"""Why an untouched model does not run with an example, in words with what can be done."""

from __future__ import annotations

from typing import Any, Final

from etude.core.errors import WHOLE_MODEL, RefusalCode, RemovalRefused
from etude.frameworks.removal.nested import tensors
from etude.frameworks.removal.trace import Trace

LONGEST: Final = 200
"""Of what a model raises so many letters are said."""


def unrun(broken: Exception, example: Any) -> RemovalRefused:
    """Return the refusal for a model that raises with its example, as it is."""
    given = [tensor for _, tensor in tensors(example)]
    if not given:
        mend = "Pass what it is called with: a tensor, a tuple of arguments, or a dict of them by name."
    elif "type" in str(broken) and not any(tensor.is_floating_point() for tensor in given):
        mend = "The example has whole numbers only: pass floating point numbers, such as x.float()."
    else:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in given)
        mend = f"Pass an example that it is called with in training; this one is of shape {shapes}."
    why = f"the untouched model does not run with the example: {said(broken)}. {mend}"
    return RemovalRefused(RefusalCode.UNTRACEABLE, WHOLE_MODEL, why)


def said(broken: Exception) -> str:
    """Return what was raised, its first line, in whole words."""
    text = str(broken).strip().partition("\n")[0].removesuffix(":").removesuffix(".")
    if len(text) > LONGEST:
        text = f"{text[:LONGEST].rpartition(' ')[0]} ..."
    return f"{type(broken).__name__}: {text}" if text else type(broken).__name__


def shown(shape: tuple[int, ...], trace: Trace) -> str:
    """Return a shape as users know it: a run has a number of examples of its own, which is N."""
    batches = {trace.values[n].shape[0] for n in trace.calls[0].inputs.values() if trace.values[n].shape}
    sizes = ["N" if size in batches else str(size) for size in shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
