"""A listing: everything in a model, its data and its configuration that could be taken away, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct

from etude.core.text import count


class Layer(Struct, frozen=True):
    """A layer or a block of a model.

    Attributes:
        path: Its dotted path, as ``named_modules()`` has it; never that of the whole model.
        type: The name of its class.
        parameters: How many numbers it trains, with those of the layers in it.
        depth: How many blocks it stands in.
        heads: How many heads it has, if it has any.
        units: How many units it has, if it is a dense layer.
        filters: How many filters it has, if it is a convolution.
        called: When its calls end, one number for each, in the order of the whole model; empty if it is never called.
        role: ``"input"`` if the data enters through it and cannot without, ``"output"`` if it gives what the model
            returns.
        reads_data: Whether it learns, and no layer that learns stands between it and the data.
    """

    path: str
    type: str
    parameters: int = 0
    depth: int = 0
    heads: int | None = None
    units: int | None = None
    filters: int | None = None
    called: tuple[int, ...] = ()
    role: Literal["", "input", "output"] = ""
    reads_data: bool = False


class Feature(Struct, frozen=True):
    """A feature of the data, or a channel of its images.

    Attributes:
        name: Its name; of a channel, its number or name.
        kind: Which of the two it is.
        modality: The modality that it belongs to, if there are such.
        role: ``"label"`` for what is to be predicted, ``"id"`` for what only tells examples apart.
    """

    name: str
    kind: Literal["feature", "channel"] = "feature"
    modality: str = ""
    role: Literal["", "label", "id"] = ""

    @property
    def address(self) -> str:
        """What it is called in ``core.removal.Features``: a channel's name begins with ``channel:``."""
        return self.name if self.kind == "feature" else f"channel:{self.name}"


class Setting(Struct, frozen=True):
    """A hyperparameter.

    Attributes:
        name: Its name.
        value: Its value in the configuration from which things are taken away.
        kind: Whether it is stateful, stateless or derived.
    """

    name: str
    value: Any
    kind: Literal["stateful", "stateless", "derived"] = "stateful"


class Listing(Struct, frozen=True):
    """Everything that could be taken away. It prints itself as a tree.

    Attributes:
        layers: Of the model, in the order in which it was built; a block stands before what is in it.
        features: Of the data.
        settings: Hyperparameters.
        inputs: What the framework calls the inputs of the model, as if they were layers.
        by_hand: Whether the data function leaves features out itself, of data in which nothing names them: only it
            knows what they are called.
        nameless: Why names that the data function gives are nobody's, as a sentence; empty if they are found.
    """

    layers: tuple[Layer, ...] = ()
    features: tuple[Feature, ...] = ()
    settings: tuple[Setting, ...] = ()
    inputs: tuple[str, ...] = ()
    by_hand: bool = False
    nameless: str = ""

    def __str__(self) -> str:
        parts = (self._layers(), self._features(), self._settings())
        return "\n".join(line for part in parts for line in part)

    def _layers(self) -> Iterator[str]:
        if self.layers:
            top = set(outermost(layer.path for layer in self.layers))
            total = sum(layer.parameters for layer in self.layers if layer.path in top)
            yield f"layers ({count(total, 'parameter')})"
        called = {path for layer in self.layers if layer.called for path in (layer.path, *_above(layer.path))}
        width = max((len(layer.path) + 2 * layer.depth for layer in self.layers), default=0)
        for layer in self.layers:
            counts = [(layer.filters, "filter"), (layer.units, "unit"), (layer.heads, "head")]
            facts = [count(layer.parameters, "parameter")] if layer.parameters else []
            facts += [count(number, noun) for number, noun in counts if number is not None]
            facts += ["reads the data"] if layer.reads_data and layer.role != "input" else []
            facts += [layer.role] if layer.role else []
            facts += ["never called"] if called and layer.path not in called else []
            indented = "  " * layer.depth + layer.path
            yield f"  {indented:<{width}}  {layer.type}  {', '.join(facts)}".rstrip()

    def _features(self) -> Iterator[str]:
        if self.features or self.by_hand:
            yield "features"
        if self.by_hand:
            yield "  those that data() knows by name: nothing names them in what it returns"
        for feature in self.features:
            facts = [feature.modality, feature.role]
            yield f"  {feature.address}  {', '.join(fact for fact in facts if fact)}".rstrip()

    def _settings(self) -> Iterator[str]:
        if self.settings:
            yield "settings"
        for setting in self.settings:
            kind = "" if setting.kind == "stateful" else f"  {setting.kind}"
            yield f"  {setting.name} = {setting.value!r}{kind}"


def is_inside(path: str, outer: str) -> bool:
    """Say whether a layer is part of another one, or of what is in it; no layer is inside itself."""
    return path.startswith(f"{outer}.")


def outermost(paths: Iterable[str]) -> list[str]:
    """Return those paths that are inside no other of them, in their order.

    Example:
        >>> outermost(["block", "block.conv", "head", "block2"])
        ['block', 'head', 'block2']
    """
    known = dict.fromkeys(paths)
    return [path for path in known if not any(outer in known for outer in _above(path))]


def _above(path: str) -> Iterator[str]:
    while "." in path:
        path = path.rpartition(".")[0]
        yield path
