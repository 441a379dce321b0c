"""What authored replies of the mage cost in tokens of output, beside replies that hold whole files.

Nothing here was written by a language model: the replies were written by hand, in the grammar that models are told.
So it is measured what the grammar costs, and not what a model does with it. Each variant is planned of a mark, and its
reply climbs all rungs before it is counted: what does not pass is a follow-up by hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import ROOT, Benchmark, Cell, Quantity, Result, Target

CHARACTERS: Final = 3.5
"""Characters of a token of code, as a rule."""
PROGRAM: Final = ROOT / "benchmarks" / "mage_programs" / "train.py"
AUTHORED: Final = PROGRAM.parent / "authored"
HIGGS: Final = ROOT / "examples" / "mage_higgs"
PAPER: Final[Mapping[str, Mapping[str, str]]] = {
    "cnn": {"conv2": "none", "fc1": "none"},
    "graphsage": {},
    "higgs": {},
}
"""The paper's experiments, and what is chosen where a removal can be meant in two ways."""
CHOICES: Final = {"gate": "none"}
"""The norm behind the gate stays."""
LAYERS: Final = ("without-stem", "without-positions", "without-block2", "without-gate", "without-hidden")

FEW: Final = ("without-DER_pt_h",)


def cells(small: bool) -> Sequence[Cell]:
    return [
        Cell("étude, layers", {"what": "layers", "names": LAYERS[: 1 if small else None]}),
        Cell("étude, features", {"what": "features", "only": FEW if small else None}),
        *(Cell(f"étude, {name}", {"what": "paper", "name": name}) for name in (() if small else PAPER)),
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    if args["what"] == "paper":
        return paper(args["name"], place)
    return layers(args["names"], place) if args["what"] == "layers" else features(place, args["only"])


def layers(names: Sequence[str], place: Path) -> Result:
    """Count the replies of some layer variants, the files that they make of the program, and what they leave to do.

    Each is planned of a mark, with its claims, so that a layer that is still there counts as one to follow up.
    """
    from benchmarks.mage_written import follow_ups_by_hand, written
    from etude.mage.patch.making import patched

    root = place / "layers"
    root.mkdir()
    (root / "train.py").write_text(marked(PROGRAM.read_text(encoding="utf-8")), encoding="utf-8")
    record = written(place / "study", root, AUTHORED, only=names, by_rule=False, choices=CHOICES)
    assert sorted(record.standings) == sorted(names), sorted(record.standings)
    patches = [patch for name in names if (patch := record.patch_of(name)) is not None]
    return {
        "reply_tokens": sum(tokens(reply.text) for reply in record.replies.values()),
        "whole_tokens": sum(tokens(patched(record.tree, patch).text("train.py")) for patch in patches),
        "file_tokens": tokens(record.tree.text("train.py")),
        "variants": len(record.standings),
        "follow_ups": follow_ups_by_hand(record),
        "calls": sum(one.calls for one in record.standings.values()),
    }


def marked(program: str) -> str:
    """Return a program with a mark behind the layer of each variant; replies leave the marks of the others."""
    for name in LAYERS:
        layer = name.removeprefix("without-")
        program, found = re.subn(rf"(?m)^( +self\.{layer} = .*)$", r"\1  # ABLATABLE_COMPONENT", program)
        assert found == 1, f"{layer} is made {found} times"
    return program


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
    file = tokens(PROGRAM.read_text(encoding="utf-8"))
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
        Target("their follow-ups", "étude, layers: follow_ups", 0, "by hand", at_least=False),
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
