"""What an adapter without weights may do: average positions, which have neighbours, and nothing with channels."""

from __future__ import annotations

from collections.abc import Sequence

from etude.frameworks.keras_removal.edits import Output
from etude.frameworks.keras_removal.graph import Graph
from etude.frameworks.keras_removal.kinds import mixes
from etude.frameworks.keras_removal.sizes import on_grid


def why_not_averaged(graph: Graph, sources: Sequence[Output], output: Output) -> str:
    """Say why tensors cannot be brought to the positions of another, with the channels that they have; empty if so."""
    wanted = graph.shape(output)
    if len({graph.shape(source)[-1:] for source in sources}) > 1:
        return "its inputs have different widths, and would have to be added up."
    for source in sources:
        here = graph.shape(source)
        if here[:-1] == wanted[:-1] and here:
            continue
        if not (len(wanted) == 1 < len(here) or len(here) == len(wanted) > 1):
            why = f"what goes in is {_sizes(here)} for each example, what comes out {_sizes(wanted)}, and nothing "
            return f"{why}without parameters makes the one of the other."
        if not all(on_grid(graph, one) for one in (source, output) if len(graph.shape(one)) > 1):
            return "its positions are a set: averages of neighbours would mean nothing."
    return ""


def why_last(graph: Graph, source: Output, output: Output) -> str:
    """Say that a tensor gives the model's result its width, if it does, and what goes in has another; else nothing."""
    here, wanted = graph.shape(source)[-1:], graph.shape(output)[-1:]
    if here == wanted or any(mixes(graph.calls[n].operation) for n in graph.downstream((output,))):
        return ""
    return (
        f"it gives the model's result its width: nothing without parameters makes {_sizes(wanted)} numbers of "
        f'{_sizes(here)}. repair="learned" puts a small dense layer there.'
    )


def _sizes(shape: tuple[int | None, ...]) -> str:
    return "x".join("?" if size is None else str(size) for size in shape) or "a number"
