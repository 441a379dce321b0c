"""What was called and what was calculated: as often as in the baseline, but for what goes with the component."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from etude.core.text import times
from etude.mage.facts import Facts
from etude.mage.judge.comparing import counted, listed, plain, under
from etude.mage.judge.findings import Finding, alarm, fails, for_a_person
from etude.mage.judge.licence import Licence
from etude.mage.judge.rows import MOVES
from etude.mage.judge.tables import Pair
from etude.mage.witnesses import ModuleReplaced

STEPS: Final = frozenset(
    """
    relu gelu silu sigmoid tanh elu leaky_relu hardtanh hardswish softplus mish softmax log_softmax _softmax
    _log_softmax native_dropout dropout bernoulli max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d
    native_batch_norm native_layer_norm native_group_norm
    """.split()  # noqa: SIM905 - it is a table to be read
)
"""What networks do between their layers, mostly by functions that no module stands for."""
METRICS: Final = "sklearn.metrics."
"""How the names of metrics begin."""
INITIAL: Final = "torch.nn.init."
"""How the names of functions begin that draw first values: a block that goes takes one call of each of its layers."""
LOSSES: Final = frozenset(
    """
    nll_loss_forward nll_loss2d_forward mse_loss binary_cross_entropy binary_cross_entropy_with_logits l1_loss
    smooth_l1_loss huber_loss soft_margin_loss multi_margin_loss _ctc_loss kl_div cross_entropy_loss nll_loss
    """.split()  # noqa: SIM905
)
"""Terms of a loss."""


def rest_of_traces(
    pairs: tuple[Pair, ...], base: Facts, facts: Facts, licence: Licence, varies: frozenset[str]
) -> Iterator[Finding]:
    """Yield what is called or calculated another number of times, and follows from no claim."""
    yield from functions(base, facts, licence, varies)
    yield from operators(pairs, base, facts, licence, varies)
    yield from elsewhere(pairs, base, facts, licence, varies)
    yield from arguments(base, facts, licence, varies)


def functions(base: Facts, facts: Facts, licence: Licence, varies: frozenset[str]) -> Iterator[Finding]:
    """Yield functions that are called another number of times."""
    if "calls" in licence.free:
        return
    for name, before in base.calls.items():
        after = facts.calls.get(name, 0)
        if before == after or "<" in name or f"calls of {name}" in varies or licence.may_call(name):
            continue
        weigh: Weigh | None
        if name.startswith(INITIAL) and 0 < before - after <= licence.made:
            continue  # a layer that is not made is not initialised either
        if after < before:
            weigh = _fewer(name, before, after, licence)
        else:
            weigh = None if licence.replaced and _is_step(name) else _more(licence)
        text = f"`{name}` is called {times(after)}, {times(before)} in the baseline"
        if weigh is not None:
            yield weigh(
                f"{text}, and no claim says so.",
                claim="nothing else differs",
                expected=times(before),
                found=times(after),
            )
        elif not _is_step(name):
            yield alarm(f"{text}.")
    new = [name for name in facts.calls if name not in base.calls and "<" not in name and not licence.may_call(name)]
    ours = [name for name in new if ":" in name and not _is_of(name, licence)]
    if ours:
        yield alarm(f"{listed(ours)} {'is' if len(ours) == 1 else 'are'} called in the variant alone.")
    foreign = [name for name in new if ":" not in name and not (licence.replaced and _is_step(name))]
    if foreign:
        yield _more(licence)(
            f"{listed(foreign)} {'is' if len(foreign) == 1 else 'are'} called in the variant and not in the baseline, "
            "and no claim says so.",
            claim="nothing else differs",
            expected="no call",
            found=", ".join(f"{name}: {facts.calls[name]}" for name in foreign[:3]),
        )


Weigh = Callable[..., Finding]


def _more(licence: Licence) -> Weigh:
    return for_a_person if licence.replaced or licence.settings or licence.values else fails


def _fewer(name: str, before: int, after: int, licence: Licence) -> Weigh | None:
    """Return how much it weighs that a function is called fewer times; None for an alarm."""
    fewer = before - after
    is_made_for_it = any(name.rpartition(".")[2] in one.split(".") for one in licence.calls)
    if is_made_for_it or _is_of(name, licence):  # what is not called any more, or a method of what goes
        return None
    if licence.columns and ":" in name and not after:
        return for_a_person  # what made something of a column that goes
    if licence.divides(fewer):
        # what modules run, and what a term of a loss does: operators tell whether it is more than the component's
        known = (licence.modules and _is_step(name)) or (licence.loss and ":" not in name)
        return None if after or known else for_a_person
    if after and fewer <= len(licence.modules):
        return None  # something that is called once for each layer where it is made
    if licence.settings:
        return None if licence.akin(name) else for_a_person
    return for_a_person if _made_for_it(name, after, licence) else fails


def _made_for_it(name: str, after: int, licence: Licence) -> bool:
    """Say whether a function of the program may have made something for a module that goes, and for nobody else."""
    return bool(licence.gone) and ":" in name and not after


def _is_step(name: str) -> bool:
    last = name.rpartition(".")[2]
    return "functional" in name and not any(word in last for word in ("loss", "entropy", "kl_div", "nll"))


def _is_of(name: str, licence: Licence) -> bool:
    return bool(set(name.partition(":")[2].split(".")[:-1]) & licence.types)


def operators(
    pairs: tuple[Pair, ...], base: Facts, facts: Facts, licence: Licence, varies: frozenset[str]
) -> Iterator[Finding]:
    """Yield operators that run another number of times."""
    if not base.operators or not facts.operators or "operators" in licence.free:
        return
    then, now = counted(base.operators), counted(facts.operators)
    inside = _inside(pairs, licence)
    replaced = any(isinstance(one, ModuleReplaced) for pair in pairs for one in pair.witnesses)
    for name in sorted((then.keys() | now.keys()) - MOVES):
        before, after = then.get(name, 0), now.get(name, 0)
        if before == after or f"runs of {name}" in varies or licence.may_call(name):
            continue
        text = f"{name} runs {times(after)}, {times(before)} in the baseline"
        weigh: Weigh | None
        if after > before:
            weigh = None if replaced else _more(licence)
        else:
            weigh = _fewer_operators(name, before - after, inside.get(name), licence)
        if weigh is not None:
            yield weigh(
                f"{text}, and no claim says so.",
                claim="nothing else differs",
                expected=times(before),
                found=times(after),
            )
        elif after > before or (name in STEPS | LOSSES and not _are_told_by_module(pairs)):
            yield alarm(f"{text}.")


def _are_told_by_module(pairs: tuple[Pair, ...]) -> bool:
    return any(module.operators for pair in pairs for module in pair.base.modules.values())


def _inside(pairs: tuple[Pair, ...], licence: Licence) -> dict[str, int]:
    counts: dict[str, int] = {}
    for pair in pairs:
        for path, module in pair.base.modules.items():
            if any(under(one, path) for one in licence.modules):
                for name, count in counted(module.operators).items():
                    counts[name] = counts.get(name, 0) + count
    return counts


def _fewer_operators(name: str, fewer: int, inside: int | None, licence: Licence) -> Weigh | None:
    if name in LOSSES:
        if licence.loss and (not licence.lost or fewer <= sum(licence.lost)):
            return None
        return for_a_person if licence.settings else fails
    if name in STEPS and (licence.modules or licence.calls):
        # what ran in the component, and one step after each of its calls
        return (
            None if fewer <= (inside or 0) + sum(licence.lost) or (licence.divides(fewer) and licence.calls) else fails
        )
    if licence.modules or licence.calls or licence.settings or licence.values or licence.groups:
        return None
    return fails


# --- outside of models, backward passes and optimizers --------------------------------------------

MORE: Final = "..."
"""Stands for the ways of calling something that were too many to keep."""
BEGINS: Final = frozenset(
    {"uniform", "normal", "zero", "zeros", "fill", "ones", "full", "trunc_normal", "erfinv", "bitwise_or"}
)
"""What gives parameters their first values; where a normal distribution is cut off, it is asked what lies outside."""
SILENT: Final = frozenset(
    """
    _local_scalar_dense detach empty empty_like empty_strided new_empty alias lift_fresh _to_copy copy clone item
    resolve_conj resolve_neg is_same_size is_pinned set as_strided gt lt ge le eq ne any all isnan isfinite
    """.split()  # noqa: SIM905
)
"""What says nothing even there: numbers are looked at, or memory is asked for."""


def elsewhere(
    pairs: tuple[Pair, ...], base: Facts, facts: Facts, licence: Licence, varies: frozenset[str]
) -> Iterator[Finding]:
    """Yield whether data, loss or metrics are calculated otherwise.

    Over a whole run a few operators more hide behind those of an optimizer that has fewer parameters to go through.
    Here there is nothing to hide behind.
    """
    if not base.elsewhere or not facts.elsewhere or {"operators", "elsewhere"} & licence.free:
        return
    then, now = counted(base.elsewhere), counted(facts.elsewhere)
    tensors = _gone(pairs)
    along = any(_made_for_it(one, facts.calls.get(one, 0), licence) for one in base.calls)
    for name in sorted((then.keys() | now.keys()) - SILENT):
        before, after = then.get(name, 0), now.get(name, 0)
        if before == after or f"runs of {name}" in varies or licence.may_call(name):
            continue
        fewer = before - after
        text = f"Outside of the model {name} runs {times(after)}, {times(before)} in the baseline"
        if after > before:
            weigh: Weigh | None = None if licence.replaced and name in BEGINS else _odd(licence)
        elif name in BEGINS and licence.draws:
            weigh = None
        elif any(gone and fewer % gone == 0 and fewer // gone * rows <= before for gone, rows in tensors):
            weigh = None  # something that is done to each parameter, as clipping, or to each tensor of a state
        elif licence.calls and licence.divides(fewer):
            weigh = None
        elif licence.gone and (along or licence.divides(fewer) or any(fewer % apart == 0 for apart in licence.apart)):
            weigh = for_a_person  # a model's methods may be called one by one, and one of them has called what goes
        else:
            weigh = _odd(licence)
        if weigh is not None:
            yield weigh(
                f"{text}, and no claim says so.",
                claim="data, loss and metrics are calculated as in the baseline",
                expected=times(before),
                found=times(after),
            )


def _odd(licence: Licence) -> Weigh:
    return for_a_person if licence.settings else fails


def _gone(pairs: tuple[Pair, ...]) -> list[tuple[int, int]]:
    """Return how many parameters are gone and how many there were, and the same with all other tensors of modules."""
    gone = sum(name not in pair.variant.parameters for pair in pairs for name in pair.base.parameters)
    rows = sum(len(pair.base.parameters) for pair in pairs)
    before, after = (
        sum(module.buffers for model in models for module in model.modules.values())
        for models in ([pair.base for pair in pairs], [pair.variant for pair in pairs])
    )
    return [(gone, rows), (gone + before - after, rows + before)]


# --- with what ------------------------------------------------------------------------------------


def arguments(base: Facts, facts: Facts, licence: Licence, varies: frozenset[str]) -> Iterator[Finding]:
    """Yield functions that are called as before, and with something else.

    A value that was the same in all calls is written down somewhere. One that changes from call to call follows from
    numbers that training gives, and says nothing.
    """
    counts = {**base.elsewhere, **base.calls}
    if not base.arguments:
        return
    for name, after in facts.arguments.items():
        before = base.arguments.get(name, ())
        if not before and not counts.get(name):
            continue  # that it is called at all was said already
        if (plain(name) in SILENT and not before) or (_draws(name) and licence.draws):
            continue
        if MORE in (*before, *after):
            continue
        is_constant = len(before) <= max(1, counts.get(name, 1) // 2)
        if not is_constant or f"arguments of {name}" in varies or licence.may_call(name):
            continue
        new = [one for one in after if one not in before]
        gone = [one for one in before if one not in after]
        if not new and gone and _called(facts, name) == _called(base, name) and not _left(gone, after, licence):
            told, usual = _apart(gone[0], after[0])
            yield for_a_person(
                f"`{name}` is called as often as in the baseline, and never with {told}, as it is there: perhaps with "
                f"{usual} in its place. No claim says so.",
                claim="nothing else differs",
                expected="; ".join(before),
                found="; ".join(after),
            )
        if new and not _follows(before, after, licence):
            sized = name.startswith(INITIAL) and licence.draws  # a deviation may follow the size of a layer
            measured = name.startswith(METRICS)  # what goes may have stood between a model and its metric
            weigh = for_a_person if licence.replaced or licence.settings or sized or measured else fails
            told, usual = _apart(new[0], before[0]) if before else (new[0], "nothing of that")
            yield weigh(
                f"`{name}` is called with {told}, {usual} in the baseline, and no claim says so.",
                claim="nothing else differs",
                expected="; ".join(before),
                found="; ".join(after),
            )


def _called(facts: Facts, name: str) -> int:
    return facts.calls.get(name, 0) or facts.elsewhere.get(name, 0)


def _apart(one: str, other: str) -> tuple[str, str]:
    """Return the words of two ways of calling that are not in both."""
    mine, theirs = one.split(" "), other.split(" ")
    odd = [word for word in mine if word not in theirs], [word for word in theirs if word not in mine]
    return " ".join(odd[0]) or one, " ".join(odd[1]) or "without"


def _draws(name: str) -> bool:
    """Say whether something draws first values by numbers that follow a layer's size, as the bounds of a bias."""
    return plain(name) in BEGINS or name == f"{INITIAL}uniform_"


def _follows(before: tuple[str, ...], after: tuple[str, ...], licence: Licence) -> bool:
    """Say whether arguments follow a value that is claimed to change: a setting's, or one of a module or a group."""
    pairs = [(f"={old}", f"={new}") for old, new in (*licence.settings.values(), *licence.changes)]
    told = [one for one in after if one not in before]
    return all(any(_swapped(one, old, new) in before for old, new in pairs) for one in told) if pairs else not told


def _left(gone: Sequence[str], after: tuple[str, ...], licence: Licence) -> bool:
    """Say whether ways of calling that are not there any more have become others by a value that is to change."""
    pairs = [(f"={old}", f"={new}") for old, new in (*licence.settings.values(), *licence.changes)]
    return all(any(_swapped(one, new, old) in after for old, new in pairs) for one in gone)


def _swapped(text: str, old: str, new: str) -> str:
    return " ".join(word.replace(new, old) if word.endswith(new) else word for word in text.split(" "))
