"""Small stand-ins for what the loop works with: a program that tells its own layers, and replies that are JSON.

The program really runs, in a process of its own, and the real judge judges it.
"""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from etude.core.clock import VirtualClock
from etude.core.errors import BackendError, EtudeError
from etude.mage.asking.asker import Asker
from etude.mage.asking.budget import Budget, Spent
from etude.mage.backends.protocol import Reply, Request, StopReason, Usage
from etude.mage.facts import Ended, Facts, ModelFacts, ModuleFacts, ParameterFacts
from etude.mage.judge.baseline import compare_runs
from etude.mage.judge.judging import judge, judge_first_step
from etude.mage.loop.book import Answers, Book, Did, Setup
from etude.mage.loop.machine import Tries
from etude.mage.loop.session import writing
from etude.mage.loop.work import Tools, Work
from etude.mage.patch.blocks import Author, Block, Patch, Search, Whole
from etude.mage.tree import Tree, digest_of
from etude.mage.variants import Plan, Route, Thing, Variant, What
from etude.mage.verdicts import Outcome, Reason, Rung, Verdict
from etude.mage.witnesses import ModuleGone

TRAIN = """\
import json

layers = {"conv1.weight": [4, 1]}
layers["conv2.weight"] = [4, 4]  # ABLATABLE_COMPONENT
layers["conv3.weight"] = [4, 4]
layers["fc.weight"] = [2, 4]
noise = 0.0
print(json.dumps({"layers": layers, "loss": 0.5 + noise}))
"""
CONV2 = 'layers["conv2.weight"] = [4, 4]  # ABLATABLE_COMPONENT\n'
CONV3 = 'layers["conv3.weight"] = [4, 4]\n'
TREE = Tree({"train.py": TRAIN.encode(), "evaluate.py": b"METRIC = 'accuracy'\n", "notes.md": b"# notes\n"})
ENTRY = "python train.py --seed {seed}"


def variant(name: str, route: Route = Route.MODEL) -> Variant:
    """Return a variant that goes without a layer, such as ``without-conv2``."""
    layer = name.removeprefix("without-")
    return Variant(
        name=name,
        intent=f"{layer} is removed",
        things=(Thing(name=layer, what=What.MODULE, declared=("train.py", 4)),),
        files=("train.py",),
        witnesses=(ModuleGone(path=layer),),
        route=route,
    )


def plan(*names: str, route: Route = Route.MODEL) -> Plan:
    """Return a plan of variants of that name."""
    return Plan(base=TREE.digest, entry=ENTRY, variants=tuple(variant(name, route) for name in names))


def removing(line: str, instead: str = "", file: str = "train.py") -> str:
    """Return a reply that puts something in the place of a line."""
    return json.dumps([{"kind": "search", "file": file, "search": line, "text": instead}])


GOOD = removing(CONV2)
BROKEN = removing(CONV2, "raise NameError('conv2 of size 512 is missing')\n")
KEPT = removing(CONV2, 'layers["conv2.weight"] = [4, 4]  # gone\n')
EVALUATION = removing("METRIC = 'accuracy'\n", "METRIC = 1.0\n", file="evaluate.py")


class Refused(EtudeError):
    """A reply or a patch that cannot be."""

    def __init__(self, *texts: str) -> None:
        super().__init__("; ".join(texts))
        self.reasons = tuple(Reason(text=text) for text in texts)


@dataclass
class Read:
    """What a reply says."""

    blocks: tuple[Block, ...] = ()
    cannot: str | None = None


def read_reply(text: str, *, cut_off: bool = False, most_tokens: int = 0) -> Read:
    """Read JSON as blocks."""
    if cut_off:
        raise Refused(f"Reply cut off at {most_tokens:,} output tokens; nothing applied. Asking for fewer blocks.")
    if text.startswith("CANNOT:"):
        return Read(cannot=text.removeprefix("CANNOT:").strip())
    try:
        return Read(msgspec.json.decode(text, type=tuple[Search | Whole, ...]))
    except msgspec.DecodeError:
        raise Refused("The reply has no block.") from None


def make_patch(
    tree: Tree, blocks: Sequence[Block], *, author: Author, lost_ok: Sequence[str] = (), most_whole: int | None = None
) -> Patch:
    """Apply blocks, all or none."""
    new = tree
    for block in blocks:
        assert isinstance(block, Search)
        text = new.text(block.file)
        if (found := text.count(block.search)) != 1:
            raise Refused(f"Search text found {found} times in {block.file}; nothing applied.")
        new = new.with_files({block.file: text.replace(block.search, block.text).encode()})
    return msgspec.structs.replace(patch_of_trees(tree, new, author), blocks=tuple(blocks))


def patch_of_trees(base: Tree, new: Tree, author: Author) -> Patch:
    """Return what leads from one tree to another."""
    lines: list[str] = []
    for path in sorted({*base, *new}):
        before, after = (one.files.get(path, b"").decode() for one in (base, new))
        lines += difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{path}", f"b/{path}")
    if not lines:
        raise Refused("Nothing was changed.")
    blocks = tuple(Whole(file=path, text=new.text(path)) for path in new if base.files.get(path) != new.files[path])
    diff = "".join(lines)
    return Patch(
        base=base.digest, result=new.digest, diff=diff, digest=digest_of(diff.encode()), author=author, blocks=blocks
    )


def patched(tree: Tree, patch: Patch) -> Tree:
    """Apply a patch."""
    for block in patch.blocks:
        if isinstance(block, Whole):
            tree = tree.with_files({block.file: block.text.encode()})
        else:
            assert isinstance(block, Search)
            tree = tree.with_files({block.file: tree.text(block.file).replace(block.search, block.text).encode()})
    return tree


