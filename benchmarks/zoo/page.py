"""What the page of results says of the zoo beside its rows: families, refusals, faults, and what was before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.zoo.contact import first_contact

HEAD: Final = ("family", "", "live", "ran", "must run", "hard", "refused", "wrong", "no answer", *map(str, range(1, 7)))

HISTORY: Final = """
## What was before

The remover, as it first was, met 37 families that its author had not seen, 12 parts of each drawn at random: 433 live
pairs. That is first contact, and only once can it be measured. 389 ran, 89.8 %; of those that must run, 363 of 393,
92.4 % (89.3 to 94.6 % for so many pairs, were they independent; those of a family are not); of the hard ones 165 of
193, 85.5 % (79.8 to 89.8 %); of the edges 26 of 40. 28 were refused, 6.5 %, and 16 were wrong: 12 left a norm without a
gradient and did not say so, and 4 added something to itself. Three more looked wrong at first, and the oracle was: it
took a product with a gate for a summand.

These families are in `benchmarks/zoo/once_unseen.py`. The next 59 were written before the remover was changed again, by
somebody who does not read it. Whoever wrote them saw the outcomes of about 28 pairs of five of them (`nerf`,
`set_transformer`, `pixel_cnn`, `mobilebert`, `esm`) while the runner was made, and told nobody. The remover met all
their 2,014 live pairs at commit 08ee7da, and 1,859 ran, 92.3 %; of those that must run, 1,773 of 1,867, 95.0 % (93.9 to
95.9 %); of the hard ones 873 of 942, 92.7 % (90.8 to 94.2 %); of the edges 86 of 147. 137 were refused, 6.8 %, and 18
were wrong; 41 of the 42 of `reformer` were refused.

These are in `pictures.py`, `sequences.py`, `records.py` and `hugging_more.py` beside it. The third set, of 50 families,
was written by somebody who had read neither the remover nor its documentation, knew the plan for it and the figures by
family above, and ran no removal on them. The remover, which was stricter by then, met all their 1,761 live pairs at
commit 1910a35, and 1,507 ran, 85.6 %; of those that must run, 1,431 of 1,630, 87.8 % (86.1 to 89.3 %); of the hard ones
674 of 812, 83.0 % (80.3 to 85.4 %). 244 were refused, 13.9 %, all 83 of `canine` among them, which gives NaN in double
precision; 10 were thought wrong, of which four were the oracle's fault.

These are in `pictures_more.py`, `pictures_made.py`, `sequences_more.py`, `records_more.py` and `hugging_further.py`.
The fourth set, of 36 families, was written by somebody who had read neither the remover nor its documentation, saw
the design of its ladder, and ran no removal on them. The remover met all their 2,215 live pairs at commit 6b43a94,
and 2,002 ran, 90.4 %; of those that must run, 1,952 of 2,118, 92.2 % (90.9 to 93.2 %); of the hard ones 918 of 1,073,
85.6 % (83.3 to 87.5 %). 202 were refused, 9.1 %, of which 73 are of `encodec`, whose layers have norms of their
weights; 11 were thought wrong. Of these, eight were the oracles' fault: an effect below single precision, weights
that are shared, states that are collected by hooks. The other three trained nothing.

These are in `pictures_paths.py`, `pictures_translated.py`, `sequences_heard.py`, `sequences_read.py`,
`records_related.py`, `hugging_texts.py` and `hugging_senses.py`. All four sets have been developed on since, and
count as such from then on. The unseen ones are others again: 19 types of transformers that
`benchmarks/zoo/drawing.py` drew, and 18 nets. Whoever wrote them had not read the remover, ran no removal on them,
and had by mistake seen the table of the fourth set and two lines on norms of weights. They are frozen: their digest
is of `cat benchmarks/zoo/unseen*.py | sha256sum`. Where a set was met first stands in `benchmarks/zoo/contact.py`.
"""


def beside(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield what there is to say beside the rows."""
    details = result["details"]
    yield from table(HEAD, families(details))
    codes = details.get("étude everywhere: all families", {}).get("codes", {})
    if codes:
        yield from table(("refused, by code", "pairs"), [(code, str(count)) for code, count in codes.items()])
    faults = [
        f"- {one}"
        for kind in ("wrong", "no answer")
        for one in details.get("étude everywhere: all families", {}).get(kind, ())
    ]
    yield from ["Wrong, or without an answer:", "", *faults, ""] if faults else []
    if unseen := details.get("étude unseen: all families", {}).get("unseen families"):
        yield contact(unseen, result.get("commit"))
        yield HISTORY


def contact(unseen: str, commit: str | None) -> str:
    """Say which unseen families a result is of, and whether it is the first one over them."""
    met = first_contact(unseen, commit)
    which = "with this result" if met == commit else "and this is a later result"
    return f"The unseen families have the digest `{unseen}`. They were first measured at commit {met}, {which}."


def families(details: Mapping[str, Mapping[str, Any]]) -> list[Sequence[str]]:
    """Return a row for each family."""
    found: list[Sequence[str]] = []
    for name, of in details.items():
        if "ran" in of:
            _, split, family = name.split(" ", 2)
            found.append((family, split, *(str(of.get(key, "")) for key in HEAD[2:])))
    return found


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table of a page."""
    if rows:
        yield from (f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))
        yield ""
