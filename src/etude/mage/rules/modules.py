"""Puts an identity in the place of modules that change no shape, where nothing else depends on what they are."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from etude.mage.facts import Facts
from etude.mage.networks.models import Made, Network, networks
from etude.mage.networks.removal import prefixes_of
from etude.mage.networks.roles import Role, changes_nothing_again, is_over_all
from etude.mage.networks.sizes import keeps_extent, shapes_of
from etude.mage.patch.blocks import Search
from etude.mage.patch.editing import Edit, searches
from etude.mage.sources.source import Source, read_source, sources
from etude.mage.tree import Tree
from etude.mage.variants import Variant, What
from etude.mage.witnesses import ModuleGone

PRESERVING: Final = (Role.ACTIVATION, Role.DROPOUT, Role.NORM)


def without_modules(
    variant: Variant, claims: Sequence[ModuleGone], tree: Tree, facts: Facts | None
) -> tuple[Search, ...] | None:
    """Return the changes after which modules do nothing; None if one of them changes shapes, or is looked into.

    Args:
        variant: The variant.
        claims: What is to be gone.
        tree: The project's files.
        facts: What was seen of the untouched program.
    """
    if any(claim.resized or not claim.others_stay for claim in claims):
        return None
    every = networks(tree)
    made = _made(claims, every, facts)
    if made is None or any(
        thing.what is What.MODULE and thing.name not in {m.name for _, m in made} for thing in variant.things
    ):
        return None
    edits: dict[str, list[Edit]] = {}
    for network, one in made:
        source = read_source(tree, one.file)
        identity = _identity(source, one)
        if (
            not identity
            or _looked_into(one, tree)
            or not _preserves(network, one, [m.name for _, m in made], every, facts)
        ):
            return None
        start = source.place(one.call.lineno, one.call.col_offset)
        end = source.place(one.call.end_lineno or 0, one.call.end_col_offset or 0)
        if any(one.call.lineno <= comment.line < (one.call.end_lineno or 0) for comment in source.comments):
            return None  # a comment inside, which is not ours to take
        edits.setdefault(one.file, []).append(Edit(start, end, f"{identity}()"))
    found: list[Search] = []
    for file, places in edits.items():
        blocks = searches(file, read_source(tree, file).text, places)
        if blocks is None:
            return None
        found += blocks
    return tuple(found) or None


def _made(
    claims: Sequence[ModuleGone], every: Sequence[Network], facts: Facts | None
) -> list[tuple[Network, Made]] | None:
    """Return what makes the modules of some claims; None if that is not all there is at these places."""
    paths = {claim.path for claim in claims}
    found: list[tuple[Network, Made]] = []
    covered: set[str] = set()
    for network in every:
        prefixes = prefixes_of(network, every, facts)
        for one in network.made:
            here = {f"{prefix}{one.name}" for prefix in prefixes}
            if here & paths:
                if not here <= paths or [m.name for m in network.made].count(one.name) > 1:
                    return None  # the class makes others, too, or makes it in two ways
                found.append((network, one))
                covered |= here
    return found if covered == paths and len(found) == len({id(one) for _, one in found}) else None


def _identity(source: Source, made: Made) -> str:
    """Return how an identity is called in a source; empty if it has no name there, or the module is none of torch's."""
    dotted = source.dotted(made.call.func)
    if not dotted.startswith("torch.nn.") or dotted.count(".") != 2:  # noqa: PLR2004 - torch.nn.Name
        return ""
    prefix, dot, _ = ast.unparse(made.call.func).rpartition(".")
    if dot:
        return f"{prefix}.Identity"
    for name, meaning in source.imports.items():
        if meaning == "torch.nn.Identity":
            return name
        if meaning == "torch.nn":
            return f"{name}.Identity"
    return "torch.nn.Identity" if source.imports.get("torch") == "torch" else ""


def _looked_into(made: Made, tree: Tree) -> bool:
    """Say whether something uses what the module has, such as ``self.fc.weight``."""
    last = made.name.rpartition(".")[2]
    if last.isdigit():
        return False
    for source in sources(tree):
        for node in ast.walk(source.module) if source.module is not None else ():
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.value.attr == last:
                return True
    return False


def _preserves(
    network: Network, made: Made, gone: Sequence[str], every: Sequence[Network], facts: Facts | None
) -> bool:
    if made.role in PRESERVING:
        return True
    if made.role is not Role.LAYER or made.type not in ("Linear", "Conv1d", "Conv2d", "Conv3d") or network.flow is None:
        return False
    shapes = shapes_of(network.flow, prefixes_of(network, every, facts)[0], facts).get(made.name, {})
    matrices = [shape for shape in shapes.values() if len(shape) > 1]
    if not matrices or any(shape[0] != shape[1] for shape in matrices):
        return False
    if made.type != "Linear" and not keeps_extent(made):
        return False
    return _flows_on(network, made, gone)


def _flows_on(network: Network, made: Made, gone: Sequence[str]) -> bool:
    """Say whether what is behind a layer may stay: an activation there has to be the one that is before it, too."""
    flow = network.flow or ()
    at = [n for n, step in enumerate(flow) if step.name == made.name]
    if len(at) != 1:
        return False
    behind = []
    for step in flow[at[0] + 1 :]:
        if step.role is Role.LAYER:
            break
        if step.role is Role.POOL and not is_over_all(step.kind):
            return False  # whether it goes is another question
        if step.role is Role.ACTIVATION and step.name not in gone:
            behind.append(step.kind)
    before = next((step.kind for step in reversed(flow[: at[0]]) if step.role in (Role.ACTIVATION, Role.LAYER)), "")
    return all(changes_nothing_again(one, before) for one in behind)
