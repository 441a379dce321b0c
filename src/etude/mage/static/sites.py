"""Places of a source whose text is under a rule, and which of them a change alters.

A place is known by its rule, its name and where it stands; what is compared is the text there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from etude.mage.static.policy import Broken, Named, Rule

WHAT: Final[Mapping[Rule, str]] = MappingProxyType(
    {
        Rule.SEEDS: "the seed",
        Rule.LEARNING_RATE: "the learning rate",
        Rule.EPOCHS: "the number of epochs or steps",
        Rule.TRAINING: "how it is trained",
        Rule.WEIGHTS: "how much classes, examples or the loss weigh",
        Rule.PRECISION: "the type of numbers",
        Rule.CLIPPING: "how gradients are clipped",
        Rule.TRAINED_ONCE: "how training and evaluation are called",
    }
)
"""Rule -> what changes, in words."""


@dataclass(frozen=True)
class Site:
    """A place, by where it stands.

    Attributes:
        rule: The rule that it is under; None for other constants.
        name: What it is called.
        where: The definition and the call that it is in.
        value: Its text.
        line: Its line; 0 in a file of another kind.
        owners: Names that it belongs to: if a variant is about one of them, it may change.
    """

    rule: Rule | None
    name: str
    where: str
    value: str
    line: int = 0
    owners: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[Rule | None, str, str]:
        """What tells it from others."""
        return self.rule, self.name, self.where


def altered(path: str, before: Iterable[Site], after: Iterable[Site], named: Named) -> Iterator[Broken | str]:
    """Yield what is under a rule and has changed, and, as plain texts, other constants that have.

    Args:
        path: The file.
        before: Its places before.
        after: Its places after.
        named: What the variant is about, and so may change.
    """
    then, now = _by_key(before), _by_key(after)
    for key in dict.fromkeys([*then, *now]):
        old, new = then.get(key, []), now.get(key, [])
        values, others = Counter(site.value for site in old), Counter(site.value for site in new)
        if values == others or any(owner in named for site in (*old, *new) for owner in (site.name, *site.owners)):
            continue
        rule, name, where = key
        was, is_now = _listed(values - others, "nothing"), _listed(others - values, "nothing")
        place = f"{path}, line {new[0].line}" if new and new[0].line else path
        inside = f" in {where}" if where else ""
        if rule is not None:
            yield Broken(
                rule,
                f"{place}: {WHAT[rule]} changes: {name}{inside} was {was} and is {is_now}. The variant does not name "
                "it.",
                expected=was,
                found=is_now,
            )
        elif old and new:
            yield f"{place}: {name}{inside} was {was} and is {is_now}."


def _by_key(sites: Iterable[Site]) -> dict[tuple[Rule | None, str, str], list[Site]]:
    found = defaultdict(list)
    for site in sites:
        found[site.key].append(site)
    return dict(found)


def _listed(values: Counter[str], none: str) -> str:
    return ", ".join(f"`{value}`" for value in values.elements()) or none
