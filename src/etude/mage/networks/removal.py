"""What it means to take modules out of a network: what goes along, what stays, and what becomes of their neighbours.

An activation and a normalisation behind a layer are there for its output, and go with it. Whether the pooling behind
it goes is another experiment, in which everything behind sees larger images: that is asked, with both readings counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from etude.mage.annotations import NONE
from etude.mage.facts import Facts, ModelFacts
from etude.mage.near import listed, nearest
from etude.mage.networks.models import Made, Network, Step
from etude.mage.networks.roles import Role, changes_nothing_again, is_over_all
from etude.mage.networks.sizes import Change, Shape, count, resized, shapes_of
from etude.mage.witnesses import ModuleGone, Resized, Witness

WORTH_SAYING: Final = 1.05
"""From so many times the baseline's parameters on, that is said."""


@dataclass(frozen=True)
class Way:
    """One way to read a removal.

    Attributes:
        text: What becomes of what is behind: ``stay`` or ``go``.
        gone: Paths of modules that go, in the whole model.
        along: Module that goes -> paths of modules without parameters and names of functions that are called behind it,
            and go along.
        idle: The same of what stays, and does nothing more.
        resized: Parameters of others and their new shapes; None where nothing can be said.
    """

    text: str
    gone: tuple[str, ...] = ()
    along: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    idle: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    resized: Mapping[str, Shape | None] | None = None


Count = Callable[[Way], int | None]
"""Counts the parameters of the model that a way leads to; None if it cannot."""


@dataclass(frozen=True)
class Removal:
    """What is to be done, as a plan says it.

    Attributes:
        meaning: What goes along and what stays.
        witnesses: By what it is known to be done.
        unclear: The ways to read it, if nobody has chosen.
        question: All of them in one sentence, with how to choose.
        wrong: What cannot be, and the mend; empty if all can.
    """

    meaning: str = ""
    witnesses: tuple[Witness, ...] = ()
    unclear: tuple[str, ...] = ()
    question: str = ""
    wrong: str = ""


@dataclass
class _Companions:
    """What stands directly behind modules that go, as indices of the flow."""

    along: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    stays: list[int] = field(default_factory=list)


def remove(
    network: Network,
    modules: Sequence[Made],
    *,
    prefixes: Sequence[str] = ("",),
    along: Sequence[str] = (),
    outputs: Mapping[str, int] | None = None,
    facts: Facts | None = None,
    counter: Count | None = None,
) -> Removal:
    """Return what it means that modules of a network go, and others get another number of outputs.

    Args:
        network: The network.
        modules: Those that go.
        prefixes: Where the network is in the whole model, with dots at the end; several if it is used several times.
        along: What goes along, as the user says; ``none`` if nothing does; empty if nobody has said it.
        outputs: Modules that stay -> their new number of outputs.
        facts: What was seen of the untouched program.
        counter: Counts parameters; None for reasoning over the facts.
    """
    asked_for = outputs = dict(outputs or {})
    flow = network.flow
    gone = [one.name for one in modules]
    behind = _behind(flow, gone)
    outputs = outputs | _instead_of_the_last(network, prefixes, gone, outputs, facts)
    wrong, more, chosen = _chosen(network, flow, behind, along, gone)
    if wrong:
        return Removal(wrong=wrong)
    gone += more
    kept_along = [] if tuple(along) == (NONE,) else behind.along
    norms = [flow[i].name for i in kept_along if flow and flow[i].role is Role.NORM and flow[i].made is not None]
    norms = [name for name in norms if _calls(flow, name) == 1]
    own_pools = [i for i, step in enumerate(flow or ()) if step.name in gone and step.role is Role.POOL]

    def way(text: str, pools: Iterable[int]) -> Way:
        change = Change(gone={*gone, *norms}, pools={*own_pools, *pools}, outputs=outputs)
        sizes = _sizes(network, prefixes, change, facts)
        paths = tuple(f"{prefix}{name}" for prefix in prefixes for name in dict.fromkeys([*gone, *norms]))
        stays = [i for i in behind.along if i not in kept_along]
        along_with, idle = (
            _by_owner(flow or (), indices, gone, norms, prefixes)
            for indices in ([*kept_along, *pools], _do_nothing_more(flow or (), stays, gone))
        )
        return Way(text, paths, along_with, idle, sizes)

    if behind.asked and not along:
        return _asked(modules, flow or (), behind, [way("stay", ()), way("go", behind.asked)], facts, counter)
    final = way("", chosen)
    if asked_for and (final.resized is None or None in final.resized.values()):
        told = f"what becomes of {listed(asked_for)} can be told only once the program was run untouched"
        return Removal(unclear=(told,), question=f"{told[0].upper()}{told[1:]}. Run the baseline first.")
    meaning = _meaning(flow or (), behind, kept_along, chosen, more, final, outputs)
    return Removal(meaning=meaning, witnesses=_witnesses(final, outputs))


