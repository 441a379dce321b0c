"""A layer of a model, as a remover sees it."""

from __future__ import annotations

from typing import NamedTuple


class LayerSeen(NamedTuple):
    """A layer or a block: of PyTorch a submodule, of Keras a layer or a model that is nested in one.

    Attributes:
        path: Its dotted path; of Keras its name, behind those of the models that it is nested in.
        type: The name of its class.
        parameters: How many numbers it trains, a tensor that is used twice counted once; of Keras, how many it has,
            as ``count_params()`` counts them.
        depth: How many blocks it stands in.
        heads: How many heads it has; None if it has none, and of Keras, which has all heads in one tensor.
        units: How many units it has: outputs of a dense layer or an embedding, hidden units; None if it has none. Of
            Keras, those of dense layers.
        filters: How many filters it has; None if it is no convolution.
        called: When its calls end, in the order in which all calls do.
        takes_integers: Whether it is given nothing but integers, which nothing else can stand for.
        reads_data: Whether it learns, and is given the data as it is, or what no layer that learns has made of it.
        gives_output: Whether it learns, and gives what the model gives, as it is.
    """

    path: str
    type: str
    parameters: int
    depth: int
    heads: int | None
    units: int | None
    filters: int | None
    called: tuple[int, ...]
    takes_integers: bool
    reads_data: bool
    gives_output: bool
