"""All families, and which of them the remover was developed on."""

from __future__ import annotations

from typing import Final

from benchmarks.zoo.classic import CLASSIC
from benchmarks.zoo.family import Family
from benchmarks.zoo.geometric import GEOMETRIC
from benchmarks.zoo.graphs import GRAPHS
from benchmarks.zoo.hugging import HUGGING
from benchmarks.zoo.hugging_further import FURTHER
from benchmarks.zoo.hugging_more import MORE
from benchmarks.zoo.hugging_senses import SENSES
from benchmarks.zoo.hugging_texts import TEXTS
from benchmarks.zoo.once_unseen import ONCE_UNSEEN
from benchmarks.zoo.pictures import PICTURES
from benchmarks.zoo.pictures_made import PICTURES_MADE
from benchmarks.zoo.pictures_more import MORE_PICTURES
from benchmarks.zoo.pictures_paths import PATHS
from benchmarks.zoo.pictures_translated import TRANSLATED
from benchmarks.zoo.records import RECORDS
from benchmarks.zoo.records_more import MORE_RECORDS
from benchmarks.zoo.records_related import RELATED
from benchmarks.zoo.sequences import SEQUENCES
from benchmarks.zoo.sequences_heard import HEARD
from benchmarks.zoo.sequences_more import MORE_SEQUENCES
from benchmarks.zoo.sequences_read import READ
from benchmarks.zoo.unseen import UNSEEN

MET_SECOND: Final = (*PICTURES, *SEQUENCES, *RECORDS, *MORE)
"""These were unseen once too, after those in ``once_unseen``."""
MET_THIRD: Final = (*MORE_PICTURES, *PICTURES_MADE, *MORE_SEQUENCES, *MORE_RECORDS, *FURTHER)
"""And these after those of the second set."""
MET_FOURTH: Final = (*PATHS, *TRANSLATED, *HEARD, *READ, *RELATED, *TEXTS, *SENSES)
"""And these after those of the third."""
DEVELOPED: Final = (*CLASSIC, *GRAPHS, *GEOMETRIC, *HUGGING, *ONCE_UNSEEN, *MET_SECOND, *MET_THIRD, *MET_FOURTH)
FAMILIES: Final[dict[str, Family]] = {family.name: family for family in (*DEVELOPED, *UNSEEN)}
SPLIT: Final = {family.name: "unseen" if family in UNSEEN else "developed" for family in FAMILIES.values()}
