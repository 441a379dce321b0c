"""The ladder of repairs, for the graph of a Keras model: the first rung that fits is taken."""

from __future__ import annotations

from typing import Final, NoReturn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Layers, Part
from etude.core.rungs import Rung
from etude.frameworks.keras_removal.adapters import Adapters, has_axes
from etude.frameworks.keras_removal.branches import MeetingError, Region, dropped, regions
from etude.frameworks.keras_removal.edits import Edit, Instead, Join, Output, Step
from etude.frameworks.keras_removal.fitting import Fitted, Fitting, counted
from etude.frameworks.keras_removal.graph import Graph
from etude.frameworks.keras_removal.idle import idle_inside
from etude.frameworks.keras_removal.kinds import Columns, mixes
from etude.frameworks.keras_removal.widths import drawn, resized
from etude.frameworks.keras_removal.words import changes_of

INTEGERS: Final = ("int", "uint", "bool", "string")


class Ladder:
    """Takes layers out of one graph.

    Args:
        graph: The graph.
        layers: What is taken out, for the plan.
        what: The same in words.
        where: Of a nested model, its path and a dot.
    """

    def __init__(self, graph: Graph, layers: Layers, what: str, where: str = "") -> None:
        self._where = where
        self._graph, self._layers, self._what = graph, layers, what
        self._adapters = Adapters(graph, what, layers.repair == "learned")
        self._instead: dict[Output, Instead] = {}
        self._joins: dict[Output, tuple[int, ...]] = {}
        self._outputs: dict[int, Columns] = {}
        self._rung = Rung.IDENTITY
        self._gone: set[int] = set()
        self._why: dict[int, str] = {}

    def step(self, places: list[int], parts: list[tuple[int, Part]]) -> Step:
        """Say how operations are taken out, and parts of others.

        Raises:
            RemovalRefused: They cannot be.
        """
        self._gone = {call.n for call in self._graph.calls if call.place in places}
        for n in sorted(self._gone):
            if self._graph.calls[n].is_input:
                self._refuse(RefusalCode.NO_PATH, "the data enters through it.")
        for place, part in parts:
            call = next(call for call in self._graph.calls if call.place == place)
            width = int(self._graph.shape(call.outputs[0])[-1] or 0)
            self._outputs[place] = tuple(n for n in range(width) if n not in part.indices)
            self._rung = max(self._rung, Rung.SPLICE)
        stretched = [region for region in regions(self._graph, self._gone) if not self._branch(region)]
        pairs = [(region, output) for region in stretched for output in region.outputs]
        for region, output in pairs:
            self._source(region, output)
        fitting = Fitting(self._graph, self._adapters, self._joins, self._outputs)
        return self._as_step(fitting.fit(self._instead, self._rung))

    # --- branches and sources ---------------------------------------------------------------------

    def _branch(self, region: Region) -> bool:
        if not region.outputs:
            self._refuse(RefusalCode.DEAD, "what it gives is not used.")
        try:
            found = dropped(self._graph, region, self._gone)
        except MeetingError as meeting:
            self._refuse(RefusalCode.UNTRACEABLE, str(meeting))
        if found is None:
            return False
        join, kept = found.join, found.kept
        earlier = self._joins.get(join.outputs[0], tuple(range(len(join.inputs))))
        kept = tuple(n for n in earlier if n in kept)
        if not kept:
            return False
        if len(kept) == 1 and join.kind != "Concatenate":
            other = join.inputs[kept[0]]
            if self._graph.shape(other) != self._graph.shape(join.outputs[0]):
                why = f"without it {join.operation.name} would give {self._graph.shape(other)} for each example, "
                self._refuse(RefusalCode.DOES_NOT_FIT, f"{why}and not {self._graph.shape(join.outputs[0])}.")
        self._joins[join.outputs[0]] = kept
        self._why |= {join.n: self._why.get(join.n, "")}
        self._rung = max(self._rung, Rung.NEUTRAL)
        for call in region.calls:
            self._why[call.n] = f"{join.operation.name} does without its branch"
        return True

    def _source(self, region: Region, output: Output) -> None:
        """Decide what takes the place of what a region gives."""
        upstream = self._graph.upstream((output,))
        given = [
            one
            for one in region.inputs
            if any(call.n in upstream for call in self._graph.used[one] if call in region.calls)
        ]
        if not given:
            self._refuse(RefusalCode.NO_PATH, "nothing goes in that could take the place of what comes out.")
        floats = [one for one in given if not self._is_integer(one)]
        learned = self._adapters.learned
        if not floats and not self._is_integer(output) and not learned:
            self._refuse(
                RefusalCode.NO_PATH, "it turns whole numbers into what the model computes with; nothing else does."
            )
        if self._is_integer(output):
            self._refuse(RefusalCode.NOT_FLOAT, "it gives whole numbers.")
        given = floats or given
        best = self._without_loss(given, [one for one in given if self._is_alike(one, output)], region)
        if learned and (not floats or len(best) > 1 or not has_axes(self._graph, best[0], output)):
            self._instead[output] = self._adapters.bring(output, best, self._graph.shape(output))
        elif len(best) > 1 or not has_axes(self._graph, best[0], output):
            self._instead[output] = self._adapters.average(output, best)
        else:
            self._instead[output] = Instead(output, (best[0],))

    def _is_alike(self, source: Output, output: Output) -> bool:
        return self._graph.shape(source) == self._graph.shape(output)

    def _without_loss(self, given: list[Output], alike: list[Output], region: Region) -> list[Output]:
        """Return what is to take the place: one, if no layer that learns loses its effect by it, else all."""
        if len(given) == 1:
            return given
        for one in [*alike, *given]:
            others = self._graph.upstream(tuple(each for each in given if each != one))
            lost = others - self._graph.upstream((one,)) - self._gone
            used = {n for n in lost if not self._leads_elsewhere(n, region)}
            if not any(mixes(self._graph.calls[n].operation) or self._graph.calls[n].is_input for n in used):
                return [one]
        if region.calls[-1].kind in ("Add", "Average") and len(region.calls) == 1:
            self._refuse(RefusalCode.NO_PATH, "it joins branches, and without it layers would have no effect any more.")
        return given

    def _leads_elsewhere(self, n: int, region: Region) -> bool:
        """Whether a call has an effect past a region."""
        own = {call.n for call in region.calls}
        left, seen = [n], set()
        while left:
            call = self._graph.calls[left.pop()]
            if any(output in self._graph.results for output in call.outputs):
                return True
            for user in (user for output in call.outputs for user in self._graph.used[output]):
                if user.n not in own and user.n not in seen:
                    seen.add(user.n)
                    left.append(user.n)
        return False

    def _is_integer(self, output: Output) -> bool:
        return str(self._graph.tensors[output].dtype).startswith(INTEGERS)

    # --- the plan ---------------------------------------------------------------------------------

    def _as_step(self, fitted: Fitted) -> Step:
        graph, resizes = self._graph, fitted.resizes
        sources = {of: one.sources for of, one in fitted.instead.items()}
        left = graph.left(sources, self._joins)
        if not any(graph.calls[n].is_input for n in left):
            self._refuse(RefusalCode.NO_PATH, "what the model gives would not depend on what goes in any more.")
        entered = {call.n for call in graph.calls if call.is_input} - left
        was = graph.upstream(graph.results)
        for n in entered & was:
            self._refuse(RefusalCode.NO_PATH, f"the input {graph.calls[n].operation.name} would lead nowhere.")
        places = {graph.calls[n].place for n in left}
        before = {graph.calls[n].place for n in was}
        asked = {graph.calls[n].place for n in self._gone}
        lost = sorted(before - places - asked)
        careless = [graph.operations[place].name for place in lost if mixes(graph.operations[place])]
        if careless and not self._joins:
            self._refuse(RefusalCode.NO_PATH, f"{', '.join(careless)} would have no effect any more.")
        edits: list[Edit] = list(fitted.instead.values())
        edits += [Join(output, kept) for output, kept in self._joins.items()]
        edits += resizes
        total, _ = counted(graph, left, resizes)
        count = sum(op.count_params() for op in graph.operations if hasattr(op, "count_params"))
        rebuilt = [name for one in resizes for name in drawn(graph.operations[one.operation], one)[2]]
        names = [graph.operations[place].name for place in [*sorted(asked), *lost]]
        along = [path.rpartition(".")[2] for path in self._layers.along]
        changes = changes_of(graph, sorted(asked), lost, edits, self._why, along, self._where)
        idle = [v.path for place in lost for v in getattr(graph.operations[place], "trainable_variables", ())]
        inside = idle_inside(graph, graph.needed({}, {}), graph.needed(sources, self._joins))
        if any(mixes(layer) or not self._joins for layer in inside.values()):
            self._refuse(RefusalCode.NO_PATH, f"{', '.join(inside)} would have no effect any more.")
        changes += tuple(f"no longer reached: {self._where}{name}" for name in inside)
        idle += [variable.path for layer in inside.values() for variable in layer.trainable_variables]
        others = tuple(path for one in resizes for path in resized(graph.operations[one.operation], one))
        return Step(
            (), tuple(names), tuple(edits), fitted.rung, changes, count, total, tuple(rebuilt), tuple(idle), others
        )

    def _refuse(self, code: RefusalCode, why: str) -> NoReturn:
        raise RemovalRefused(code, self._what, why)
