"""Blocks become a change of the tree: all of them, or none.

Every block is placed in the untouched files, so their order does not matter, and two that are about the same lines are
refused. What comes out is kept as a diff, since that is what was approved; blocks are how it was said.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import msgspec

from etude.mage.patch.blocks import Author, Block, Patch, Search, Symbol, Whole
from etude.mage.patch.diffs import apply_diff, diff_of, reversed_diff
from etude.mage.patch.elisions import elided
from etude.mage.patch.lines import BOM, File, file_of, fitted, lines_of
from etude.mage.patch.paths import why_outside
from etude.mage.patch.placing import PYTHON, Edit, place_search, place_symbol
from etude.mage.patch.refusals import PatchRefused, refuse
from etude.mage.sources.definitions import definitions, nearest_names, parsed, plain_name
from etude.mage.sources.indenting import flush
from etude.mage.tree import Tree, digest_of
from etude.mage.verdicts import Outcome, Reason, Rung

__all__ = [
    "NOT_PLANNED",
    "PatchRefused",
    "make_patch",
    "make_patch_of_trees",
    "patched",
    "reversed_patch",
    "with_arguments",
]

NOT_PLANNED: Final = "This patch changes {file}, which the plan does not allow. Sent to you, not to the model."


def make_patch(
    tree: Tree,
    blocks: Sequence[Block],
    *,
    author: Author,
    allowed: Collection[str] | None = None,
    lost_ok: Collection[str] = (),
    most_whole: int | None = None,
) -> Patch:
    """Return what blocks make of a tree.

    Args:
        tree: The untouched files.
        blocks: The changes.
        author: Who wrote them.
        allowed: The files that may change; None where that is looked at later, as ``static.check`` does.
        lost_ok: Names of definitions and decorators that may go: those that the plan takes away.
        most_whole: So many lines a file may have that a block holds all of; None for any number.

    Raises:
        PatchRefused: A block cannot be applied, or nothing would change. Nothing was applied.
    """
    if not blocks:
        raise refuse("There is no block, so nothing would change; nothing applied.", claim="a patch changes something")
    _check_allowed(blocks, allowed)
    by_file: dict[str, list[Block]] = {}
    for block in blocks:
        by_file.setdefault(block.file, []).append(block)
    reasons: list[PatchRefused] = []
    changed: dict[str, bytes | None] = {}
    mended: list[str] = []
    for path, own in by_file.items():
        try:
            _check_path(tree, path, by_file)
            _check_whole(tree, path, own, most_whole)
            changed[path], told = _changed(tree, path, own, tuple(lost_ok))
            mended += told
        except PatchRefused as refused:
            reasons.append(refused)
    if reasons:
        raise _together(reasons)
    return _patch_of(tree, tree.with_files(changed), author, blocks=tuple(blocks), mended=tuple(mended))


def make_patch_of_trees(base: Tree, new: Tree, author: Author) -> Patch:
    """Return what leads from one tree to another, as after somebody edited the files by hand.

    Raises:
        PatchRefused: They are equal, a file that changes is no text, or a path cannot be.
    """
    for path in new:
        if path not in base:
            _check_path(base, path, new)
    changed = [path for path in new if base.files.get(path) != new.files[path]]
    blocks = tuple(Whole(file=path, text=_text_of(path, new.files[path])) for path in changed)
    return _patch_of(base, new, author, blocks=blocks)


def with_arguments(patch: Patch, arguments: Sequence[str]) -> Patch:
    """Return a patch whose program is called with arguments besides: to approve it is to approve them."""
    digest = digest_of(msgspec.json.encode([patch.digest, *arguments]))
    return msgspec.structs.replace(patch, arguments=tuple(arguments), digest=digest)


def patched(tree: Tree, patch: Patch) -> Tree:
    """Return what a patch makes of the tree that it was made for.

    Raises:
        PatchRefused: It is another tree, or the patch is damaged.
    """
    if tree.digest != patch.base:
        raise refuse(
            "The patch was made for another tree; nothing applied. Files have changed since.",
            claim="a patch applies to the base that it was made of",
            expected=patch.base,
            found=tree.digest,
        )
    new = apply_diff(tree, patch.diff)
    if new.digest != patch.result:
        raise refuse(
            "The patch does not lead where it led when it was made; nothing applied. It was changed since.",
            claim="a patch leads to one result",
            expected=patch.result,
            found=new.digest,
        )
    return new


def reversed_patch(patch: Patch) -> Patch:
    """Return the patch that leads back."""
    diff = reversed_diff(patch.diff)
    return Patch(base=patch.result, result=patch.base, diff=diff, digest=digest_of(diff.encode()), author=patch.author)


def _patch_of(base: Tree, new: Tree, author: Author, **more: tuple[Block, ...] | tuple[str, ...]) -> Patch:
    diff = diff_of(base, new)
    if not diff:
        raise refuse(
            "The blocks change nothing: the files are as before; nothing applied.",
            claim="a patch changes something",
            expected="a difference",
            found="none",
        )
    assert apply_diff(base, diff).digest == new.digest
    return Patch(
        base=base.digest,
        result=new.digest,
        diff=diff,
        digest=digest_of(diff.encode()),
        author=author,
        **more,  # type: ignore[arg-type]
    )


def _check_allowed(blocks: Iterable[Block], allowed: Collection[str] | None) -> None:
    odd = sorted({block.file for block in blocks if allowed is not None and block.file not in allowed})
    if odd:
        reasons = [
            Reason(
                text=NOT_PLANNED.format(file=file),
                claim="only files of the plan change",
                expected=", ".join(sorted(allowed or ())),
                found=file,
            )
            for file in odd
        ]
        raise PatchRefused(reasons, outcome=Outcome.FOR_A_PERSON)


def _check_path(tree: Tree, path: str, others: Iterable[str]) -> None:
    if path not in tree and (why := why_outside(path, [*tree, *(one for one in others if one != path)])):
        raise refuse(
            f"{path!r} {why}; nothing applied. Files are named as in the list of files.",
            claim="a change stays in the project's folder",
            expected="a path of the project",
            found=path,
        )


def _check_whole(tree: Tree, path: str, blocks: Iterable[Block], most: int | None) -> None:
    """Refuse that a long file is written again: it costs all of its lines, and whatever is copied wrongly."""
    lines = len(lines_of(tree.files[path].decode("utf-8", "replace"))) if path in tree else 0
    if most is not None and lines > most and any(isinstance(block, Whole) for block in blocks):
        python = path.endswith(PYTHON)
        mend = "a `symbol=NAME` block for each definition that changes, and " if python else ""
        raise refuse(
            f"The block for {path} holds all of a file of {lines} lines; nothing applied. Files of more than {most} "
            f"lines are changed in pieces: send {mend}a `search` block with its `replace` for other lines.",
            claim="a long file is changed in pieces",
            expected=f"{most} lines at most",
            found=f"{lines} lines",
        )


def _changed(tree: Tree, path: str, blocks: Sequence[Block], lost_ok: Sequence[str]) -> tuple[bytes, list[str]]:
    """Return a file's new content, and what was tolerated."""
    whole = [block for block in blocks if isinstance(block, Whole)]
    if whole and len(blocks) > 1:
        raise refuse(
            f"There is a block for all of {path} and {len(blocks) - 1} more for it; nothing applied. Send either.",
            claim="no two blocks change the same lines",
            found=f"{len(blocks)} blocks for {path}",
        )
    if whole:
        return _whole(tree, whole[0], lost_ok)
    if path not in tree:
        near = nearest_names(path, list(tree)) or list(tree)[:3]
        raise refuse(
            f"There is no file {path}; nothing applied. Did you mean {' or '.join(near)}?",
            claim="the target exists",
            expected=path,
            found=", ".join(near),
        )
    file = file_of(path, tree.files[path])
    refused: list[PatchRefused] = []
    edits: list[Edit] = []
    for block in blocks:
        assert not isinstance(block, Whole)
        try:
            edits.append(_edit(file, block, lost_ok))
        except PatchRefused as one:
            refused.append(one)
    if refused:
        raise _together(refused)
    edits.sort(key=lambda edit: (edit.first, edit.last))
    _check_apart(file, edits)
    text = file.text
    for edit in reversed(edits):
        text = text[: edit.first] + edit.text + text[edit.last :]
    return file.content(text), [told for edit in edits for told in edit.mended]


