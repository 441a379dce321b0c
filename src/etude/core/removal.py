"""What an arm of an ablation takes away: layers of a model, features of its data, settings.

These are values. They say what is taken away, by concrete names, and nothing about how: the remover of a framework
turns ``Layers`` into edits of a model, the data's reader drops ``Features``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.json import encode

from etude.core.text import count

FINGERPRINTS: Final = "fingerprints"
"""Where beside the metrics of a trial it stands how it began: of any its data, of an arm of an ablation more."""

ROWS: Final = "rows"
"""Where among these the fingerprints of the data stand."""

SHOWN: Final = 8
"""So many features a sentence names."""


class Whole(Struct, frozen=True, tag="whole"):
    """A submodule, with all that is in it.

    Attributes:
        path: Dotted path, as ``named_modules()`` has it.
    """

    path: str


class Part(Struct, frozen=True, tag="part"):
    """Some of the outputs of a layer.

    Attributes:
        path: Dotted path of the layer.
        of: What is counted: filters of a convolution, units of a dense layer, heads of an attention.
        indices: Which of them go, counted from 0.
    """

    path: str
    of: Literal["filters", "units", "heads"]
    indices: tuple[int, ...]


Target: TypeAlias = Whole | Part
"""One thing that is taken out of a model."""


class Layers(Struct, frozen=True):
    """What is taken out of a model, as one arm.

    Attributes:
        targets: What goes.
        repair: ``auto`` draws no weights beyond those of layers that are rebuilt; ``learned`` may add an adapter
            with weights of its own where nothing else fits.
        along: Paths of further submodules that are taken along, for instance the activation behind a layer.
    """

    targets: tuple[Target, ...]
    repair: Literal["auto", "learned"] = "auto"
    along: tuple[str, ...] = ()


class Features(Struct, frozen=True):
    """What is taken out of data.

    Attributes:
        names: Names of features.
        how: Whether they are dropped, shuffled among the examples, or replaced by a constant.
        value: The constant.
    """

    names: tuple[str, ...]
    how: Literal["drop", "permute", "constant"] = "drop"
    value: float | str | None = None


class Arm(Struct, frozen=True):
    """One arm of an ablation. The base has nothing in it.

    Attributes:
        name: What the arm is called in tables.
        layers: What is taken out of the model.
        features: What is taken out of the data.
        settings: Hyperparameters with their "off" values.
        variant: Name of a custom variant, whose functions take the place of the experiment's.
        repair: How the rest still runs, as the framework planned it: plain data, which workers carry out.
    """

    name: str
    layers: Layers | None = None
    features: Features | None = None
    settings: dict[str, Any] = {}
    variant: str = ""
    repair: Any = None

    @property
    def empty(self) -> bool:
        """Whether nothing is taken away."""
        return self.layers is None and self.features is None and not self.variant

    @property
    def beside_settings(self) -> bytes:
        """What tells its trials from others with the same configuration: empty of the base, and where nothing does."""
        return b"" if self.empty else encode([self.layers, self.features, self.variant, self.repair])


def taken_out(features: Features) -> str:
    """Say what becomes of features.

    Example:
        >>> taken_out(Features(("age",))), taken_out(Features(("age", "fare"), "constant", 0.0))
        ('age dropped', 'age, fare 0.0 everywhere')
    """
    more = f" and {len(features.names) - SHOWN} more" if len(features.names) > SHOWN else ""
    whose = ", ".join(features.names[:SHOWN]) + more
    ways = {"drop": "dropped", "permute": "shuffled among the rows", "constant": f"{features.value!r} everywhere"}
    return f"{whose} {ways[features.how]}"


def drawn_anew(rebuilt: Sequence[str], *, loses: bool) -> str:
    """Say how many layers have new weights, and whether trained ones are lost with that."""
    layers = {name.rpartition("/" if "/" in name else ".")[0] for name in rebuilt}
    return f"{count(len(layers), 'layer')} drawn anew{', without the trained weights' if loses else ''}"
