"""Which tensors of a model have another size after edits: those alone are not what they were."""

from __future__ import annotations

from torch import nn

from etude.frameworks.removal.attention import tensors_of
from etude.frameworks.removal.edits import Edit, FewerHeads, Resize, ResizeTensor
from etude.frameworks.removal.resize import resized_tensors


def resized_names(model: nn.Module, edits: tuple[Edit, ...]) -> set[str]:
    """Return the names of parameters and buffers to which edits give another size.

    Args:
        model: Before the edits.
        edits: What is done to it.
    """
    found = set()
    for edit in edits:
        if isinstance(edit, Resize):
            found |= {f"{edit.path}.{name}" for name in resized_tensors(model.get_submodule(edit.path), edit)}
        elif isinstance(edit, FewerHeads):
            found |= {f"{edit.path}.{name}" for name in tensors_of(model.get_submodule(edit.path))}
        elif isinstance(edit, ResizeTensor):
            found.add(edit.name)
    return found
