"""Executes the notebooks here, each by a kernel of its own, and writes them back with their outputs.

    python examples/notebooks/execute.py                    # all
    python examples/notebooks/execute.py 1-tune 2-ablate    # some

`make notebooks` does it. They run in an empty folder. What would differ with the next run for no reason that a reader
wants to know of is taken out: folders of this machine, durations, versions, when a cell was executed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient

HERE: Final = Path(__file__).resolve().parent
LIMIT_S: Final = 900.0
"""No cell takes longer, however busy a machine is."""

DURATION: Final = r"(?:\d+ h )?(?:\d+ min )?\d[\d.]*(?:e[-+]\d+)? (?:s|min)\b"
NOISE: Final = (
    (re.compile(rf"elapsed {DURATION}(?:, time left {DURATION}(?: - {DURATION})?)? *"), "elapsed …"),
    (re.compile(r"^(took +)model .*$", re.MULTILINE), r"\1…"),  # of a check
    (re.compile(r"\b0x[0-9a-f]{6,}"), "0x…"),
)
"""What differs from run to run -> what stands in its place."""

KERNEL: Final = {"display_name": "Python 3", "language": "python", "name": "python3"}


def notebooks(names: list[str] | None = None) -> list[Path]:
    """Return the notebooks here in their order, or those of these names."""
    return [HERE / f"{name.removesuffix('.ipynb')}.ipynb" for name in names or []] or sorted(HERE.glob("*.ipynb"))


def executed(path: Path, *, folder: Path, environment: dict[str, str] | None = None) -> Any:
    """Return a notebook with the outputs that its cells have now.

    Args:
        path: The notebook, which is not changed.
        folder: Where it runs, and keeps its studies.
        environment: Variables that its kernel has beside those of this process.

    Raises:
        CellExecutionError: A cell raised.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=LIMIT_S,
        record_timing=False,
        extra_arguments=["--log-level=ERROR"],  # it warns that it is spoken to without encryption, on this machine
        resources={"metadata": {"path": str(folder)}},
    )
    variables = {**os.environ, "ETUDE_STUDIES": "etude-studies", **(environment or {})}
    variables.pop("ETUDE_PROGRESS", None)  # who reads it wants to see what it looks like
    asyncio.run(client.async_execute(env=variables))  # in a loop that is closed then
    return notebook


def settle(notebook: Any, folder: Path) -> None:
    """Take out of a notebook what would differ with the next run.

    Args:
        notebook: It is changed.
        folder: Where it was run.
    """
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    for cell in notebook.cells:
        for holder, key in _texts(cell.get("outputs", [])):
            holder[key] = settled(holder[key], folder)


def settled(text: str, folder: Path) -> str:
    """Return what a cell printed or showed, without what would differ with the next run."""
    text = text.replace(f"{folder.resolve()}/", "").replace(f"{folder}/", "")
    for noise, instead in NOISE:
        text = noise.sub(instead, text)
    return text


def _texts(outputs: list[Any]) -> Iterator[tuple[Any, str]]:
    """Yield where texts of outputs are."""
    for output in outputs:
        if "text" in output:
            yield output, "text"
        for kind in output.get("data", {}):
            if kind.startswith("text/"):
                yield output["data"], kind


def main() -> None:
    """Execute those that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="notebooks, such as 1-tune; all, if left out")
    for path in notebooks(parser.parse_args().names):
        with tempfile.TemporaryDirectory(prefix="etude-notebook-") as folder:
            notebook = executed(path, folder=Path(folder))
            settle(notebook, Path(folder))
        nbformat.write(notebook, path)
        print(path.name)


if __name__ == "__main__":
    main()
