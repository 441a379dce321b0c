"""The ladder of repairs, for the graph of a Keras model: the first rung that fits is taken."""

from __future__ import annotations

from typing import Final, NoReturn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Layers, Part
from etude.core.rungs import Rung
from etude.frameworks.keras_removal.adapters import why_last, why_not_averaged
from etude.frameworks.keras_removal.branches import MeetingError, Region, dropped, only_added, regions
from etude.frameworks.keras_removal.edits import Edit, Instead, Join, Output, Resize, Step
from etude.frameworks.keras_removal.graph import Graph
from etude.frameworks.keras_removal.idle import idle_inside
from etude.frameworks.keras_removal.kinds import Columns, channels_first, mixes
from etude.frameworks.keras_removal.sizes import Sizes
from etude.frameworks.keras_removal.widths import CoupledError, MisfitError, Widths, drawn, resized
from etude.frameworks.keras_removal.words import changes_of

TOO_MUCH: Final = 0.2
"""No more than this share of the parameters that are left may be drawn anew."""

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
        resizes = self._fitted([output for _, output in pairs])
        return self._as_step(resizes)

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
        learned = self._layers.repair == "learned"
        if not floats and not self._is_integer(output) and not learned:
            self._refuse(
                RefusalCode.NO_PATH, "it turns whole numbers into what the model computes with; nothing else does."
            )
        if self._is_integer(output):
            self._refuse(RefusalCode.NOT_FLOAT, "it gives whole numbers.")
        given = floats or given
        best = self._without_loss(given, [one for one in given if self._is_alike(one, output)], region)
        if learned and (not floats or len(best) > 1 or not self._has_axes(best[0], output)):
            self._bring(output, best, self._graph.shape(output))
        elif len(best) > 1 or not self._has_axes(best[0], output):
            self._average(output, best)
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

    def _has_axes(self, source: Output, output: Output) -> bool:
        """Whether a tensor has as many axes as another, and what is not fixed of one is not of the other."""
        one, two = self._graph.shape(source), self._graph.shape(output)
        return len(one) == len(two) and all((a is None) == (b is None) for a, b in zip(one, two, strict=True))

    def _is_integer(self, output: Output) -> bool:
        return str(self._graph.tensors[output].dtype).startswith(INTEGERS)

    def _bring(self, output: Output, sources: list[Output], shape: tuple[int | None, ...]) -> None:
        """Let sources be brought into a shape by a layer."""
        learned = self._layers.repair == "learned"
        if any(channels_first(operation) for operation in self._graph.operations):
            self._refuse(RefusalCode.DOES_NOT_FIT, "shapes differ, and the model has its channels first.")
        for source in sources:
            if not self._has_axes(source, output) and None in (*shape[:-1], *self._graph.shape(source)[:-1]):
                self._refuse(RefusalCode.DOES_NOT_FIT, "shapes differ, and their sizes are not fixed.")
        name = f"{self._graph.made[output].operation.name}_{'learned' if learned else 'fit'}"
        name += f"_{output.nth}" if output.nth else ""
        self._instead[output] = Instead(output, tuple(sources), shape, learned, name)

    def _average(self, output: Output, sources: list[Output], *, zeros: bool = False) -> None:
        """Let sources be brought into a shape by averages along their positions, with the channels that they have.

        Raises:
            RemovalRefused: There are none that have neighbours, or channels would have to be made up.
        """
        if why := why_not_averaged(self._graph, sources, output):
            self._refuse(RefusalCode.DOES_NOT_FIT, why)
        wanted = self._graph.shape(output)
        self._bring(output, sources, (*wanted[:-1], wanted[-1] if zeros else None))

    # --- widths -----------------------------------------------------------------------------------

    def _fitted(self, outputs: list[Output]) -> list[Resize]:
        """Return what is rebuilt so that all fits, with as little as does.

        First what goes in takes the place as it is: other numbers of positions are followed, and what reads other
        channels is rebuilt. Then positions are averaged; and then, in front of an addition, zeros stand for channels.
        """
        rung, plain = self._rung, {o: self._instead[o] for o in outputs}
        other = [o for o in outputs if plain[o].shape is None and not self._is_alike(plain[o].sources[0], o)]
        levels = ["plain", "positions", "zeros"] if other else ["plain"]
        if self._layers.repair == "learned" and other:
            levels = ["plain", "learned"]
        refused: tuple[RefusalCode, str] | None = None
        for level in levels:
            self._rung, self._instead = rung, self._instead | plain
            try:
                if not self._prepared(level, other, plain):
                    continue
                resizes, coupled = self._resized()
                share = self._share(resizes)
                if share > TOO_MUCH:
                    self._refuse(RefusalCode.TOO_MUCH, f"{share:.0%} of what is left would be drawn anew.")
            except MisfitError as misfit:
                refused = refused or (RefusalCode.DOES_NOT_FIT, f"{misfit}.")
            except RemovalRefused as one:
                refused = refused or (one.code, one.why)
            else:
                self._rung = max(self._rung, Rung.WIDTH if coupled else Rung.SPLICE) if resizes else self._rung
                if any(one.shape is not None for one in self._instead.values()):
                    self._rung = Rung.LEARNED if self._layers.repair == "learned" else Rung.ADAPTER
                return resizes
        assert refused is not None
        code, why = refused
        last = (why_last(self._graph, self._instead[output].sources[0], output) for output in outputs)
        if said := next(filter(None, last), ""):
            code, why = RefusalCode.DOES_NOT_FIT, said
        raise RemovalRefused(code, self._what, why)

    def _prepared(self, level: str, other: list[Output], plain: dict[Output, Instead]) -> bool:
        """Let sources be brought into shape as a level says; return whether there is anything to bring."""
        if level == "plain":
            return True
        any_brought = False
        for output in other:
            here, wanted = self._graph.shape(plain[output].sources[0]), self._graph.shape(output)
            if level == "learned":
                self._bring(output, list(plain[output].sources), wanted)
                any_brought = True
                continue
            narrow = level == "zeros" and (here[-1] or 0) < (wanted[-1] or 0)
            if narrow and not only_added(self._graph, output):
                return False
            if narrow or here[:-1] != wanted[:-1]:
                self._average(output, list(plain[output].sources), zeros=narrow)
                any_brought = any_brought or level == "positions" or narrow
        return any_brought

    def _resized(self) -> tuple[list[Resize], bool]:
        plain = {of: one.sources[0] for of, one in self._instead.items() if one.shape is None or one.shape[-1] is None}
        for output, kept in self._joins.items():
            if len(kept) == 1 and self._graph.made[output].kind != "Concatenate":
                plain[output] = self._graph.made[output].inputs[kept[0]]
        joins = {output: kept for output, kept in self._joins.items() if output not in plain}
        brought = {output for output, one in self._instead.items() if one.shape is not None}
        fixed, left = brought - plain.keys(), self._left()
        flat = Sizes(self._graph, plain, joins, left, brought).flat
        widths = Widths(self._graph, plain, joins, left, fixed, flat)
        outputs, coupled = dict(self._outputs), False
        for _ in range(len(self._graph.calls)):
            try:
                widths.follow(outputs)
            except CoupledError as meet:
                coupled = True
                calls = [call for operand in meet.operands for call in widths.producers(operand)]
                if not calls:
                    raise MisfitError("operands of different widths meet") from None
                for call in calls:
                    if outputs.get(call.place, meet.columns) != meet.columns or call.place in outputs:
                        raise MisfitError(f"{call.operation.name} would need two widths") from None
                    outputs[call.place] = meet.columns
            else:
                return widths.resizes(), coupled
        raise MisfitError("widths do not settle")

    def _left(self) -> set[int]:
        """Return the numbers of the calls that still have an effect."""
        return self._graph.left(self._sources(), self._joins)

    def _sources(self) -> dict[Output, tuple[Output, ...]]:
        return {of: one.sources for of, one in self._instead.items()}

    def _share(self, resizes: list[Resize]) -> float:
        total, new = self._counted(resizes)
        return new / max(total, 1)

    def _counted(self, resizes: list[Resize]) -> tuple[int, int]:
        """Return how many parameters are left, and how many of them are drawn anew."""
        by_place = {one.operation: one for one in resizes}
        total = new = 0
        for place in {self._graph.calls[n].place for n in self._left()}:
            operation = self._graph.operations[place]
            if place in by_place:
                some, drawn_anew, _ = drawn(operation, by_place[place])
                total, new = total + some, new + drawn_anew
            elif hasattr(operation, "count_params"):
                total += operation.count_params()
        return total, new

    # --- the plan ---------------------------------------------------------------------------------

    def _as_step(self, resizes: list[Resize]) -> Step:
        graph, left = self._graph, self._left()
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
        edits: list[Edit] = list(self._instead.values())
        edits += [Join(output, kept) for output, kept in self._joins.items()]
        edits += resizes
        total, _ = self._counted(resizes)
        count = sum(op.count_params() for op in graph.operations if hasattr(op, "count_params"))
        rebuilt = [name for one in resizes for name in drawn(graph.operations[one.operation], one)[2]]
        names = [graph.operations[place].name for place in [*sorted(asked), *lost]]
        along = [path.rpartition(".")[2] for path in self._layers.along]
        changes = changes_of(graph, sorted(asked), lost, edits, self._why, along, self._where)
        idle = [v.path for place in lost for v in getattr(graph.operations[place], "trainable_variables", ())]
        inside = idle_inside(graph, graph.needed({}, {}), graph.needed(self._sources(), self._joins))
        if any(mixes(layer) or not self._joins for layer in inside.values()):
            self._refuse(RefusalCode.NO_PATH, f"{', '.join(inside)} would have no effect any more.")
        changes += tuple(f"no longer reached: {self._where}{name}" for name in inside)
        idle += [variable.path for layer in inside.values() for variable in layer.trainable_variables]
        others = tuple(path for one in resizes for path in resized(graph.operations[one.operation], one))
        return Step(
            (), tuple(names), tuple(edits), self._rung, changes, count, total, tuple(rebuilt), tuple(idle), others
        )

    def _refuse(self, code: RefusalCode, why: str) -> NoReturn:
        raise RemovalRefused(code, self._what, why)
