"""Variants as source that runs by itself: complete, with what changed and how to run it, and without Étude."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from etude.core.errors import ConfigError
from etude.core.text import count
from etude.mage.handover.components import Accepted
from etude.mage.handover.travelling import Files
from etude.mage.sources.entry import experiment_of
from etude.mage.tree import Tree

BASE: Final = "base"
VARIANTS: Final = "variants"
README: Final = "README.md"
ONE: Final = "ablation.py"
ALONE: Final = "run_alone.py"


def export(
    accepted: Sequence[Accepted],
    *,
    entry: str,
    base: Tree,
    root: Path,
    into: Path,
    one: bool = False,
    intents: Mapping[str, str] | None = None,
) -> Path:
    """Write variants out, and return the folder.

    Args:
        accepted: The variants.
        entry: How the project is run: a command with ``{seed}``, or ``script.py:experiment``.
        base: The project's tree.
        root: The project's folder: data beside the sources is linked from there.
        into: A folder that is made, or is empty.
        one: Write one script, ``ablation.py --variant NAME``, beside the base and what each variant changes in it;
            otherwise each variant is written whole.
        intents: What each variant is, in a sentence.

    Raises:
        ConfigError: The folder has something in it, or a variant is of another base.
    """
    if into.exists() and any(into.iterdir()):
        raise ConfigError(f"{into} is not empty, and nothing there is written over. Give a folder that is new.")
    for variant in accepted:
        if variant.patch.base != base.digest or variant.patch.result != variant.tree.digest:
            raise ConfigError(f"{variant.name!r} is a patch of other files than these. Check its variants again.")
    into.mkdir(parents=True, exist_ok=True)
    Files.of(base, root=root).lay(into / BASE)
    for variant in accepted:
        place = into / VARIANTS / variant.name
        if one:
            for path in changed(base, variant.tree):
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).write_bytes(variant.tree.files[path])
        else:
            Files.of(variant.tree, root=root).lay(place)
        place.mkdir(parents=True, exist_ok=True)
        (place / "patch.diff").write_text(variant.patch.diff, encoding="utf-8", newline="")
    is_command = experiment_of(entry) is None
    if one:
        (into / ONE).write_text(_script(accepted, entry, is_command=is_command), encoding="utf-8")
    if not is_command:
        text = resources.files("etude.mage.handover").joinpath("run_alone.txt").read_text(encoding="utf-8")
        (into / ALONE).write_text(text, encoding="utf-8")
    told = _told(accepted, entry, base, one=one, intents=intents or {}, is_command=is_command)
    (into / README).write_text(told, encoding="utf-8")
    return into


def changed(base: Tree, tree: Tree) -> list[str]:
    """Return the files that a tree has otherwise than the base, or alone."""
    return [path for path in tree if base.files.get(path) != tree.files[path]]


def _script(accepted: Sequence[Accepted], entry: str, *, is_command: bool) -> str:
    command = shlex.split(entry) if is_command else ["python", f"../../{ALONE}", entry, "--seed", "{seed}"]
    table = {one.name: list(one.patch.arguments) for one in accepted}
    return _ONE_SCRIPT.replace("COMMAND = []", f"COMMAND = {json.dumps(command)}").replace(
        "VARIANTS = {}", f"VARIANTS = {json.dumps(table, indent=4)}"
    )


_ONE_SCRIPT: Final = '''\
"""Runs one variant of an ablation: python ablation.py --variant NAME --seed SEED, or base for the untouched program.

What a variant changes lies in variants/NAME, and takes the place of those files of base in runs/NAME-SEED.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMMAND = []
VARIANTS = {}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=["base", *VARIANTS], required=True)
    parser.add_argument("--seed", type=int, default=0)
    args, more = parser.parse_known_args()
    folder = HERE / "runs" / f"{args.variant}-{args.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE / "base", folder, symlinks=True)
    if args.variant != "base":
        ignore = shutil.ignore_patterns("patch.diff")
        shutil.copytree(HERE / "variants" / args.variant, folder, dirs_exist_ok=True, ignore=ignore)
    words = [word.replace("{seed}", str(args.seed)) for word in COMMAND]
    words += [*VARIANTS.get(args.variant, []), *more]
    if words[0] in ("python", "python3"):
        words[0] = sys.executable
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return subprocess.run(words, cwd=folder, env={**os.environ, "PYTHONPATH": path}).returncode


if __name__ == "__main__":
    sys.exit(main())
'''


def _told(
    accepted: Sequence[Accepted],
    entry: str,
    base: Tree,
    *,
    one: bool,
    intents: Mapping[str, str],
    is_command: bool,
) -> str:
    lines = [
        f"# {count(len(accepted), 'variant')} of a program",
        "",
        "`base` is the untouched program. Nothing here needs Étude. Data beside the sources is linked, not copied: "
        "copy it before you move this folder.",
        "",
        "## How to run",
        "",
    ]
    if one:
        lines += ["```sh", f"python {ONE} --variant base --seed 0"]
        lines += [f"python {ONE} --variant {variant.name} --seed 0" for variant in accepted]
    else:
        lines += ["```sh", *(_run_line(name, entry, more, is_command=is_command) for name, more in _folders(accepted))]
    lines += ["```", "", "Run each with several seeds, the same ones for all, and compare what they come to.", ""]
    if not is_command:
        lines += [
            f"The program is written for Étude. `{ALONE}` runs its training function without it: one run, one seed, "
            "nothing else of what Étude does. Streams of random numbers are then other ones.",
            "",
        ]
    lines += ["## What changed", ""]
    for variant in accepted:
        files = ", ".join(f"`{path}`" for path in changed(base, variant.tree))
        intent = f" {intents[variant.name]}" if variant.name in intents else ""
        pairs = f" {variant.pairing.text}" if variant.pairing is not None else ""
        more = f" It is run with `{shlex.join(variant.patch.arguments)}`." if variant.patch.arguments else ""
        lines += [
            f"### {variant.name}",
            "",
            f"{intent.strip() or 'A variant.'} Changed: {files} (`{VARIANTS}/{variant.name}/patch.diff`).{more} "
            f"Written by {variant.patch.author.name}.{pairs}",
            "",
            "```diff",
            variant.patch.diff.rstrip("\n"),
            "```",
            "",
        ]
    return "\n".join(lines)


def _folders(accepted: Sequence[Accepted]) -> list[tuple[str, tuple[str, ...]]]:
    return [(BASE, ()), *((f"{VARIANTS}/{one.name}", one.patch.arguments) for one in accepted)]


def _run_line(folder: str, entry: str, more: tuple[str, ...], *, is_command: bool) -> str:
    if not is_command:
        return f"(cd {shlex.quote(folder)} && python {'../' * (folder.count('/') + 1)}{ALONE} {entry} --seed 0)"
    words = [word.replace("{seed}", "0") for word in shlex.split(entry)]
    return f"(cd {shlex.quote(folder)} && {shlex.join([*words, *more])})"