def _edit(file: File, block: Symbol | Search, lost_ok: Sequence[str]) -> Edit:
    edit = place_symbol(file, block, lost_ok) if isinstance(block, Symbol) else place_search(file, block)
    old = file.text[edit.first : edit.last]
    _check_elisions(file, block.text, old if isinstance(block, Symbol) else file.text)
    if isinstance(block, Symbol):
        inner = f"{plain_name(block.name)}."
        _check_lost(file.path, _names_in_class(old), _names_in_class(edit.text), lost_ok, lambda name: inner + name)
    return edit


def _whole(tree: Tree, block: Whole, lost_ok: Sequence[str]) -> tuple[bytes, list[str]]:
    text = block.text.removeprefix(BOM)
    if block.file not in tree:
        if "\0" in text:
            raise refuse(f"The block for {block.file} holds a zero byte; nothing applied.", found=block.file)
        return block.text.encode("utf-8"), []
    file = file_of(block.file, tree.files[block.file])
    _check_elisions(file, text, file.text)
    if file.path.endswith(PYTHON):
        _check_lost(file.path, _names(file.text), _names(text), lost_ok, lambda name: name)
    new = file.content(fitted(text, file.lines, file.end))
    return new, [f"{file.path}: line ends"] if new != block.text.encode("utf-8") else []