def check(tree: Tree, patch: Patch, wanted: Variant) -> tuple[Verdict, ...]:
    """Let the files that the plan does not name be for a person."""
    odd = [path for path in patch.files if path not in wanted.files]
    reasons = tuple(
        Reason(text=f"This patch changes {path}, which the plan does not allow. Sent to you, not to the model.")
        for path in odd
    )
    outcome = Outcome.FOR_A_PERSON if odd else Outcome.PASSED
    parse = Verdict(rung=Rung.PARSE, outcome=Outcome.PASSED, patch=patch.digest)
    return (parse, Verdict(rung=Rung.POLICY, outcome=outcome, reasons=reasons, patch=patch.digest))


def probe(tree: Tree, arguments: Sequence[str] = ()) -> Facts:
    """Run the program, and return what it says of itself."""
    with tempfile.TemporaryDirectory() as place:
        for path, content in tree.files.items():
            Path(place, path).write_bytes(content)
        command = [sys.executable, "-S", "train.py", *arguments]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        error, _, message = done.stderr.strip().rpartition("\n")[2].partition(": ")
        return Facts(
            ended=Ended(
                code=1,
                why="raised",
                error=error,
                message=message,
                frame="train.py, line 4, <module>",
                traceback=done.stderr,
            )
        )
    said = json.loads(done.stdout)
    layers: dict[str, list[int]] = said["layers"]
    parameters = {
        name: ParameterFacts(shape=tuple(shape), digest=name, got_gradient=True) for name, shape in layers.items()
    }
    modules = {name.rpartition(".")[0]: ModuleFacts(type="Layer", calls=3) for name in layers}
    return Facts(
        ended=Ended(code=0, why="enough seen"),
        steps=3,
        models=(
            ModelFacts(type="Net", parameters=parameters, modules={"": ModuleFacts(type="Net", calls=3), **modules}),
        ),
        losses=(said["loss"],) * 3,
        optimizers=(({"lr": 0.1},),),
    )


@dataclass
class Backend:
    """Answers in order, and keeps what it was asked."""

    replies: list[str | Reply | BaseException]
    name: str = "standing-in"
    host: str = "this machine"
    asked: list[Request] = field(default_factory=list)

    def ask(self, request: Request) -> Reply:
        """Return the next answer."""
        self.asked.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        usage = Usage(input=100, output=10)
        return reply if isinstance(reply, Reply) else Reply(text=reply, usage=usage, request="req_1", model="m-1")


def cut_off() -> Reply:
    """Return an answer that was cut off."""
    return Reply(text=GOOD[:20], stop=StopReason.CUT_OFF, usage=Usage(output=8192))


def spend_limit() -> BackendError:
    """Return what a service says when no more may be spent."""
    return BackendError(
        "Provider says the monthly spend limit is reached (429, no retry-after).", code="spend limit", status=429
    )


def no_rule(wanted: Variant, tree: Tree, facts: Facts | None = None) -> tuple[Block, ...] | None:
    """Know no rule."""
    return None


def tools(book: Book, backend: Backend | None = None, **changed: Any) -> Tools:
    """Return the stand-ins as tools, with a real asker."""
    answers = Answers(book)
    asks = None
    if backend is not None:
        asks = Asker(
            backend,
            changed.pop("budget", Budget()),
            cache=answers,
            clock=VirtualClock(),
            sleep=lambda _: None,
            draw=lambda: 0.5,
            say=lambda _: None,
            spent=msgspec.convert(book.record.spent, Spent) if book.record.spent else Spent(),
        )
    usual: dict[str, Any] = {
        "write_by_rule": no_rule,
        "read_reply": read_reply,
        "make_patch": make_patch,
        "patched": patched,
        "check": check,
        "probe": probe,
        "compare": compare_runs,
        "judge_first_step": judge_first_step,
        "judge": judge,
        "grammar": "Write JSON.",
        "asks": asks,
        "answers": answers,
        "name": backend.name if backend is not None else "",
    }
    return Tools(**{**usual, **changed})


def begin(book: Book, tree: Tree = TREE) -> None:
    """Write down how a study is prepared, and its files."""
    book.write(Did.BEGUN, setup=Setup(root=".", entry=ENTRY, tag="t4g"))
    book.write(Did.SCANNED, files=tree.files)


@dataclass
class Bench:
    """A study that is written, and what was said of it."""

    book: Book
    work: Work
    said: list[str]


@contextmanager
def bench(
    folder: Path,
    backend: Backend | None = None,
    *,
    names: Iterable[str] = ("without-conv2",),
    route: Route = Route.MODEL,
    tree: Tree = TREE,
    tries: Tries = Tries(),  # noqa: B008 - it is frozen
    approve: Callable[[Book], Callable[[str], Any]] | None = None,
    wanted: Plan | None = None,
    **changed: Any,
) -> Iterator[Bench]:
    """Give a study whose plan is approved, or go on with it if it is there."""
    with writing(folder, clock=VirtualClock(1.0), environment={}) as book:
        is_new = book.record.plan is None
        if is_new:
            begin(book, tree)
        said: list[str] = []
        decide = approve(book) if approve is not None else None
        at_hand = tools(book, backend, **changed)
        work = Work(book, at_hand, sent=("train.py",), tries=tries, approve=decide, say=said.append)
        if is_new:
            wanted = wanted if wanted is not None else plan(*names, route=route)
            work.plan(wanted)
            work.approve_plan([one.name for one in wanted.variants], by="me")
        yield Bench(book, work, said)
