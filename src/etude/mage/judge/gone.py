"""Whether a module is gone, unused, replaced or resized, as was claimed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from etude.core.text import times
from etude.mage.facts import Facts
from etude.mage.judge.comparing import counted, listed, shown, under
from etude.mage.judge.findings import Finding, alarm, fails, unclear
from etude.mage.judge.tables import Pair, calls_under, fits, is_nothing, rows_under, was_shared
from etude.mage.witnesses import ModuleGone, ModuleReplaced, ModuleUnused, Resized

RUNS: Final[Mapping[str, tuple[str, ...]]] = {
    "Conv": ("convolution", "mkldnn_convolution", "cudnn_convolution", "conv2d", "conv1d", "conv3d"),
    "Linear": ("addmm", "mm", "bmm", "matmul", "linear", "_addmm_activation", "mkldnn_linear"),
    "BatchNorm": ("native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit", "batch_norm"),
    "LayerNorm": ("native_layer_norm", "layer_norm"),
    "GroupNorm": ("native_group_norm", "group_norm"),
    "Embedding": ("embedding",),
    "LSTM": ("lstm", "_thnn_fused_lstm_cell", "mkldnn_rnn_layer", "_cudnn_rnn"),
    "GRU": ("gru", "_thnn_fused_gru_cell", "_cudnn_rnn"),
    "Dropout": ("native_dropout", "dropout", "bernoulli", "_fused_dropout"),
    "MaxPool": ("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool2d", "max_pool1d"),
    "AvgPool": ("avg_pool2d", "avg_pool3d", "avg_pool1d", "_adaptive_avg_pool2d", "mean"),
    "ReLU": ("relu", "clamp_min"),
    "GELU": ("gelu",),
    "Softmax": ("_softmax", "softmax", "_log_softmax"),
}
"""What modules of torch run, by a part of their class's name; which of them depends on the machine."""


def module_gone(claim: ModuleGone, pair: Pair, base: Facts, facts: Facts, variant: str) -> Iterator[Finding]:
    """Yield what speaks against a module being gone."""
    path, said = claim.path, f"`{claim.path}` is gone"
    before, after = rows_under(pair.base, path), rows_under(pair.variant, path)
    calls = 0 if is_nothing(pair.variant, path) else calls_under(pair.variant, path)
    if after:
        yield _still_there(claim, pair, before, after, calls, facts, variant)
    elif calls:
        yield fails(
            f"Variant {variant} still calls `{path}` ({_calls(calls, facts)}): the component is not removed.",
            claim=said,
            expected="no call",
            found=_calls(calls, facts),
        )
    yield from _elsewhere(claim.path, pair, before)
    if not after and not calls:
        yield from _still_computed(claim.path, pair, base, facts)


def _still_there(
    claim: ModuleGone,
    pair: Pair,
    before: Mapping[str, tuple[int, ...]],
    after: Mapping[str, tuple[int, ...]],
    calls: int,
    facts: Facts,
    variant: str,
) -> Finding:
    path = claim.path
    tables = ({n: row.shape for n, row in one.parameters.items()} for one in (pair.base, pair.variant))
    equal = next(tables) == next(tables)
    if calls and equal:
        text = (
            f"Variant {variant} still calls `{path}` ({_calls(calls, facts)}) and its parameter table equals the "
            "baseline's: the component is not removed."
        )
    elif not calls and not _gets_gradient(pair, path):
        text = (
            f"Variant {variant} never calls `{path}`, and still has its parameters ({listed(after)}): they are counted "
            "and decayed, so the component is switched off and not removed. Delete it where it is made, too."
        )
    elif after != before:
        row = next(iter(after))
        text = (
            f"Variant {variant} still has parameters at `{path}` ({listed(after)}), `{row}` of {shown(after[row])} "
            f"where the baseline has {shown(before.get(row, 'none'))}: the component is replaced and not removed."
        )
    else:
        text = (
            f"Variant {variant} still has the parameters of `{path}` ({listed(after)}) and calls it "
            f"{times(calls)}: the component is not removed."
        )
    found = f"{len(after)} of its parameters, {_calls(calls, facts)}"
    return fails(text, claim=f"`{path}` is gone", expected="no parameter and no call", found=found)


