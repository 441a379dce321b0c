"""What a variant's claims allow to be another than in the baseline. Everything else has to be equal.

A claim that something goes also says, without words, that some other things follow: functions that it called are called
less often, a generator that it drew from gives others other numbers. What follows is bounded by numbers that were seen,
such as how often the component was called, so that nobody can hide a second change behind a first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from etude.mage.facts import Facts
from etude.mage.judge.comparing import counted, names_call, plain, same, under, words_of
from etude.mage.judge.expression import mentioned
from etude.mage.judge.tables import Pair, calls_under, is_nothing
from etude.mage.variants import Variant, What
from etude.mage.witnesses import (
    CallChanged,
    CallGone,
    ColumnsGone,
    GroupValue,
    Holds,
    ModuleGone,
    ModuleReplaced,
    ModuleUnused,
    ModuleValue,
    Resized,
    SettingValue,
    Witness,
)


@dataclass(frozen=True)
class Licence:
    """What may differ.

    Attributes:
        gone: Paths of modules that go, or are not called any more.
        replaced: Paths at which something else may be.
        types: Classes of the modules at these paths and below.
        made: How many modules that is, with all that are below: what is called once for each where it is made.
        lost: How often each component was called in the baseline and no more, one number a component; 0 are left out.
        apart: How often of these no other module's call was running.
        draws: Whether random draws may come out otherwise: something that draws numbers goes or has another size.
        data: Whether the contents of batches may be others.
        widths: Sizes that may become others: from, to.
        columns: Columns that go.
        groups: Values of optimizer groups that change.
        values: Modules' attributes that change, as path and name.
        changes: From what to what a claimed value of a module or a group goes.
        calls: Claims about calls, by their names.
        ended: Those of them that say that there is no call.
        settings: Settings that change -> from what, to what.
        loss: Whether a term of the loss goes.
        free: Fields of the facts that an expression looks at: whoever approved it has seen that they differ.
    """

    gone: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    types: frozenset[str] = field(default_factory=frozenset)
    made: int = 0
    lost: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()
    draws: bool = False
    data: bool = False
    widths: frozenset[tuple[int, int]] = field(default_factory=frozenset)
    columns: tuple[str, ...] = ()
    groups: frozenset[str] = field(default_factory=frozenset)
    values: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    changes: tuple[tuple[Any, Any], ...] = ()
    calls: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    settings: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    loss: bool = False
    free: frozenset[str] = field(default_factory=frozenset)

    @property
    def made_no_more(self) -> frozenset[str]:
        """Names of what is not called any more, such as classes of estimators, without those of their modules."""
        return frozenset(name.rpartition(".")[2] for name in self.ended)

    @property
    def modules(self) -> tuple[str, ...]:
        """Paths of modules that a claim is about."""
        return self.gone + self.replaced

    def is_about(self, name: str) -> bool:
        """Say whether a claim is about a module or a parameter, by its path."""
        return any(under(path, name) for path in self.modules)

    def explained(self, before: Any, after: Any) -> bool:
        """Say whether a fact follows a setting: it had the setting's old value, and has its new one."""
        return any(same(before, old) and same(after, new) for old, new in self.settings.values())

    def resized(self, before: Sequence[int], after: Sequence[int]) -> bool:
        """Say whether a shape follows a setting or the number of columns."""
        return len(before) == len(after) and all(
            one == other or (one, other) in self.widths for one, other in zip(before, after, strict=True)
        )

    @property
    def may_reach_the_start(self) -> bool:
        """Whether a function may have been called before the first loss, and have drawn, set or loaded something."""
        return any(not any(part in name.lower() for part in AFTER) for name in self.calls)

    def may_call(self, function: str) -> bool:
        """Say whether a claim is about a function."""
        return any(names_call(name, function) for name in self.calls)

    def akin(self, name: str) -> bool:
        """Say whether a name shares a word with a setting that changes, as ``use_clip`` and ``clip_grad_norm_``."""
        words = {word for setting in self.settings for word in words_of(setting) if word not in COMMON}
        return any(
            one == word or (len(word) >= LONG_WORD and one.startswith(word)) for one in words_of(name) for word in words
        )

    def divides(self, fewer: int) -> bool:
        """Say whether something that is called so many times fewer was called by what is gone, again and again."""
        return any(fewer % lost == 0 for lost in self.lost)


AFTER: Final = ("clip", "sched", "ema", "zero_grad", "step")
"""Parts of names of functions that are called when the loss is there already."""
LONG_WORD: Final = 4
"""Letters of a word that may begin a longer one."""
COMMON: Final = frozenset(
    {"use", "no", "with", "without", "enable", "disable", "is", "do", "py", "train", "model", "args"}
)


