"""A plan in words, which are those of the remover for PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from etude.frameworks.keras_removal.edits import Edit, Instead, Join, Resize
from etude.frameworks.keras_removal.graph import Graph
from etude.frameworks.keras_removal.kinds import KEPT, Columns


def changes_of(
    graph: Graph,
    gone: Sequence[int],
    lost: Sequence[int],
    edits: Sequence[Edit],
    why: Mapping[int, str],
    along: Sequence[str] = (),
    where: str = "",
) -> tuple[str, ...]:
    """Say what is done: what goes, what behind it stays, what is rebuilt.

    Args:
        graph: The graph.
        gone: Places of what was asked for.
        lost: Places of what has no effect any more.
        edits: What is done.
        why: By the number of a call, why nothing takes its place.
        along: Names of what is taken along.
        where: Of a nested model, its path and a dot.
    """
    said = []
    brought = {one.of.operation: one for one in edits if isinstance(one, Instead) and one.shape is not None}
    for place in gone:
        calls = [call for call in graph.calls if call.place == place]
        reason = next((why[call.n] for call in calls if why.get(call.n)), "")
        if place in brought:
            reason = _brought(graph, brought[place])
        name = graph.operations[place].name
        said.append(f"{where}{name}{' after it' if name in along else ''} removed" + (f" ({reason})" if reason else ""))
    for place in lost:
        layer, learns = graph.operations[place], bool(getattr(graph.operations[place], "weights", ()))
        said.append(
            f"no longer reached: {where}{layer.name}" if learns else f"{where}{layer.name} removed (without effect)"
        )
    stays = dict.fromkeys(
        f"{where}{user.operation.name}"
        for place in gone
        for call in graph.calls
        if call.place == place
        for output in call.outputs
        for user in graph.used[output]
        if user.kind in KEPT and user.place not in gone and user.place not in lost
    )
    said += [f"{name} kept" for name in stays]
    said += [f"{where}{_joined(graph, one)}" for one in edits if isinstance(one, Join) and one.of.operation not in lost]
    for one in edits:
        if isinstance(one, Resize):
            said += _sides(f"{where}{graph.operations[one.operation].name}", one)
    return tuple(said)


def _brought(graph: Graph, one: Instead) -> str:
    what = f"what went in is {'added up and ' if len(one.sources) > 1 else ''}brought into shape"
    if one.learned:
        return f"{what} by a learned dense layer"
    assert one.shape is not None
    how = []
    for source in one.sources:
        here, wanted = graph.shape(source), one.shape
        same = len(here) == len(wanted)
        pairs = [(a, b) for a, b in zip(here[:-1], wanted[:-1], strict=True) if a and b] if same else []
        how += ["averaging its positions"] if len(here) > len(wanted) or any(a > b for a, b in pairs) else []
        how += ["repeating its positions"] if any(a < b for a, b in pairs) else []
        how += [f"zeros beside its {here[-1]} channels"] if (wanted[-1] or 0) > (here[-1] or 0) else []
    return f"{what} by {' and '.join(dict.fromkeys(how))}" if how else "what went in is added up"


def _joined(graph: Graph, join: Join) -> str:
    before = len(graph.made[join.of].inputs)
    return f"{graph.operations[join.of.operation].name} joins {len(join.kept)} instead of {before}"


def _sides(name: str, one: Resize) -> list[str]:
    pairs = [(one.inputs, one.was_inputs, "inputs"), (one.outputs, one.was_outputs, "outputs")]
    return [
        f"{name} {_how(columns)} {was}->{len(columns)} {side}" for columns, was, side in pairs if columns is not None
    ]


def _how(columns: Columns) -> str:
    return "rebuilt" if None in columns else "cut"
