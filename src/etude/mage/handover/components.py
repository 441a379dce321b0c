"""Accepted variants become components of an ordinary ablation: seeds, pairs and verdicts are then the house's own.

Two kinds of programs are handed over. Of an experiment of Étude (``script.py:experiment``) each variant gives the
functions, as ``from_tree`` stands for them. Of any other program (``python train.py --seed {seed}``) each variant is
the command in its own tree, as ``commands`` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from etude.ablate.components import CustomComponent
from etude.ablate.making import custom
from etude.core.errors import BaselineError, ConfigError
from etude.core.signature import Definition
from etude.core.text import count
from etude.mage.handover.commands import Command
from etude.mage.handover.from_tree import functions_of, search_in
from etude.mage.handover.travelling import Files
from etude.mage.judge.baseline import Pairing
from etude.mage.patch.blocks import Patch
from etude.mage.tree import Tree

FIRST: Final = "-first"
KEPT: Final = "-kept"
"""What studies of first trials, and of what is left after them, are called after the one that was asked for."""


@dataclass(frozen=True)
class Accepted:
    """A variant that was approved.

    Attributes:
        name: The variant's name: what its arm is called.
        patch: The patch that was approved.
        tree: What the project's tree becomes by it.
        pairing: Whether equal seeds pair its runs with those of the untouched program, by what the probe has seen;
            None if it has seen nothing.
    """

    name: str
    patch: Patch
    tree: Tree
    pairing: Pairing | None = None

    @property
    def identity(self) -> str:
        """What the numbers of its trials depend on."""
        return f"patch {self.patch.digest} of {self.patch.base}"


class Ablates(Protocol):
    """An experiment, as far as it is needed here."""

    def ablate(self, components: Any, **options: Any) -> Any:
        """Run an ablation."""
        ...


@dataclass(frozen=True)
class HandedOver:
    """What came of it.

    Attributes:
        ablation: The ablation; None if every variant was pulled.
        first: The study of first trials.
        pulled: Variants that failed in their first trial, and why: no other seed of theirs was run.
        variants: Arm -> the variant that it is.
    """

    ablation: Any
    first: Any
    pulled: Mapping[str, str] = field(default_factory=dict)
    variants: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> Mapping[str, str]:
        """Variants and other arms of which a trial failed, and why; those that were pulled are among them."""
        found = failed_in(self.ablation) if self.ablation is not None else {}
        return {**self.pulled, **{self.variants.get(arm, arm): why for arm, why in found.items()}}

    def __str__(self) -> str:
        told = [f"{name} was pulled: its first trial failed. {why}" for name, why in self.pulled.items()]
        return "\n".join([*([str(self.ablation)] if self.ablation is not None else []), *told])


def components_of(
    accepted: Sequence[Accepted], *, entry: str, base: Tree, root: Path, experiment: Definition
) -> list[CustomComponent]:
    """Return the variants of an experiment of Étude as components.

    Args:
        accepted: The variants.
        entry: ``script.py:experiment``, relative to ``root``.
        base: The project's tree.
        root: The project's folder.
        experiment: The experiment, as the project has it.

    Raises:
        ConfigError: A variant's tree is not what its patch makes of this base, or two have one name.
        SignatureError: A function of a variant takes what cannot be known from its text.
    """
    _check(accepted, base)
    found = []
    for one in accepted:
        own = functions_of(one.tree, base, experiment, entry=entry, root=root, identity=one.identity)
        found.append(custom(one.name, model=own.get("model"), data=own.get("data"), train=own.get("train")))
    return found


def commands_of(
    accepted: Sequence[Accepted],
    *,
    entry: str,
    metric: str,
    base: Tree,
    root: Path,
    limit_s: float | None = None,
) -> tuple[Callable[..., Any], list[CustomComponent]]:
    """Return the training function of a program that is a command, and its variants as components.

    ``etude.Experiment(train, metric=..., mode=...)`` of the first runs the untouched program. Of a command nothing is
    seen, so whether equal seeds pair its runs is what the probe has found; what nobody knows is no pair.

    Args:
        accepted: The variants.
        entry: The command, such as ``python train.py --seed {seed}``, to be run in ``root``.
        metric: Where the metric is: ``metrics.json:accuracy``, or ``accuracy`` for what it prints.
        base: The project's tree.
        root: The project's folder.
        limit_s: Seconds that a trial's command may take.

    Raises:
        ConfigError: It is no such command, or a variant does not belong to this base.
    """
    _check(accepted, base)
    search = search_in(root, _script(entry, base))

    def command(tree: Tree, arguments: tuple[str, ...] = ()) -> Command:
        files = Files.of(tree, root=root)
        return Command.read(entry, metric, files, more=arguments, search=search, limit_s=limit_s)

    untouched = command(base).trained(f"base {base.digest}")
    return untouched, [
        custom(
            one.name,
            train=command(one.tree, one.patch.arguments).trained(one.identity),
            paired=one.pairing is not None and one.pairing.paired is True,
            says=one.pairing.text if one.pairing is not None else "",
        )
        for one in accepted
    ]


def hand_over(
    experiment: Ablates,
    components: Sequence[CustomComponent],
    *,
    name: str,
    seeds: Any = 10,
    and_also: Iterable[Any] = (),
    reuse: Sequence[Any] = (),
    kept_as: Callable[[Sequence[str]], str] | None = None,
    **options: Any,
) -> HandedOver:
    """Run the ablation; a variant whose first trial fails is pulled before its other seeds start.

    The first seed of all arms is run by itself. With a number of seeds that is the same study, which then goes on, so
    that nothing runs twice. It cannot go on without an arm: if one is pulled, the others are a study of their own,
    which reuses the trials of the base. Seeds that are listed, or ``"until decided"``, are no study
    that grows: then the first trials are ``<name>-first``.

    Args:
        experiment: The experiment of the untouched program.
        components: The variants.
        name: The ablation's name.
        seeds: As for ``Experiment.ablate``.
        and_also: Further components for the same ablation, such as ``"dropout"``.
        reuse: Studies whose trials are taken where they are the same.
        kept_as: The variants that are left after others were pulled -> what their study is called; None for
            ``<name>-kept``. It is asked before that begins.
        options: Further options of ``Experiment.ablate``.

    Raises:
        BaselineError: The untouched program failed in its first trial.
    """
    others, grows = list(and_also), isinstance(seeds, int)
    listed = not grows and not isinstance(seeds, str) and isinstance(seeds, Sequence)
    known = {"reuse": list(reuse)} if reuse else {}
    early = {**options, **known, "seeds": list(seeds)[:1] if listed else 1, "force": True, "wait": True}
    first = experiment.ablate([*components, *others], name=name if grows else name + FIRST, **early)
    failed = failed_in(first)
    if BASE in failed:
        raise BaselineError(f"The untouched program failed: {failed[BASE]} Your code, not the patch. Mend that first.")
    arms = {str(one): one.name for one in components}
    pulled = {one.name: failed[str(one)] for one in components if str(one) in failed}
    kept = [one for one in components if one.name not in pulled]
    if not kept and not others:
        return HandedOver(None, first, pulled, arms)
    again = known if grows and not pulled else {"reuse": [*reuse, first]}
    called = name
    if grows and pulled:
        called = kept_as([one.name for one in kept]) if kept_as is not None else name + KEPT
    ablation = experiment.ablate([*kept, *others], name=called, seeds=seeds, **{**options, **again})
    return HandedOver(ablation, first, pulled, arms)


BASE: Final = "base"


def failed_in(ablation: Any) -> dict[str, str]:
    """Return the arms of an ablation that have a failed trial, and the first line of why."""
    found: dict[str, str] = {}
    for trial in ablation.trials:
        if str(trial.state) in ("failed", "invalid"):
            found.setdefault(trial.arm, str(trial.reason or "It says nothing more."))
    return found


def _check(accepted: Sequence[Accepted], base: Tree) -> None:
    names = [one.name for one in accepted]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"{count(len(twice), 'name')} of variants twice: {', '.join(twice)}. Name each once.")
    for one in accepted:
        if one.patch.base != base.digest:
            raise ConfigError(
                f"{one.name!r} is a patch of other files than these: the project was edited since. "
                "Check its variants again, or take the edit back."
            )
        if one.patch.result != one.tree.digest:
            raise ConfigError(
                f"The files of {one.name!r} are not what its approved patch makes of the project. "
                "Apply the patch again; an edit needs another approval."
            )


def _script(entry: str, tree: Tree) -> str:
    """Return the first word of a command that is a file of the tree; empty if none is."""
    return next((word for word in entry.split() if word in tree), "")