def prefixes_of(network: Network, networks: Iterable[Network], facts: Facts | None) -> tuple[str, ...]:
    """Return where a network is in the whole model, as it was seen, else as the sources say; ``""`` if it is all."""
    if facts is not None and network.is_class:
        found = [
            f"{path}." if path else ""
            for model in facts.models[:1]
            for path, module in model.modules.items()
            if module.type.rpartition(".")[2] == network.name
        ]
        if found:
            return tuple(found)
    return tuple(_placed(network, tuple(networks), ())) or ("",)


def _placed(network: Network, networks: tuple[Network, ...], seen: tuple[str, ...]) -> list[str]:
    found = []
    for other in networks:
        for made in other.made:
            if made.type == network.name and other.name not in (*seen, network.name):
                outer = _placed(other, networks, (*seen, network.name)) or [""]
                found += [f"{prefix}{made.name}." for prefix in outer]
    return found


def _behind(flow: Sequence[Step] | None, gone: Sequence[str]) -> _Companions:
    """Return what stands between each layer that goes and the next layer."""
    found = _Companions()
    for start, step in enumerate(flow or ()):
        if step.name not in gone or step.role is not Role.LAYER:
            continue
        for i in range(start + 1, len(flow or ())):
            other = (flow or ())[i]
            if other.role is Role.LAYER:
                break
            if other.role in (Role.ACTIVATION, Role.NORM):
                found.along.append(i)
            elif other.role is Role.POOL and not is_over_all(other.kind):
                found.asked.append(i)
            elif other.role is Role.DROPOUT:
                found.stays.append(i)
    if len(gone) == 1 and _is_last(flow, gone[0]):
        found.asked = []
    return found


def _is_last(flow: Sequence[Step] | None, name: str) -> bool:
    layers = [step.name for step in flow or () if step.role is Role.LAYER]
    return bool(layers) and layers[-1] == name


def _instead_of_the_last(
    network: Network, prefixes: Sequence[str], gone: Sequence[str], outputs: Mapping[str, int], facts: Facts | None
) -> dict[str, int]:
    """Return that the layer before the last one gives what the last one gave, if that goes: labels stay."""
    layers = [step.name for step in network.flow or () if step.role is Role.LAYER]
    left = [name for name in layers if name not in gone]
    if any(prefixes) or not left or layers[-1] not in gone or left[-1] in outputs:
        return {}
    shapes = shapes_of(network.flow or (), prefixes[0], facts).get(layers[-1], {})
    wide = {shape[0] for shape in shapes.values()}
    return {left[-1]: wide.pop()} if len(wide) == 1 else {}


def _calls(flow: Sequence[Step] | None, name: str) -> int:
    return sum(step.name == name for step in flow or ())


def _chosen(
    network: Network, flow: Sequence[Step] | None, behind: _Companions, along: Sequence[str], gone: Sequence[str]
) -> tuple[str, list[str], list[int]]:
    """Return what is wrong with what was chosen, further modules that go, and poolings that go, by their index."""
    more: list[str] = []
    pools: list[int] = []
    for name in () if tuple(along) == (NONE,) else along:
        if name == NONE:
            return f"`with={'+'.join(along)}` says that something goes along, and that nothing does. Say one.", [], []
        near = [i for i in (*behind.asked, *behind.along, *behind.stays) if _is_called((flow or ())[i], name)]
        module = network.find(name)
        if near:
            pools += [i for i in near if i in behind.asked]
            more += [(flow or ())[i].name for i in near if i in behind.stays and (flow or ())[i].made is not None]
        elif module is not None:
            more.append(module.name)
        else:
            known = [*((flow or ())[i].short for i in (*behind.asked, *behind.along)), *(m.name for m in network.made)]
            like = nearest(name, dict.fromkeys(known))
            mend = f"Did you mean {listed(like)}?" if like else f"There are {listed(dict.fromkeys(known))}."
            return f"`with={name}` names nothing that `{network.name}` has. {mend}", [], []
    return "", [name for name in dict.fromkeys(more) if name not in gone], pools


def _is_called(step: Step, name: str) -> bool:
    own = step.short.rpartition(".")[2].lower()
    return name.lower() in (step.name.lower(), own, step.role.value) or (
        step.role is Role.POOL and name.lower() == "pool"
    )


def _sizes(
    network: Network, prefixes: Sequence[str], change: Change, facts: Facts | None
) -> dict[str, Shape | None] | None:
    if network.flow is None:
        return None
    layers = [step.name for step in network.flow if step.role is Role.LAYER]
    if any(prefixes) and (change.pools or (layers and layers[-1] in change.gone)):
        return None  # what the network gives is another, and reaches further than is followed
    found: dict[str, Shape | None] = {}
    for prefix in prefixes:
        one = resized(network.flow, prefix, change, facts)
        if one is None:
            return None
        found |= one
    return found


def _do_nothing_more(flow: Sequence[Step], behind: Sequence[int], gone: Sequence[str]) -> list[int]:
    """Return those steps behind layers that go that could as well go: the same activation was before, and is enough."""

    def before(i: int) -> str:
        stays = (step for step in reversed(flow[:i]) if step.name not in gone)
        return next((step.kind for step in stays if step.role in (Role.ACTIVATION, Role.LAYER, Role.NORM)), "")

    return [i for i in behind if changes_nothing_again(flow[i].kind, before(i))]


