"""Makes a plan of marks and hints: what each variant is, how that is meant, and by what it is known to be done.

Nothing here asks a model, runs the program, or changes a file. A plan is a value that a person can read (``told``),
choose in (``choices``), and approve.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from etude.core.errors import ConfigError
from etude.mage.annotations import Annotation, Mark, Remark
from etude.mage.claiming import claimed
from etude.mage.facts import Facts
from etude.mage.near import listed, nearest
from etude.mage.networks.removal import Count
from etude.mage.plan.hinted import variants_of_hint
from etude.mage.plan.marking import contradiction
from etude.mage.plan.pairs import name_of, unique
from etude.mage.plan.statements import component_of
from etude.mage.plan.things import Project, intent_of, look_at
from etude.mage.rules.writing import write
from etude.mage.sources.entry import entry_file
from etude.mage.sources.options import ITEM
from etude.mage.tree import Tree
from etude.mage.variants import Plan, Route, Variant

NOTHING_MARKED = (
    "nothing is marked: there is no #ABLATABLE_COMPONENT and no #ABLATION_HINT_START in {files}, so it is not known "
    "what is to be removed. Mark it, or run `etude mage suggest` to see what could be."
)


def plan(
    tree: Tree,
    entry: str,
    annotations: Sequence[Annotation],
    *,
    columns: Sequence[str] = (),
    facts: Facts | None = None,
    choices: Mapping[str, str] | None = None,
    count: Count | None = None,
) -> Plan:
    """Return what is wanted of a project.

    Args:
        tree: Its files.
        entry: How it is run.
        annotations: Its marks.
        columns: The columns of its data, where they are known otherwise than by ``facts``.
        facts: What was seen of it untouched. With them shapes and parameters can be told beforehand.
        choices: Component -> what goes along with it, as after ``with=``; ``none`` for nothing.
        count: Counts the parameters that a way to read a removal leads to; None for reasoning over ``facts``.

    Raises:
        ConfigError: Nothing is marked, marks contradict each other, the entry's file is not there, or a choice names
            nothing.
    """
    entry_file(entry, tree)
    if not annotations:
        python = [path for path in tree if path.endswith(".py")]
        raise ConfigError(NOTHING_MARKED.format(files=f"{len(python)} Python file{'' if len(python) == 1 else 's'}"))
    _refuse_contradictions(annotations)
    project = look_at(tree, entry=entry, columns=columns, facts=facts, counter=count)
    chosen = {name: tuple(ITEM.findall(text)) for name, text in (choices or {}).items()}
    marked = [one for one in annotations if one.mark is Mark.COMPONENT]
    variants: list[Variant] = []
    remarks: list[Remark] = []
    for annotation in annotations:
        if annotation.mark is Mark.COMPONENT:
            found, said = _component(project, annotation, chosen, marked)
        else:
            found, said = variants_of_hint(project, annotation, choices or {})
        known = {_key(one) for one in variants}
        variants += [one for one in found if _key(one) not in known]
        remarks += said
    check_choices(chosen, variants, [name for one in marked for name in one.names])
    written = [routed(one, tree, facts) for one in unique(variants)]
    return Plan(base=tree.digest, entry=entry, variants=tuple(written), remarks=tuple(remarks))


def plan_of_marks(
    tree: Tree,
    entry: str,
    annotations: Sequence[Annotation],
    *,
    columns: Sequence[str] = (),
    facts: Facts | None = None,
    choices: Mapping[str, str] | None = None,
) -> Plan:
    """Return what marked components alone ask for, which may be nothing; arguments are those of ``plan``."""
    marked = [one for one in annotations if one.mark is Mark.COMPONENT]
    if not marked:
        return Plan(base=tree.digest, entry=entry)
    named = {name for one in marked for name in one.every_name}
    chosen = {name: reading for name, reading in (choices or {}).items() if name in named}
    return plan(tree, entry, marked, columns=columns, facts=facts, choices=chosen)


def told(plan: Plan) -> str:
    """Return a plan for a person to read: each variant, what it means, and by what it is known to be done."""
    n = len(plan.variants)
    lines = [f"{n} variant{'' if n == 1 else 's'} of {plan.entry} (base {plan.base[:12]})"]
    for one in plan.variants:
        lines += ["", f"{one.name}: {one.intent}"]
        if one.quote:
            lines.append(f"  asked for by   {one.quote}")
        for thing in one.things:
            where = f"{thing.declared[0]}, line {thing.declared[1]}"
            used = [str(line) for file, line in thing.used if file == thing.declared[0]]
            also = f"; used in line{'' if len(used) == 1 else 's'} {', '.join(used[:6])}" if used else ""
            lines.append(f"  {thing.what.value:<14} {thing.name} ({where}{also})")
        if one.meaning:
            lines.append(f"  meant          {one.meaning}")
        lines += [f"  known by       {claimed(claim)}" for claim in one.witnesses]
        lines += [f"  may be         {way}" for way in one.unclear]
        if one.unclear:
            lines.append("  not written    until it is chosen")
        else:
            writer = WRITERS[one.route].format(shares=one.shares, arguments=shlex.join(one.arguments))
            lines.append(f"  written by     {writer}; may change {', '.join(one.files) or 'nothing'}")
    if plan.remarks:
        lines += ["", "To know:"]
        lines += [f"  {remark}" for remark in plan.remarks]
    return "\n".join(lines) + "\n"


WRITERS = {
    Route.RULE: "a rule, without any model",
    Route.MODEL: "a language model, a program or a person",
    Route.SHARED: "nobody: it is {shares}, called with {arguments}",
    Route.PERSON: "a person",
}


def _component(
    project: Project,
    annotation: Annotation,
    chosen: Mapping[str, tuple[str, ...]],
    marked: Sequence[Annotation],
) -> tuple[list[Variant], list[Remark]]:
    """Return the variant of a mark, and what its author should know.

    Args:
        project: The project.
        annotation: The mark.
        chosen: Component -> what goes along, as was said since.
        marked: All that is marked, which ``with=`` may call as its mark does.
    """
    beside = [one for one in marked if (one.file, one.scope) == (annotation.file, annotation.scope)]
    labels = {name: one.marked for one in beside for name in one.names}
    said = annotation.along or tuple(one for name in annotation.every_name for one in chosen.get(name, ()))
    along = tuple(name for one in said for name in labels.get(one) or (one,))
    found = component_of(project, annotation, along)
    if found.wrong:
        return [], [Remark(file=annotation.file, line=annotation.lines[0], text=f"{found.wrong} Nothing was planned.")]
    remarks = []
    if found.question:
        remarks.append(Remark(file=annotation.file, line=annotation.lines[0], text=found.question))
    told = [thing.name for thing in found.things]
    variant = Variant(
        name=name_of(told if set(told) & set(annotation.names) else annotation.names),
        intent=intent_of(told, found.things),
        things=found.things,
        meaning=found.meaning,
        files=found.files,
        witnesses=found.witnesses,
        unclear=found.unclear,
        settings=dict(found.settings),
    )
    return [variant], remarks


def routed(variant: Variant, tree: Tree, facts: Facts | None) -> Variant:
    """Return a variant with who writes it: a rule where one is sure, else somebody who understands code."""
    by_rule = not variant.unclear and write(variant, tree, facts) is not None
    return msgspec.structs.replace(variant, route=Route.RULE if by_rule else Route.MODEL)


def _key(variant: Variant) -> object:
    things = tuple(sorted((thing.name, thing.what.value) for thing in variant.things))
    return things, msgspec.json.encode(variant.witnesses), variant.unclear


def _refuse_contradictions(annotations: Sequence[Annotation]) -> None:
    first: dict[tuple[str, str, str], Annotation] = {}
    for one in annotations:
        if one.mark is not Mark.COMPONENT:
            continue
        for name in one.names:
            other = first.setdefault((one.file, one.scope, name), one)
            if other.along != one.along:
                raise ConfigError(f"{one.file}: {contradiction(name, other, one)}")


def check_choices(chosen: Iterable[str], variants: Sequence[Variant], labels: Iterable[str] = ()) -> None:
    """Refuse a choice for a component that no variant is about.

    Args:
        chosen: What was chosen for.
        variants: What is planned.
        labels: What components are called besides.

    Raises:
        ConfigError: There is one; the message names the nearest component.
    """
    known = list(dict.fromkeys([*(thing.name for one in variants for thing in one.things), *labels]))
    for name in chosen:
        if name not in known:
            near = nearest(name, known)
            mend = f"Did you mean {listed(near)}?" if near else f"There are {listed(known) or 'none'}."
            raise ConfigError(f"A choice was made for {name!r}, which is no component of this plan. {mend}")
