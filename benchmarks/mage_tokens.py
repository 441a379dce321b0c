"""What authored replies of the mage cost in tokens of output, beside replies that hold whole files.

Nothing here was written by a language model: the replies were written by hand, in the grammar that models are told.
So it is measured what the grammar costs, and not what a model does with it. Each reply is read, applied, checked
and run for one short epoch before it is counted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import ROOT, Benchmark, Cell, Quantity, Result, Target

CHARACTERS: Final = 3.5
"""Characters of a token of code, as a rule."""
PROGRAMS: Final = ROOT / "benchmarks" / "mage_programs"
HIGGS: Final = ROOT / "examples" / "mage_higgs"
PAPER: Final[Mapping[str, Mapping[str, str]]] = {
    "cnn": {"conv2": "none", "fc1": "none"},
    "graphsage": {},
    "higgs": {},
}
"""The paper's experiments, and what is chosen where a removal can be meant in two ways."""
LAYERS: Final = ("without-stem", "without-positions", "without-block2", "without-gate", "without-hidden")

FEW: Final = ("without-DER_pt_h",)


def cells(small: bool) -> Sequence[Cell]:
    return [
        Cell("étude, layers", {"what": "layers", "names": LAYERS[: 2 if small else None], "run": not small}),
        Cell("étude, features", {"what": "features", "only": FEW if small else None}),
        *(Cell(f"étude, {name}", {"what": "paper", "name": name}) for name in (() if small else PAPER)),
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    if args["what"] == "paper":
        return paper(args["name"], place)
    return layers(args["names"], place, run=args["run"]) if args["what"] == "layers" else features(place, args["only"])


def layers(names: Sequence[str], place: Path, *, run: bool) -> Result:
    """Count the replies of some layer variants, and the files that they make of the program."""
    from etude.mage.handover.apart import Apart
    from etude.mage.handover.travelling import Files
    from etude.mage.tree import Tree

    tree = Tree({"train.py": (PROGRAMS / "train.py").read_bytes()})
    asked, whole = 0.0, 0.0
    for name in names:
        text = (PROGRAMS / "authored" / name / "1.md").read_text(encoding="utf-8")
        new = applied(tree, text)
        asked += tokens(text)
        whole += tokens(new.text("train.py"))
        if run:
            folder = place / name
            Files.of(new).lay(folder)
            os.chdir(folder)
            Apart(folder, (".",), ("train.py",)).script("train.py").main(["--quick"])
    return {"reply_tokens": asked, "whole_tokens": whole, "file_tokens": tokens(tree.text("train.py"))}


def features(place: Path, only: Sequence[str] | None) -> Result:
    """Count what is answered for 21 feature trials that no rule may write, and as many files of the layers' length.

    Args:
        place: Where to.
        only: Those of them that are written; None for all.
    """
    from benchmarks.mage_written import copied, follow_ups_by_hand, written
    from etude.mage.plan.sharing import NAME

    root = copied("mage_higgs", place)
    some = None if only is None else [NAME, *only]
    record = written(place / "study", root, HIGGS / "authored", by_rule=False, only=some)
    assert record.plan is not None
    trials = [one for one in record.plan.variants if not one.serves]
    file = tokens((PROGRAMS / "train.py").read_text(encoding="utf-8"))
    return {
        "reply_tokens": sum(tokens(reply.text) for reply in record.replies.values()),
        "whole_tokens": len(trials) * file,
        "rule_tokens": 0.0,
        "variants": len(trials),
        "follow_ups": follow_ups_by_hand(record),
        "calls": sum(one.calls for one in record.standings.values()),
    }


def paper(name: str, place: Path) -> Result:
    """Count what a person has to do beside approving, in one of the paper's experiments, and what is asked for."""
    from benchmarks.mage_written import EXAMPLES, copied, follow_ups_by_hand, written

    replies = EXAMPLES / f"mage_{name}" / "authored" if name != "higgs" else None
    record = written(place / "study", copied(f"mage_{name}", place), replies, choices=PAPER[name])
    return {
        "follow_ups": follow_ups_by_hand(record),
        "variants": len(record.standings),
        "calls": sum(one.calls for one in record.standings.values()),
    }


def applied(tree: Any, text: str) -> Any:
    """Return what a reply makes of a tree; it has to hold up to what is checked without running it."""
    from etude.mage.patch.blocks import Author
    from etude.mage.patch.making import make_patch, patched
    from etude.mage.patch.reply import read_reply
    from etude.mage.static.checking import check
    from etude.mage.variants import Variant
    from etude.mage.verdicts import Outcome

    patch = make_patch(tree, read_reply(text).blocks, author=Author(name="authored"), allowed=("train.py",))
    verdicts = check(tree, patch, Variant(name="variant", intent="", files=("train.py",)))
    assert not [one for one in verdicts if one.outcome is Outcome.FAILED], verdicts
    return patched(tree, patch)


def tokens(text: str) -> float:
    return len(text) / CHARACTERS


BENCHMARK = Benchmark(
    name="mage_tokens",
    cells=cells,
    work=work,
    quantities=(
        Quantity("reply_tokens", "tokens", 0),
        Quantity("whole_tokens", "tokens", 0),
        Quantity("file_tokens", "tokens", 0),
        Quantity("rule_tokens", "tokens", 0),
        Quantity("follow_ups", "by hand", 0),
        Quantity("variants", "", 0),
        Quantity("calls", "calls", 0),
    ),
    targets=(
        Target("5 layer variants of one file", "étude, layers: reply_tokens", 6_000, "tokens", at_least=False),
        Target("21 feature trials", "étude, features: reply_tokens", 1_000, "tokens", at_least=False),
        *(Target(f"the paper's {name}", f"étude, {name}: follow_ups", 0, "by hand", at_least=False) for name in PAPER),
    ),
    note=(
        "Tokens are characters / 3.5. Replies are authored: they say what the grammar costs, and nothing of how any "
        "model answers. whole_tokens: the same variants as whole files, of the length of the layers' program. By rule "
        "the 21 feature trials take no reply at all (rule_tokens). The paper's follow-ups by hand were 1, 2 and "
        "0. One run is enough."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