def licence_of(variant: Variant, pairs: Iterable[Pair], base: Facts, facts: Facts) -> Licence:
    """Return what a variant's claims allow.

    Args:
        variant: The variant.
        pairs: Its models beside the baseline's.
        base: What was seen of the baseline.
        facts: What was seen of the variant.
    """
    pairs = tuple(pairs)
    claims = variant.witnesses
    gone = tuple(one.path for one in claims if isinstance(one, ModuleGone | ModuleUnused))
    replaced = tuple(one.path for one in claims if isinstance(one, ModuleReplaced))
    calls = tuple(one.name for one in claims if isinstance(one, CallGone | CallChanged))
    columns = tuple(name for one in claims if isinstance(one, ColumnsGone) for name in one.columns)
    settings = {
        name: (before, one.value)
        for one in claims
        if isinstance(one, SettingValue)
        for name, before in settings_named(one.name, base).items()
    }
    sized = {(old, new) for old, new in settings.values() if _is_size(old) and _is_size(new)}
    whats = {thing.what for thing in variant.things}
    return Licence(
        gone=gone,
        replaced=replaced,
        types=frozenset(_types(gone + replaced, pairs)),
        made=sum(any(under(path, name) for path in gone + replaced) for pair in pairs for name in pair.base.modules),
        lost=tuple(lost for one in claims for lost in _lost(one, pairs, base, facts) if lost > 0),
        apart=tuple(lost for one in claims for lost in _lost_apart(one, pairs) if lost > 0),
        draws=any(
            isinstance(one, ModuleGone | ModuleReplaced | Resized | SettingValue | ColumnsGone) for one in claims
        ),
        data=bool(columns or settings or whats & {What.AUGMENTATION}),
        widths=frozenset(sized | _narrower(columns, base)),
        columns=columns,
        groups=frozenset(one.name for one in claims if isinstance(one, GroupValue)),
        values=frozenset((one.path, one.name) for one in claims if isinstance(one, ModuleValue)),
        changes=tuple(_changes(claims, pairs)),
        calls=calls,
        ended=tuple(one.name for one in claims if isinstance(one, CallGone)),
        settings=settings,
        loss=What.LOSS_TERM in whats,
        free=frozenset(name for one in claims if isinstance(one, Holds) for name in mentioned(one.expression)),
    )


def settings_named(name: str, facts: Facts) -> dict[str, Any]:
    """Return the settings that a claim's name means: ``lr`` means ``args.lr`` where nothing is called ``lr`` alone."""
    if name in facts.settings:
        return {name: facts.settings[name]}
    last = name.replace(":", ".").rpartition(".")[2]
    return {
        key: value
        for key, value in facts.settings.items()
        if key.replace(":", ".").rpartition(".")[2].replace("-", "_") == last.lstrip("-").replace("-", "_")
        and ("." not in name and ":" not in name)
    }


def called(name: str, facts: Facts) -> int:
    """Return how often a function or an operator was called that a claim names."""
    functions = sum(count for one, count in facts.calls.items() if names_call(name, one))
    if functions or ":" in name:
        return functions
    return counted(facts.operators).get(plain(name), 0) if "." not in name or name.startswith("aten") else 0


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _types(paths: Iterable[str], pairs: Iterable[Pair]) -> set[str]:
    return {
        one.type.rpartition(".")[2]
        for pair in pairs
        for path in paths
        for name, one in pair.base.modules.items()
        if under(path, name)
    }


def _changes(claims: Iterable[Witness], pairs: Sequence[Pair]) -> Iterator[tuple[Any, Any]]:
    for one in claims:
        if isinstance(one, ModuleValue):
            for pair in pairs:
                if one.path in pair.base.modules and one.name in pair.base.modules[one.path].values:
                    yield pair.base.modules[one.path].values[one.name], one.value


def _lost(witness: Witness, pairs: Iterable[Pair], base: Facts, facts: Facts) -> list[int]:
    if isinstance(witness, ModuleGone | ModuleUnused | ModuleReplaced):
        lost = []
        for pair in pairs:
            if witness in pair.witnesses:
                still = not isinstance(witness, ModuleReplaced) and not is_nothing(pair.variant, witness.path)
                now = calls_under(pair.variant, witness.path) if still else 0
                lost.append(calls_under(pair.base, witness.path) - now)
        return lost
    if isinstance(witness, CallGone | CallChanged):
        return [called(witness.name, base) - called(witness.name, facts)]
    return []


def _lost_apart(witness: Witness, pairs: Iterable[Pair]) -> list[int]:
    if not isinstance(witness, ModuleGone | ModuleUnused | ModuleReplaced):
        return []
    both = [(pair.base.modules.get(witness.path), pair.variant.modules.get(witness.path)) for pair in pairs]
    return [one.apart - (other.apart if other is not None else 0) for one, other in both if one is not None]


def _narrower(columns: Sequence[str], base: Facts) -> set[tuple[int, int]]:
    if not columns:
        return set()
    widths = {len(fit.columns) for fit in base.fits}
    widths |= {shape[-1] for batch in base.batches for shape in batch if len(shape) > 1}
    return {(width, width - len(columns)) for width in widths}
