"""Batches: the first of each loader, and how many there are."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from etude.mage.probe.inside.seen import Seen

UNKNOWN = -1


class Loaders:
    """Watches PyTorch's data loaders.

    Args:
        seen: Where facts are kept.
    """

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._loaders: list[Any] = []
        self._facts: list[dict[str, Any]] = []

    def watch(self, torch: Any) -> None:
        """Watch loaders that are made from here on."""
        loader, iterator = torch.utils.data.DataLoader, torch.utils.data.dataloader._BaseDataLoaderIter
        hook = self._seen.hook
        made, begins, came = hook(self._made), hook(self._begins), hook(self._came)
        original_init, original_iter, original_next = loader.__init__, loader.__iter__, iterator.__next__

        @functools.wraps(original_init)
        def init(one: Any, *args: Any, **kwargs: Any) -> None:
            original_init(one, *args, **kwargs)
            made(one)

        @functools.wraps(original_iter)
        def iterate(one: Any) -> Any:
            begins(one)
            found = original_iter(one)
            found.__dict__["_etude_loader"] = one.__dict__.get("_etude_loader")
            return found

        @functools.wraps(original_next)
        def following(one: Any) -> Any:
            batch = original_next(one)
            came(one, batch)
            return batch

        loader.__init__, loader.__iter__, iterator.__next__ = init, iterate, following
        iterator.next = following

    def update(self) -> None:
        """Hand over what is known, in the order in which loaders were made."""
        was_busy, self._seen.is_busy = self._seen.is_busy, True
        try:
            for reference, facts in zip(self._loaders, self._facts, strict=True):
                loader = reference()
                if loader is not None and facts["length"] == UNKNOWN:
                    facts.update(length=_length(loader), examples=_examples(loader))
        finally:
            self._seen.is_busy = was_busy
        first = self._seen.facts.get("first_input")
        if not self._facts and first:
            shapes, digest, values = first
            self._seen.facts.update(batches=[shapes], batch_digests=[digest], batch_values=values)
            return
        self._seen.facts["batches"] = [facts["shapes"] for facts in self._facts]
        self._seen.facts["batch_digests"] = [facts["digest"] for facts in self._facts]
        self._seen.facts["batch_values"] = [values for facts in self._facts for values in facts["values"]]
        self._seen.facts["lengths"] = [facts["length"] for facts in self._facts]
        self._seen.facts["examples"] = [facts["examples"] for facts in self._facts]

    def _made(self, loader: Any) -> None:
        loader.__dict__["_etude_loader"] = len(self._loaders)
        self._loaders.append(weakref.ref(loader))
        none: dict[str, Any] = {"shapes": [], "digest": "", "values": [], "length": UNKNOWN, "examples": UNKNOWN}
        self._facts.append({**none, "has_come": False})

    def _begins(self, loader: Any) -> None:
        facts = self._facts[loader.__dict__["_etude_loader"]]
        if facts["length"] == UNKNOWN:
            facts.update(length=_length(loader), examples=_examples(loader))
        if loader.num_workers:
            self._seen.note("calls of functions in the processes of loader workers were not counted")

    def _came(self, iterator: Any, batch: Any) -> None:
        nth = iterator.__dict__.get("_etude_loader")
        if nth is None or self._facts[nth]["has_come"]:
            return
        plain = self._seen.plain
        leaves = plain.leaves(batch)
        digest = plain.digest(*map(plain.bytes_of, leaves))
        values = [found for found in map(plain.moments, leaves) if found is not None]
        self._facts[nth].update(shapes=plain.shapes(batch), digest=digest, values=values, has_come=True)


def _length(loader: Any) -> int:
    try:
        return len(loader)
    except Exception:  # it does not know, as one of an endless stream
        return UNKNOWN


def _examples(loader: Any) -> int:
    """Return how many examples its sampler gives, or its data set has."""
    for one in (getattr(loader, "sampler", None), getattr(loader, "dataset", None)):
        try:
            return len(one)  # type: ignore[arg-type]
        except Exception:  # noqa: S112 - a stream
            continue
    return UNKNOWN
