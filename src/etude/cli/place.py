"""Where the script of a study is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etude.core.errors import ConfigError


def find_script(meta: Mapping[str, Any], folder: Path, *, command: str, instead: str) -> tuple[str, Path]:
    """Return where a study's experiment is, and the folder from which that path was written down.

    Args:
        meta: What the journal says about the study.
        folder: The study's folder.
        command: Who asks, for messages.
        instead: What to do where no file holds the experiment.

    Raises:
        ConfigError: No file holds it, or the file is gone.
    """
    place = meta.get("experiment")
    if place is None:
        raise ConfigError(
            f"Study {folder.name} was started where no file holds its experiment, such as a notebook. {instead}"
        )
    file = place.rpartition(":")[0]
    for base in (folder / meta.get("cwd", "."), Path.cwd(), *folder.parents):
        if (base / file).is_file():
            return place, base
    raise ConfigError(
        f"The experiment of study {folder.name} was in {file}, which is neither here nor above {folder}. "
        f"Call `etude {command}` from the folder in which the study was started."
    )
