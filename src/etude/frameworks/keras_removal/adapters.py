"""What an adapter without weights may do: average positions, which have neighbours, and nothing with channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.frameworks.keras_removal.edits import Instead, Output
from etude.frameworks.keras_removal.graph import Graph
from etude.frameworks.keras_removal.kinds import channels_first, mixes
from etude.frameworks.keras_removal.sizes import on_grid


class Adapters(NamedTuple):
    """Brings what takes a place into the shape of what it takes it from.

    Attributes:
        graph: The graph.
        what: What is taken out, in words.
        learned: Whether a dense layer does it.
    """

    graph: Graph
    what: str
    learned: bool

    def bring(self, output: Output, sources: Sequence[Output], shape: tuple[int | None, ...]) -> Instead:
        """Return what brings sources into a shape by a layer.

        Raises:
            RemovalRefused: Nobody can tell the sizes, or which axis the channels are.
        """
        if any(channels_first(operation) for operation in self.graph.operations):
            self._refuse("shapes differ, and the model has its channels first.")
        for source in sources:
            if not has_axes(self.graph, source, output) and None in (*shape[:-1], *self.graph.shape(source)[:-1]):
                self._refuse("shapes differ, and their sizes are not fixed.")
        name = f"{self.graph.made[output].operation.name}_{'learned' if self.learned else 'fit'}"
        name += f"_{output.nth}" if output.nth else ""
        return Instead(output, tuple(sources), shape, self.learned, name)

    def average(self, output: Output, sources: Sequence[Output], *, zeros: bool = False) -> Instead:
        """Return what brings sources into a shape by averages along their positions, with the channels that they have.

        Raises:
            RemovalRefused: There are none that have neighbours, or channels would have to be made up.
        """
        if why := why_not_averaged(self.graph, sources, output):
            self._refuse(why)
        wanted = self.graph.shape(output)
        return self.bring(output, sources, (*wanted[:-1], wanted[-1] if zeros else None))

    def _refuse(self, why: str) -> NoReturn:
        raise RemovalRefused(RefusalCode.DOES_NOT_FIT, self.what, why)


def has_axes(graph: Graph, source: Output, output: Output) -> bool:
    """Whether a tensor has as many axes as another, and what is not fixed of one is not of the other."""
    one, two = graph.shape(source), graph.shape(output)
    return len(one) == len(two) and all((a is None) == (b is None) for a, b in zip(one, two, strict=True))


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