def _elsewhere(path: str, pair: Pair, before: Mapping[str, tuple[int, ...]]) -> Iterator[Finding]:
    """Yield whether the parameters of what is gone are there by another name."""
    gone = {name: shape for name, shape in before.items() if name not in pair.variant.parameters}
    new = {
        name: row.shape
        for name, row in pair.variant.parameters.items()
        if name not in pair.base.parameters and not under(path, name)
    }
    if not gone or not new:
        return
    # a parameter that two modules share stands in the table once, by its first name; the second one is no new one
    for name in [name for name in new if was_shared(name, pair, gone)]:
        yield alarm(
            f"`{name}` is in the variant's table and not in the baseline's: it was shared with `{path}`, and stays."
        )
        del new[name]
    if new and not Counter(gone.values()) - Counter(new.values()):
        yield fails(
            f"`{path}` is not gone but renamed: {listed(new)} have the shapes that {listed(gone)} had.",
            claim=f"`{path}` is gone",
            expected="no parameter that the baseline does not have",
            found=", ".join(f"{name} {shown(shape)}" for name, shape in new.items()),
        )
    elif new:
        yield fails(
            f"Something else is in the place of `{path}`: {listed(new)} "
            f"({', '.join(shown(shape) for shape in list(new.values())[:3])}). It was to be removed, not replaced.",
            claim=f"`{path}` is gone",
            expected="no parameter that the baseline does not have",
            found=", ".join(f"{name} {shown(shape)}" for name, shape in new.items()),
        )


def _still_computed(path: str, pair: Pair, base: Facts, facts: Facts) -> Iterator[Finding]:
    """Yield whether what the module computed is computed without it, of weights that stand in no table."""
    if not base.operators or not facts.operators:
        return
    before, after = counted(base.operators), counted(facts.operators)
    for run, least in _ran(path, pair, before).items():
        now = sum(after.get(one, 0) for one in run)
        then = sum(before.get(one, 0) for one in run)
        most = max(0, then - least)  # a dropout is called in evaluation, too, and runs nothing there
        if least and now > most:
            yield fails(
                f"`{path}` ran {run[0]} {times(least)}, and without it {run[0]} runs {now:,} times in place of "
                f"{then:,}: what it computed is still computed.",
                claim=f"`{path}` is gone",
                expected=f"at most {most:,} runs of {run[0]}",
                found=f"{now:,}",
            )


def _ran(path: str, pair: Pair, before: Mapping[str, int]) -> dict[tuple[str, ...], int]:
    """Return which operators ran in a module, and how often: as counted, else as torch's own modules are known to."""
    inside = [one for name, one in pair.base.modules.items() if under(path, name)]
    ran: Counter[tuple[str, ...]] = Counter()
    families = {one: family for family in RUNS.values() for one in family}
    if any(one.operators for one in inside):
        for module in inside:
            for operator, count in counted(module.operators).items():
                if operator in families:
                    ran[families[operator]] += count
        return dict(ran)
    for module in inside:
        for kind, family in RUNS.items():
            name = module.type.rpartition(".")[2]
            known = name.startswith((kind, f"Adaptive{kind}"))
            if known and any(before.get(one) for one in family):
                ran[family] += module.calls
    return dict(ran)


def module_unused(claim: ModuleUnused, pair: Pair, facts: Facts, variant: str) -> Iterator[Finding]:
    """Yield what speaks against a module being there without being used."""
    path, said = claim.path, f"`{claim.path}` is there and not used"
    before, after = rows_under(pair.base, path), rows_under(pair.variant, path)
    calls = calls_under(pair.variant, path)
    if calls:
        yield fails(
            f"Variant {variant} still calls `{path}` ({_calls(calls, facts)}): the component is used.",
            claim=said,
            expected="no call",
            found=_calls(calls, facts),
        )
    if before and not after:
        yield fails(
            f"Variant {variant} has no parameters at `{path}`: it was to stay, and not to be used.",
            claim=said,
            expected=f"{len(before)} parameters",
            found="none",
        )
    if not calls and _gets_gradient(pair, path):
        yield fails(
            f"Variant {variant} never calls `{path}`, but its parameters get gradients: they are used without calling "
            "it.",
            claim=said,
            expected="no gradient",
            found="a gradient",
        )
    if after and not calls:
        yield alarm(
            f"`{path}` is switched off and not removed: its {len(after)} parameters are still counted and decayed."
        )


