"""Where an interpreter and its packages lie: what a sandbox has to let a program read."""

from __future__ import annotations

import json
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Final

from etude.core.errors import ConfigError

LIMIT_S: Final = 60.0
ASK: Final = (
    "import json, os, sys; "
    "print(json.dumps([sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), *sys.path]))"
)


@lru_cache(maxsize=8)
def files_of(interpreter: str, path: str = "") -> tuple[Path, ...]:
    """Return the folders and files of an interpreter and of all that it can import.

    Args:
        interpreter: The program.
        path: Our PYTHONPATH, which it has, too.

    Raises:
        ConfigError: It is no Python that runs.
    """
    try:
        asked = subprocess.run([interpreter, "-c", ASK], capture_output=True, text=True, timeout=LIMIT_S, check=True)
        prefix, base, program, *path = json.loads(asked.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise ConfigError(f"{interpreter} is no Python that runs: {error}. Name another interpreter.") from None
    launcher = Path(interpreter)
    folders = [prefix, base, str(Path(program).parent), *path]
    if launcher.is_absolute() and not launcher.is_relative_to(prefix):
        folders.append(str(launcher.parent))
    found = {Path(folder) for folder in folders if folder}
    # a path with the user's home on it would open all of it
    return tuple(sorted(one for one in found if one.exists() and not Path.home().is_relative_to(one)))