def _check_elisions(file: File, text: str, base: str) -> None:
    found = elided(_at_left(text), _at_left(base), python=file.path.endswith(PYTHON))
    there = {line.strip() for line in file.lines}
    found = [(line, said) for line, said in found if said == "..." or said not in there]
    if found:
        line, said = found[0]
        raise refuse(
            f"A block for {file.path} leaves code out: line {line} of it is {said!r}; nothing applied. All of a block "
            "counts, so what it leaves out would be gone. Write all of it, or a block for a smaller part.",
            claim="a block leaves nothing out",
            expected="all of the code",
            found=said,
            rung=Rung.REPLY,
        )


def _check_lost(
    path: str, before: Sequence[str], after: Sequence[str], lost_ok: Sequence[str], full: Callable[[str], str]
) -> None:
    if not after and before == []:
        return
    lost = [full(name) for name in before if name not in after]
    lost = [name for name in lost if not any(name == one or name.rpartition(".")[2] == one for one in lost_ok)]
    # What is in a definition that may go, or that is told already, goes with it.
    lost = [name for name in lost if not any(name.startswith(f"{one}.") for one in (*lost, *lost_ok))]
    if lost:
        shown = ", ".join(f"`{name}`" for name in lost)
        raise refuse(
            f"The block for {path} loses {shown}, which the plan does not take away; nothing applied. Write all of it, "
            "or a block for a smaller part.",
            claim="no definition is lost that the plan does not name",
            expected=shown,
            found="not there",
        )


def _names(text: str) -> list[str]:
    try:
        return list(dict.fromkeys(one.name for one in definitions(parsed(text))))
    except SyntaxError:
        return []


def _names_in_class(text: str) -> list[str]:
    """Return the methods and classes in a class, without its own name; of a function nothing."""
    found = _names(_at_left(text))
    body = definitions(parsed(_at_left(text)))[:1] if found else []
    if not body or body[0].kind != "class":
        return []
    return [name.partition(".")[2] for name in found if "." in name]


def _at_left(text: str) -> str:
    """Return a definition at the left edge, where it parses; what cannot be moved as it is."""
    try:
        return flush(text.replace("\r\n", "\n"))
    except SyntaxError:
        return text


def _check_apart(file: File, edits: Sequence[Edit]) -> None:
    for one, other in itertools.pairwise(edits):
        if other.first < one.last or (other.first, other.last) == (one.first, one.last):
            line = file.line_at(other.first)
            raise refuse(
                f"Two blocks change the same lines of {file.path} (line {line}); nothing applied. Send one for both.",
                claim="no two blocks change the same lines",
                found=f"line {line}",
            )


def _text_of(path: str, content: bytes) -> str:
    file_of(path, content)  # refuses what is no text
    return content.decode("utf-8")


def _together(refused: Sequence[PatchRefused]) -> PatchRefused:
    """Return one refusal for all reasons, of the lowest rung."""
    rung = min(one.rung for one in refused)
    return PatchRefused([reason for one in refused for reason in one.reasons], rung=rung)