def _by_owner(
    flow: Sequence[Step], indices: Iterable[int], gone: Sequence[str], norms: Sequence[str], prefixes: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return what steps are called where they run, by the layer that they are behind, each in the whole model."""
    found: dict[str, tuple[str, ...]] = {}
    for i in sorted(indices):
        step = flow[i]
        if step.name in {*gone, *norms}:
            continue  # a claim is about it
        layer = next(one.name for one in reversed(flow[:i]) if one.role is Role.LAYER and one.name in gone)
        for prefix in prefixes:
            called = step.short if step.made is None else f"{prefix}{step.name}"
            found[prefix + layer] = (*found.get(prefix + layer, ()), called)
    return found


def _witnesses(way: Way, outputs: Mapping[str, int]) -> tuple[Witness, ...]:
    sizes = dict(way.resized) if way.resized is not None else {}
    if way.gone:
        stay = way.resized is not None
        return tuple(
            ModuleGone(
                path=path,
                resized=sizes,
                others_stay=stay,
                along=way.along.get(path, ()),
                idle=way.idle.get(path, ()),
            )
            for path in way.gone
        )
    shapes = {name: shape for name, shape in sizes.items() if shape is not None}
    return (Resized(shapes=shapes),) if shapes and outputs else ()


def _asked(
    modules: Sequence[Made],
    flow: Sequence[Step],
    behind: _Companions,
    ways: Sequence[Way],
    facts: Facts | None,
    counter: Count | None,
) -> Removal:
    model = _model(facts, ways[0])
    base = count(model, (), {}) if model is not None else None
    counts = []
    for way in ways:
        reasoned = count(model, way.gone, way.resized) if model is not None and way.resized is not None else None
        counts.append(counter(way) if counter is not None else reasoned)
    pools = list(dict.fromkeys(flow[i].short for i in behind.asked))
    names = " and ".join(f"`{one.name}`" for one in modules)
    after = "the pooling after it" if len(modules) == 1 else "the pooling after them"
    known = all(n is not None for n in counts)
    first, second = (_counted(n, base) for n in counts) if known else ("", "")
    stay = f"{after} stays{f' ({first} parameters)' if known else ''}"
    go = f"{after} goes{f' ({second})' if known else ''}"
    question = (
        f"{names} removed: {after} can stay{f' ({first} parameters)' if known else ''} or go"
        f"{f' ({second})' if known else ''}. Choose with `with={'+'.join(pools)}`. "
        f"It stays with `with={NONE}`.{_without_an_edit(modules, pools)}"
    )
    return Removal(unclear=(stay, go), question=question)


def _without_an_edit(modules: Sequence[Made], pools: Sequence[str]) -> str:
    """Return how it is chosen by whoever leaves the file as it is, where one component is meant."""
    if len(modules) != 1:
        return ""
    name = modules[0].name
    return f" Or leave the file as it is: --choose {name}={'+'.join(pools)}, or --choose {name}={NONE}."


def _model(facts: Facts | None, way: Way) -> ModelFacts | None:
    for model in facts.models if facts is not None else ():
        if any(name.startswith(f"{path}.") for path in way.gone for name in model.parameters):
            return model
    return None


def _counted(n: int | None, base: int | None) -> str:
    assert n is not None
    ratio = n / base if base else 1.0
    return f"{n:,}" + (f"; {ratio:.1f} times the baseline" if ratio >= WORTH_SAYING else "")


def _meaning(
    flow: Sequence[Step],
    behind: _Companions,
    along: Sequence[int],
    pools: Sequence[int],
    more: Sequence[str],
    way: Way,
    outputs: Mapping[str, int],
) -> str:
    """Return what goes along and what stays, in sentences."""
    goes = list(dict.fromkeys([*(flow[i].short for i in (*along, *pools)), *more]))
    stays = list(
        dict.fromkeys(flow[i].short for i in (*behind.asked, *behind.stays, *behind.along) if i not in {*along, *pools})
    )
    stays = [
        name for name in stays if name not in goes or name in {flow[i].short for i in behind.asked if i not in pools}
    ]
    said = []
    if goes:
        said.append(f"What is called behind it goes along: {listed(goes)}.")
    if stays:
        said.append(f"It stays behind it: {listed(stays)}.")
    if outputs:
        said.append(" ".join(f"`{name}` gives {n} numbers." for name, n in outputs.items()))
    if way.resized is None:
        said.append("What is before it goes straight into what is behind it.")
    elif way.resized:
        told = [
            f"`{name}` {'x'.join(map(str, shape)) if shape else 'another shape'}" for name, shape in way.resized.items()
        ]
        said.append(f"Others take new shapes: {', '.join(told[:8])}{' and more' if len(told) > 8 else ''}.")  # noqa: PLR2004
    else:
        said.append("No other parameter changes its shape.")
    return " ".join(said)
