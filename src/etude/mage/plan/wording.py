"""The words and forms of plain hints: what removes, what pairs, what counts, and what is only prose."""

from __future__ import annotations

import re
from typing import Final

BULLET: Final = re.compile(r"^(\s*)(?:[-*+•‣–]|\(?(?:\d{1,3}|[a-z]|[ivx]{1,5})[.)])\s+(.*)$", re.IGNORECASE)
REMOVES: Final = re.compile(
    r"\b(remov\w*|without|drop(?:s|ped|ping)?|omit\w*|ablat(?:e|es|ed|ing)|delet\w*|exclud\w*|disabl\w*|skip\w*"
    r"|leav\w* out|left out|tak\w* (?:out|away)|switch\w* off|turn\w* off|no)\b",
    re.IGNORECASE,
)
PAIRS: Final = re.compile(r"\b(pairs?|pairwise|two at a time|every two|combinations of two)\b", re.IGNORECASE)
EACH: Final = re.compile(
    r"\b(each|individual(?:ly)?|separately|one (?:by|at a|after) (?:one|a? ?time|the other|another)|one at a time"
    r"|in turn|every)\b",
    re.IGNORECASE,
)
QUOTED: Final = re.compile(r"`([^`\n]+)`|'([^'\n]+)'|\"([^\"\n]+)\"|‘([^’\n]+)’|“([^”\n]+)”")
OTHERWISE: Final = re.compile(
    r"\b(replac\w*|swap\w*|substitut\w*|instead|doubl\w*|halv\w*|increas\w*|decreas\w*|reduc\w*|var(?:y|ying|ied)"
    r"|freez\w*|frozen|add(?:s|ed|ing)?|only|except|keep\w*|unless|if)\b",
    re.IGNORECASE,
)
"""Words that turn a removal into something else, which is not read from words."""
ALONE_TOO: Final = re.compile(r"\bindividual|\bseparately|\bone at a time|\beach\b(?!\s+pair)", re.IGNORECASE)
UNITS: Final = r"(?:output |hidden )*(?:neurons?|units?|channels?|filters?|features?|outputs?)"
SIZE: Final = re.compile(
    rf"\b(?P<a>\d+)\s+{UNITS}\b"
    rf"|\b(?:{UNITS}|width|size|dimension\w*|dim)\b(?P<between>[^,;.]*?)(?:\bis\b|\bare\b|=|:|\bto\b|\bof\b(?=\s*\d))\s*(?P<b>\d+)\b",
    re.IGNORECASE,
)
SETS: Final = re.compile(
    r"""\b(?:set|change|put|with)\s+[`'"]?(?P<a>[A-Za-z_][\w.]*)[`'"]?\s+(?:to|=)\s*(?P<av>[-\w.+]+)"""
    r"""|^\s*(?:use\s+)?[`'"]?(?P<b>[A-Za-z_][\w.]*)[`'"]?\s*=\s*(?P<bv>[-\w.+]+)""",
    re.IGNORECASE,
)
WORDS_OF_PLACES: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
PLACE: Final = re.compile(
    rf"\b(?:(?P<word>{'|'.join(WORDS_OF_PLACES)})|(?P<last>last|final)|(?P<digits>\d+)(?:st|nd|rd|th))\b", re.IGNORECASE
)
LAYER_NUMBER: Final = re.compile(r"\b(?:layer|block)s?\s+(\d+)\b", re.IGNORECASE)
LAYERS: Final = re.compile(r"\b(layers?|blocks?|modules?)\b", re.IGNORECASE)
CLAUSES: Final = re.compile(
    r",?\s+\bwhile\b\s+|;\s*|,?\s+\bbut\b\s+|,?\s+\bwith\b\s+(?=(?:the\s+)?(?:number|\d))", re.IGNORECASE
)
NAME: Final = re.compile(r"[^\W\d][\w.]*[*]?", re.UNICODE)
PROSE: Final = frozenset(
    re.findall(
        r"\w+",
        "the a an and or of in on at to for from by with as is are be its their this that these those them it each "
        "all both layer layers block blocks module modules feature features column columns trial trials study "
        "following above below one two three four five six pair pairs time individually pairwise separately together "
        "also then while but only removed remove removing remov without drop dropped dropping omit omitted delete "
        "deleted exclude excluded disable disabled skip skipped ablate ablated no set use used using model network "
        "code training train data dataset after before when so not any every second third fourth fifth first last "
        "final number output neurons units channels filters hidden have has should consist component components "
        "ablation out off turn switch leave left take taken away does do did was were will would must can may variant "
        "variants experiment baseline",
    )
)
