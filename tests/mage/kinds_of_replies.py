"""Where each kind of bad reply is shown that was named when the mage was wanted."""

from __future__ import annotations

from typing import Final

BAD: Final = "bad_replies"
WRONG: Final = "variants_by_hand"
SHARED: Final = "test_sharing"

KINDS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "prose only": ((BAD, "prose only"),),
    "cut off": ((BAD, "cut off"), (BAD, "cut off silently")),
    "rest unchanged": ((BAD, "rest unchanged"), (BAD, "existing code here"), (BAD, "dots for a body")),
    "wrong file": ((BAD, "wrong file"),),
    "ambiguous text": ((BAD, "ambiguous text"),),
    "syntax error": ((BAD, "syntax error"), (BAD, "syntax error in a symbol")),
    "missing import": ((BAD, "missing import"), (WRONG, "an import is missing")),
    "edits the evaluation": ((BAD, "edits the evaluation"), (WRONG, "evaluated on fewer")),
    "changes the seed": ((BAD, "changes the seed"), (WRONG, "another seed")),
    "changes the learning rate": ((BAD, "changes the learning rate"), (WRONG, "another learning rate")),
    "flag parsed but unused": (
        (WRONG, "nothing is removed behind a flag"),
        (SHARED, "test_a_change_that_does_nothing_costs_one_run_and_is_mended_for_all"),
    ),
    "call skipped but layer kept": ((WRONG, "the call is skipped and the layer kept"),),
    "multiplied by zero": ((WRONG, "multiplied by zero"),),
    "renamed": ((WRONG, "renamed"),),
    "smaller replacement": ((WRONG, "a smaller one under its name"), (WRONG, "a smaller one under another name")),
    "baseline altered": ((SHARED, "test_a_change_that_alters_the_baseline_is_mended_before_anybody_takes_it"),),
    "reformatted file": ((BAD, "reformatted file"),),
    "metric hard-coded": ((BAD, "metric hard-coded"), (WRONG, "the metric is written down")),
    "epochs cut": ((BAD, "epochs cut"), (WRONG, "epochs cut")),
}
"""Kind -> module and case, or test, that shows that it does not pass."""
