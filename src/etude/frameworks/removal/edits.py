"""What is done to a model, as data: it can be shown, journaled, and done again to a fresh copy of the model."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from etude.core.removal import Layers
from etude.core.rungs import Rung
from etude.frameworks.removal.nested import Path, Template


class Dim(Struct, frozen=True):
    """The size of an axis: fixed, or a multiple of the size of an axis of an input.

    Attributes:
        size: Its size in the example; the size itself if it is fixed.
        path: Which input of the call it goes by; None if it is fixed.
        axis: Which axis of that input.
        times: Its size is so many times that of the input's axis,
        over: divided by this.
    """

    size: int
    path: Path | None = None
    axis: int = 0
    times: int = 1
    over: int = 1


class Place(Struct, frozen=True):
    """Positions along an axis, or along a part of it: height and width may lie in one axis.

    Attributes:
        axis: The axis.
        name: Positions of an adapter's input and of its result that have the same are the same.
        size: How many there are; 0 if there are as many as the axis is long.
        take: Which one is taken where the result does not have them; None if they are averaged.
    """

    axis: int
    name: int
    size: int = 0
    take: int | None = None


class Axes(Struct, frozen=True):
    """Which axes of a tensor mean what.

    Attributes:
        batch: The axis of examples, or None.
        each: So many entries of that axis belong to one example.
        width: The axis of channels or features.
        places: What all else is, the outermost first.
    """

    batch: int | None
    each: int
    width: int
    places: tuple[Place, ...] = ()

    def width_in(self, shape: tuple[int, ...]) -> int:
        """Return how many channels there are in a shape: one where they have no axis of their own."""
        return 1 if self.width == len(shape) or self.batch == self.width else shape[self.width]


class Same(Struct, frozen=True, tag="same"):
    """An input comes out.

    Attributes:
        source: Which.
        clone: A copy, so that what changes the result in place does not change the input.
    """

    source: Path
    clone: bool = True


Limit: TypeAlias = Literal["inf", "-inf"]
"""What is more, or less, than any number."""


class Fill(Struct, frozen=True, tag="fill"):
    """A constant comes out: the neutral element of what joins it.

    Attributes:
        value: 0 or 1, what opens a gate, or what is never the least or the greatest.
        dims: The shape. A width of 0 is the neutral element of a concatenation.
        dtype: Name of the type, if it is no floating point type; those follow the model.
        unused: Whether nobody uses it.
        axis: The axis along which a result is taken apart of which some parts are 1.
        ones: From where to where they lie.
    """

    value: int | Limit
    dims: tuple[Dim, ...]
    dtype: str = ""
    unused: bool = False
    axis: int = 0
    ones: tuple[tuple[int, int], ...] = ()


class Source(Struct, frozen=True):
    """An input that an adapter reads, and what its axes mean."""

    path: Path
    axes: Axes


class Fit(Struct, frozen=True, tag="fit"):
    """Inputs come out in another shape, averaged or repeated along their positions; several are added.

    Attributes:
        sources: Which inputs.
        dims: The shape that comes out.
        axes: What its axes mean.
        learned: Name of the adapter's dense layer, in the stand-in; empty if it has none.
        channels: How there come to be as many as are wanted: ``zeros`` beside them, ``again`` from the first on, or
            ``averaged``; empty where these are as many, or what reads them was changed.
    """

    sources: tuple[Source, ...]
    dims: tuple[Dim, ...]
    axes: Axes
    learned: str = ""
    channels: Literal["", "zeros", "again", "averaged"] = ""


Rule: TypeAlias = Same | Fill | Fit


class CallRule(Struct, frozen=True):
    """What a stand-in does when it is called.

    Attributes:
        shapes: Shapes of the inputs, examples not counted, by which calls are told apart.
        rules: One for each tensor that comes out.
        form: The form of what comes out.
        training: Whether it is for training or for evaluation alone; None for both.
    """

    shapes: tuple[tuple[Path, tuple[int, ...]], ...]
    rules: tuple[Rule, ...]
    form: Template
    training: bool | None = None

    @property
    def adapts(self) -> bool:
        """Whether it brings something into a shape."""
        return any(isinstance(rule, Fit) for rule in self.rules)


class StandIn(Struct, frozen=True, tag="stand-in"):
    """A module is replaced by one without parameters of its own.

    Attributes:
        path: Of the module.
        calls: What it does; one for each kind of call.
        learned: Name, inputs and outputs of the dense layers of learned adapters.
    """

    path: str
    calls: tuple[CallRule, ...]
    learned: tuple[tuple[str, int, int], ...] = ()

    @property
    def adapts(self) -> bool:
        """Whether it brings something into a shape, in any of its calls."""
        return any(call.adapts for call in self.calls)


class Resize(Struct, frozen=True, tag="resize"):
    """A layer gets another width.

    Attributes:
        path: Of the layer.
        side: Whether its inputs, its outputs, both, since they are the same channels, or the hidden units of a
            recurrent layer, in all its layers and directions.
        size: How many there are then.
        keep: Which of the old ones they are; None if that cannot be said, and they are drawn anew.
        before: How many there were.
    """

    path: str
    side: Literal["in", "out", "through", "hidden"]
    size: int
    keep: tuple[int, ...] | None
    before: int


class Padded(Struct, frozen=True, tag="padded"):
    """A layer that was cut looks to its callers as wide as before: what is gone is 0, or is not read.

    Attributes:
        path: Of the layer.
        side: Whether its inputs or its outputs.
        keep: Which of the old ones it has.
        before: How many there were.
    """

    path: str
    side: Literal["in", "out"]
    keep: tuple[int, ...]
    before: int


class FewerHeads(Struct, frozen=True, tag="fewer heads"):
    """Heads of a ``torch.nn.MultiheadAttention``, whose projections lie in one tensor, go.

    Attributes:
        path: Of the attention.
        keep: Which heads are left.
        before: How many there were.
    """

    path: str
    keep: tuple[int, ...]
    before: int


class ResizeTensor(Struct, frozen=True, tag="resize tensor"):
    """A parameter or buffer that is used by itself gets another width; as ``Resize``."""

    name: str
    axis: int
    size: int
    keep: tuple[int, ...] | None
    before: int


Constant: TypeAlias = Literal["rows", "columns", "tap", "zeros", "ones"]
"""What takes the place of a weight: a matrix with a row, or a column, for each channel that comes out, which gives the
channels that went in, averaged where fewer are wanted and again from the first on where more; a convolution that gives
what went in; a number."""


class Freeze(Struct, frozen=True, tag="freeze"):
    """Constants take the place of a module's weights, and its code stays.

    Attributes:
        path: Of the module.
        constants: Names of its own parameters, with what they become.
    """

    path: str
    constants: tuple[tuple[str, Constant], ...]


class Bare(Struct, frozen=True, tag="bare"):
    """A layer's weights are no longer made of others: they keep their values and are its own.

    Attributes:
        path: Of the layer.
        names: Of the weights.
    """

    path: str
    names: tuple[str, ...]


class Drop(Struct, frozen=True, tag="drop"):
    """A module that nobody calls any more goes."""

    path: str


class Attribute(Struct, frozen=True, tag="attribute"):
    """A number that a module keeps, of heads for instance, is set."""

    path: str
    name: str
    value: int | bool


Edit: TypeAlias = StandIn | Resize | ResizeTensor | Padded | FewerHeads | Freeze | Bare | Drop | Attribute


class Plan(Struct, frozen=True):
    """How a component is taken out of a model.

    Attributes:
        layers: What is taken out.
        edits: What is done, in this order.
        rung: How deep it cuts.
        changes: The same for people.
        before: Parameters of the model.
        after: Parameters that are left; a tensor that is used twice counts once.
        fake: Whether it was planned on fake tensors, so that nothing was computed.
        rebuilt: Names of parameters that are drawn anew.
        resized: Names of all tensors that get another size, those that are cut and keep their values included.
        idle: Names of parameters that have no effect any more, and get no gradient.
        notes: What else is good to know.
    """

    layers: Layers
    edits: tuple[Edit, ...]
    rung: Rung
    changes: tuple[str, ...]
    before: int
    after: int
    fake: bool
    rebuilt: tuple[str, ...] = ()
    resized: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
