"""Draws accepted repairs and writes a card of each, for a person who has not seen the remover.

``python -m benchmarks.zoo.cards pairs.jsonl --draw 60 --seed 1 --to cards`` reads a file that ``removal_zoo --into``
wrote. A card has what a person needs to say whether it is what somebody would have written by hand: the part, the
remover's words, the code around it, the modules before and after, how many parameters there are, and how far the output
moves. It has no judgement of ours, and no line to tick.
"""

from __future__ import annotations

import argparse
import copy
import difflib
import inspect
import json
import random
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from benchmarks.zoo.contact import digest
from benchmarks.zoo.counting import RAN, quiet
from benchmarks.zoo.families import FAMILIES, SPLIT
from benchmarks.zoo.family import Inputs
from benchmarks.zoo.oracles import Repaired, run
from benchmarks.zoo.removers import Remover, etude_remove
from benchmarks.zoo.values import floats, within

LINES: Final = 140
"""A longer forward function is cut here."""
AROUND: Final = 4
"""Lines of the module tree that are shown above and below what changed."""


def draw(found: Sequence[Mapping[str, Any]], count: int, seed: int) -> list[Mapping[str, Any]]:
    """Return so many accepted repairs, drawn at random; the same for the same seed, in whatever order they were found.

    Raises:
        SystemExit: There are not so many.
    """
    ran = sorted(
        (one for one in found if one.get("outcome") == RAN and one["part"] != "dead"),
        key=lambda one: (one["family"], one["path"]),
    )
    if len(ran) < count:
        raise SystemExit(f"Only {len(ran)} repairs were accepted; {count} cannot be drawn.")
    return random.Random(seed).sample(ran, count)


def card(one: Mapping[str, Any], remove: Remover = etude_remove) -> str:
    """Return the card of a repair, which is made again for it."""
    family, path = FAMILIES[one["family"]], one["path"]
    before = family.build()
    repaired, rung = remove(copy.deepcopy(before), path, family.example())
    head = [
        f"family      {family.name} ({family.kind}, {SPLIT[family.name]})",
        f"component   layer:{path}  ({one['type']}, {one['part']}{', hard' if one['hard'] else ''})",
        f"rung        {rung}",
        *(f"{'changes' if nth == 0 else '':12}{change}" for nth, change in enumerate(repaired.changes)),
        f"parameters  {size(before):,} before, {size(repaired.model):,} after; "
        f"{size(before.get_submodule(path)):,} in the component",
        f"output      {moved(before, repaired.model, family.example())}",
        f"shapes      {shapes(before, path, family.example())}",
    ]
    return "\n".join([
        *head, "", "--- the module around it, and its own", "", around(before, path), "",
        "--- the modules, before and after", "", tree(before, repaired, path), "",
    ])  # fmt: skip


def size(module: nn.Module) -> int:
    """Return how many parameters there are, shared ones once."""
    return sum(parameter.numel() for parameter in module.parameters())


def moved(before: nn.Module, after: nn.Module, inputs: Inputs) -> str:
    """Say how far outputs are from what they were, over their own size."""
    wanted, found = floats(run(before, inputs)), floats(run(after, inputs))
    shares = {
        where or "output": float((found[where] - one).norm() / one.norm().clamp(min=1e-30))
        for where, one in wanted.items()
        if where in found and found[where].shape == one.shape
    }
    return ", ".join(f"{where} moved by {share:.3g} of its norm" for where, share in shares.items())


def shapes(model: nn.Module, path: str, inputs: Inputs) -> str:
    """Say what the component reads and gives."""
    seen: list[str] = []

    def note(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        read = [tuple(one.shape) for one in floats((args, kwargs)).values()]
        seen.append(f"reads {read or 'no numbers'}, gives {[tuple(one.shape) for one in floats(output).values()]}")

    with model.get_submodule(path).register_forward_hook(note, with_kwargs=True):
        run(model, inputs)
    if not seen:
        return "it is never called itself"
    return seen[0] + (f"; called {len(seen)} times" if len(seen) > 1 else "")


def around(model: nn.Module, path: str) -> str:
    """Return the code of the smallest module around a part, and the part's own if it is no layer of torch.

    A container has none that says anything: it calls what is in it, so the module around that is shown.
    """
    holders = [path.rsplit(".", nth)[0] for nth in range(1, path.count(".") + 1)]
    holder = next((one for one in holders if not is_container(model.get_submodule(one))), "")
    own = [] if type(model.get_submodule(path)).__module__.startswith("torch.nn") else ["", *code(model, path)]
    return "\n".join([*code(model, holder), *own])


def is_container(module: nn.Module) -> bool:
    """Say whether a module has nothing to say of its own."""
    return type(module).__module__.startswith("torch.nn.modules.container")


def code(model: nn.Module, path: str) -> list[str]:
    """Return the forward function of a submodule, with a line above that names it."""
    module = model.get_submodule(path)
    try:
        source = textwrap.dedent(inspect.getsource(type(module).forward)).splitlines()
    except (OSError, TypeError):
        source = ["(there is no source)"]
    rest = [f"... {len(source) - LINES} lines more"] if len(source) > LINES else []
    return [f"# {path or 'the model'}: {type(module).__name__}", *source[:LINES], *rest]


def tree(before: nn.Module, repaired: Repaired, path: str) -> str:
    """Return what differs in the lists of modules, with their sizes; all of a part that went is one line."""
    old, new = listed(before, path), listed(repaired.model, path)
    found = list(difflib.unified_diff(old, new, lineterm="", n=AROUND))[2:]
    return "\n".join(found) or "(the list is the same)"


def listed(model: nn.Module, path: str) -> list[str]:
    """Return a line for each module: its path, class, options and own parameters."""
    return [
        f"{name}: {type(module).__name__}({module.extra_repr()})"
        + "".join(f" {own}{list(one.shape)}" for own, one in module.named_parameters(recurse=False))
        for name, module in model.named_modules()
        if name and (name == path or not within(name, path))
    ]


def main() -> None:
    """Draw repairs, and write a file for each and one that lists them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo.cards", description=__doc__)
    parser.add_argument("file", type=Path, help="what removal_zoo --into wrote")
    parser.add_argument("--draw", type=int, default=60, help="so many (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default: 0)")
    parser.add_argument("--to", type=Path, default=Path("benchmarks/out/cards"), help="a folder for them")
    options = parser.parse_args()
    quiet()
    lines = [json.loads(line) for line in options.file.read_text().splitlines()]
    head = lines[0].get("head", {})
    if head.get("unseen") != digest():
        raise SystemExit(f"{options.file} is of other unseen families ({head.get('unseen')}) than these ({digest()}).")
    drawn = draw(lines, options.draw, options.seed)
    options.to.mkdir(parents=True, exist_ok=True)
    index = [f"{options.draw} of {options.file.name}, seed {options.seed}, commit {head.get('commit')}", ""]
    for nth, one in enumerate(drawn, 1):
        torch.manual_seed(0)
        (options.to / f"{nth:03}.txt").write_text(card(one) + "\n")
        index.append(f"{nth:03} {one['family']} {one['path']}: rung {one['rung']}; {'; '.join(one['told'])}")
        print(index[-1], flush=True)
    (options.to / "index.txt").write_text("\n".join(index) + "\n")


if __name__ == "__main__":
    main()
