"""Draws which model types of transformers come next, so that no hand chooses them.

``python -m benchmarks.zoo.drawing`` prints, for each task, the types that no developed family is made of, in a drawn
order. Whoever writes unseen families takes them from the front of each line, and passes over those that do not build
from a configuration alone, or whose layers another family has already.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any, Final

SEED: Final = 20261123
TASKS: Final = (
    "CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", "IMAGE_CLASSIFICATION", "OBJECT_DETECTION",
    "UNIVERSAL_SEGMENTATION", "SEMANTIC_SEGMENTATION", "DEPTH_ESTIMATION", "KEYPOINT_DETECTION", "CTC",
    "AUDIO_CLASSIFICATION", "SPEECH_SEQ_2_SEQ", "TEXT_TO_WAVEFORM", "VIDEO_CLASSIFICATION", "IMAGE_TEXT_TO_TEXT",
    "ZERO_SHOT_IMAGE_CLASSIFICATION", "TABLE_QUESTION_ANSWERING", "TIME_SERIES_PREDICTION",
)  # fmt: skip
"""Tasks as transformers calls its lists of models."""


def used(folder: Path = Path(__file__).parent) -> set[str]:
    """Return names of configurations that developed families are made of."""
    developed = [file for file in folder.glob("*.py") if not file.name.startswith("unseen")]
    return {name for file in developed for name in re.findall(r'"(\w+Config)"', file.read_text())}


def left(task: str) -> list[str]:
    """Return model types with a head for a task, of which there is no developed family, in a drawn order."""
    from transformers.models.auto import configuration_auto, modeling_auto

    heads: Any = getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES")
    configurations, known = configuration_auto.CONFIG_MAPPING_NAMES, used()
    types = sorted(name for name in heads if configurations.get(name, "") not in known)
    return random.Random(f"{SEED} {task}").sample(types, len(types))


def main() -> None:
    """Print the draw."""
    for task in TASKS:
        print(f"{task}: {', '.join(left(task))}")


if __name__ == "__main__":
    main()
