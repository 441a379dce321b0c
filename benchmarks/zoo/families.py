"""All families, and which of them the remover was developed on."""

from __future__ import annotations

from typing import Final

from benchmarks.zoo.classic import CLASSIC
from benchmarks.zoo.family import Family
from benchmarks.zoo.geometric import GEOMETRIC
from benchmarks.zoo.graphs import GRAPHS
from benchmarks.zoo.hugging import HUGGING
from benchmarks.zoo.unseen import UNSEEN

DEVELOPED: Final = (*CLASSIC, *GRAPHS, *GEOMETRIC, *HUGGING)
FAMILIES: Final[dict[str, Family]] = {family.name: family for family in (*DEVELOPED, *UNSEEN)}
SPLIT: Final = {family.name: "unseen" if family in UNSEEN else "developed" for family in FAMILIES.values()}