def module_replaced(claim: ModuleReplaced, pair: Pair, facts: Facts, variant: str) -> Iterator[Finding]:
    """Yield what speaks against something else being at a path."""
    path, said = claim.path, f"`{claim.path}` is replaced"
    before, after = rows_under(pair.base, path), rows_under(pair.variant, path)
    for name, shape in claim.shapes.items():
        row = f"{path}.{name}".strip(".")
        if after.get(row) != tuple(shape):
            yield fails(
                f"`{row}` is to be {shown(shape)}, and is {shown(after.get(row, 'not there'))}.",
                claim=said,
                expected=shown(shape),
                found=shown(after.get(row, "nothing")),
            )
    if claim.shapes:
        for row in after.keys() - {f"{path}.{name}".strip(".") for name in claim.shapes}:
            yield fails(
                f"`{row}` of {shown(after[row])} is more than was planned at `{path}`.",
                claim=said,
                expected="no such parameter",
                found=shown(after[row]),
            )
    was, found = pair.base.modules.get(path), pair.variant.modules.get(path)
    kind = "nothing" if found is None else found.type.rpartition(".")[2]
    old = "nothing" if was is None else was.type.rpartition(".")[2]
    wanted = claim.type.rpartition(".")[2]
    if wanted and kind != wanted:
        yield fails(
            f"`{path}` is to be of class {wanted}, and is {kind}.",
            claim=said,
            expected=wanted,
            found=kind,
        )
    elif not wanted and kind == old and before == after:
        yield fails(
            f"Variant {variant} has the same {kind} at `{path}` as the baseline: the component is not replaced.",
            claim=said,
            expected="something else",
            found=f"{kind} with the same parameters",
        )
    if calls_under(pair.base, path) and not calls_under(pair.variant, path):
        yield fails(
            f"What is at `{path}` in variant {variant} is never called, so that nothing stands in for the component.",
            claim=said,
            expected=_calls(calls_under(pair.base, path), facts),
            found="no call",
        )


def resized(claim: Resized, pair: Pair, variant: str) -> Iterator[Finding]:
    """Yield what speaks against parameters having other shapes."""
    for name, shape in claim.shapes.items():
        found, before = pair.variant.parameters.get(name), pair.base.parameters.get(name)
        wanted = shown(["any" if size is None else size for size in shape])
        if found is None:
            yield fails(
                f"Variant {variant} has no parameter `{name}`; it was to become {wanted}.",
                claim=f"`{name}` is {wanted}",
                expected=wanted,
                found="no such parameter",
            )
        elif not fits(found.shape, tuple(shape)):
            same_as_before = " as in the baseline" if before is not None and before.shape == found.shape else ""
            yield fails(
                f"`{name}` is {shown(found.shape)}{same_as_before}; it was to become {wanted}.",
                claim=f"`{name}` is {wanted}",
                expected=wanted,
                found=shown(found.shape),
            )
    before_all = [pair.base.parameters[name].shape for name in claim.shapes if name in pair.base.parameters]
    if before_all and all(
        fits(one, tuple(claim.shapes[name]))
        for name in claim.shapes
        if name in pair.base.parameters
        for one in [pair.base.parameters[name].shape]
    ):
        yield unclear(
            f"{listed(claim.shapes)} have the claimed shapes in the baseline already, so that nothing is shown.",
            claim="resized",
        )


def _gets_gradient(pair: Pair, path: str) -> bool:
    return any(row.got_gradient for name, row in pair.variant.parameters.items() if under(path, name))


def _calls(count: int, facts: Facts) -> str:
    calls = "1 call" if count == 1 else f"{count:,} calls"
    return f"{calls} in {facts.steps} step{'' if facts.steps == 1 else 's'}"
