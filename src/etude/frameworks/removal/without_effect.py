"""Whether taking a component out of a model changes anything that the model gives or learns."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import nn

from etude.frameworks.moving import MOVES, USUAL
from etude.frameworks.removal.check import is_real
from etude.frameworks.removal.comparing import Examples, Found, is_close, loss_of
from etude.frameworks.removal.copies import copied
from etude.frameworks.removal.edits import Drop, Plan, StandIn
from etude.frameworks.removal.nested import bound, mapped
from etude.frameworks.removal.standin import results
from etude.frameworks.removal.trace import kind_of
from etude.frameworks.removal.tracing import arguments, forward_of

CLOSE: Final = 1e-9
"""Results in double precision are the same if they differ by no more than this share of the largest."""

CLOSE_SINGLE: Final = 1e-6
"""Likewise, for models that do not run in double precision."""


def changes_nothing(model: nn.Module | dict[str, nn.Module], plan: Plan, example: Any) -> bool:
    """Say whether a model gives and learns the same without what a plan takes out, in evaluation and in training.

    It is tried with the weights that the model has, and with others: a part that does nothing with its first weights
    may do something with those that it learns. What a model keeps for a loss of its own, instead of returning it, is
    not seen. If it cannot be told, something changes.

    Args:
        model: As for ``plan``; it is not touched.
        plan: What is done to it.
        example: As for ``plan``.
    """
    stands = [edit for edit in plan.edits if isinstance(edit, StandIn)]
    if not stands or any(edit.learned for edit in stands) or not is_real(model):
        return False
    if any(not isinstance(edit, StandIn | Drop) for edit in plan.edits):
        return False
    whole = forward_of(model) if isinstance(model, dict) else model
    args, kwargs = arguments(example)
    with torch.random.fork_rng(devices=[]):
        try:
            examples = Examples(whole, args, kwargs)
            return all(_same(whole, stands, examples, by) for by in MOVES)
        except Exception:  # whatever a model does with other weights
            return False


def _same(whole: nn.Module, stands: list[StandIn], examples: Examples, by: float) -> bool:
    """Say whether a model and the one in which something stands for modules do the same, their weights moved."""
    model = copied(whole)
    _move(model.double() if examples.in_double else model, by)
    other = copied(model)
    for edit in stands:
        module = other.get_submodule(edit.path)
        vars(module)["forward"] = _overridden(module, edit)
    share = CLOSE if examples.in_double else CLOSE_SINGLE
    for train in (False, True):
        one, two = _behaviour(model.train(train), examples), _behaviour(other.train(train), examples)
        if one.keys() != two.keys() or not one:
            return False
        if not all(is_close(one[name], two[name], share=share) for name in one):
            return False
    return True


def _move(model: nn.Module, by: float) -> None:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if by and parameter.requires_grad and parameter.is_floating_point() and parameter.numel():
                spread = float(parameter.std(unbiased=False)) or USUAL
                noise = torch.randn(parameter.shape, generator=generator).to(parameter)
                parameter.add_(noise, alpha=by * spread)


def _overridden(module: nn.Module, edit: StandIn) -> Any:
    """Return a ``forward`` that gives what stands for a module, which still runs, and draws what it draws."""
    plain = module.forward
    like = next(module.parameters(), torch.empty(0, dtype=torch.float64)).detach()

    def forward(*args: Any, **kwargs: Any) -> Any:
        given, named = mapped((args, kwargs), lambda t: t.clone())  # it may work in place
        plain(*given, **named)
        return results(edit.calls, bound(kind_of(module), args, kwargs), like, training=module.training, owner=None)

    return forward


def _behaviour(model: nn.Module, examples: Examples) -> Found:
    """Return what a model gives, and the gradients of what learns; empty if it gives no numbers."""
    model.zero_grad()
    found = examples.called(model, examples.rows)
    loss = loss_of(found)
    if loss.requires_grad:
        loss.backward()
    behaviour = {f"result {name}": value.detach() for name, value in found.items() if value.is_floating_point()}
    for name, parameter in model.named_parameters() if behaviour else ():
        if parameter.requires_grad:
            behaviour[f"gradient {name}"] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    model.zero_grad()
    return behaviour
