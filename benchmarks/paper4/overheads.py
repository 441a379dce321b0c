"""What recording and assigning cost in the paper, beside what they cost here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from benchmarks.writing import paragraph, table

TABLE_6: Final = {"tracking_s": (0.979, 1.052, 1.407), "repartition_s": (2.456, 2.643, 5.213)}
"""Seconds in table 6 of the paper, the least, the average and the most of 36 settings."""

TOLD: Final = {
    "tracking_s": "recording (paper: importance tracking overhead), each epoch",
    "repartition_s": "assigning (paper: heuristic overhead), each interval",
}
OURS: Final = "étude stripes"


def beside(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rows of table 6 with those that were measured here."""
    median = {row["name"]: row["median"] for row in result["rows"]}
    rows = [
        (TOLD[what], *(f"{seconds:.3f}" for seconds in paper), f"{median[f'{OURS}: {what}']:.4f}")
        for what, paper in TABLE_6.items()
        if f"{OURS}: {what}" in median
    ]
    yield paragraph(
        "Beside table 6 of the paper, which has 50,000 examples and 4 workers too. There an epoch was one of",
        "ResNet-18 on GPUs, with a second forward pass, and what workers saw went through files; here it is",
        "this machine's CPU, and the network between ranks is left out. So the rows say of what order these",
        "costs are, and no more.",
    )
    yield table(("seconds", "paper, least", "paper, average", "paper, most", "here, stripes"), rows)
