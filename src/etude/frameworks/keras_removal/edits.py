"""What is done to a Keras model, as data: it can be shown, journaled, and done again to a fresh copy of the model.

Operations are told apart by their place in the model, since a layer that nobody named is called by how many of its
class a process has made so far. Their names are there for people.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from etude.core.removal import Layers
from etude.core.rungs import Rung


class Output(Struct, frozen=True):
    """A tensor that an operation gives.

    Attributes:
        operation: Its place among the model's operations.
        nth: Which of its calls in the model.
        index: Which of its results.
    """

    operation: int
    nth: int = 0
    index: int = 0


class Instead(Struct, frozen=True, tag="instead"):
    """Another tensor takes the place of one.

    Attributes:
        of: Whose place.
        sources: What takes it; several are brought into its shape and added.
        shape: The shape that they are brought into, examples not counted; None if the source is used as it is. A size
            that is None stays as it comes.
        learned: Whether that is done by a dense layer.
        name: Of the layer that does it.
    """

    of: Output
    sources: tuple[Output, ...]
    shape: tuple[int | None, ...] | None = None
    learned: bool = False
    name: str = ""


class Join(Struct, frozen=True, tag="join"):
    """What joins branches does so with fewer of them.

    Attributes:
        of: What it gives.
        kept: Which of the tensors that it is called with are left.
    """

    of: Output
    kept: tuple[int, ...]


class Resize(Struct, frozen=True, tag="resize"):
    """A layer gets another width.

    Attributes:
        operation: Its place.
        inputs: For each of its inputs then, which it was before, or None if it is new; None if they stay.
        outputs: Likewise.
        was_inputs: How many inputs it had.
        was_outputs: How many outputs it had.
    """

    operation: int
    inputs: tuple[int | None, ...] | None
    outputs: tuple[int | None, ...] | None
    was_inputs: int
    was_outputs: int


Edit: TypeAlias = Instead | Join | Resize


class Step(Struct, frozen=True):
    """What is done to one model, or to one that is nested in it.

    Attributes:
        model: Where the model is: places of nested models among the operations of those that hold them.
        gone: Names of the layers that go, with those that have no effect any more.
        edits: What is done.
        rung: How deep it cuts.
        changes: The same for people.
        before: Parameters of the model.
        after: Parameters that are left.
        rebuilt: Names of variables of which something is drawn anew.
        idle: Names of variables that learned, and have no effect any more.
        resized: Names of all variables that get another size.
    """

    model: tuple[int, ...]
    gone: tuple[str, ...]
    edits: tuple[Edit, ...]
    rung: Rung
    changes: tuple[str, ...]
    before: int
    after: int
    rebuilt: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    resized: tuple[str, ...] = ()


class KerasPlan(Struct, frozen=True):
    """How a component is taken out of a Keras model.

    Attributes:
        layers: What is taken out.
        steps: What is done, in this order.
        rung: How deep it cuts.
        changes: The same for people.
        before: Parameters of the model, as ``count_params()`` counts them.
        after: Parameters that are left.
        rebuilt: Names of variables of which something is drawn anew.
        idle: Names of variables that learned, and have no effect any more. Those of layers that nothing reaches go
            with these; those inside of a nested model stay.
        resized: Names of all variables that get another size, those that are cut and keep their values included.
        notes: What else is good to know.
    """

    layers: Layers
    steps: tuple[Step, ...]
    rung: Rung
    changes: tuple[str, ...]
    before: int
    after: int
    rebuilt: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    resized: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
