"""Approval without a person: a policy that somebody has written beforehand, and that only ever says yes to little.

    # policy.toml
    rules = true        # patches that a rule wrote
    most_lines = 40     # and others of at most so many changed lines; leave it out for none
    short_run = true    # only if the program was seen to come to its end and to leave a metric

Whoever wrote it, a patch is approved only if every rung passed, those that are needed were run, and nothing was odd.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.mage.loop.book import Approval, Record, digest_of_verdicts
from etude.mage.patch.blocks import Patch
from etude.mage.tree import digest_of
from etude.mage.values import Value
from etude.mage.verdicts import OPTIONAL, Outcome, Rung, Verdict

RULE: Final = "rule"
NEEDED: Final[tuple[Rung, ...]] = (Rung.PARSE, Rung.POLICY, Rung.FIRST_STEP, Rung.GONE)
"""Rungs that have to have been run for an approval without a person."""
EXAMPLE: Final = "rules = true\nmost_lines = 40\n"


class Policy(Value, frozen=True):
    """What may be approved without a person.

    Attributes:
        name: Where it stands, and its digest: what approvals are signed with.
        rules: Whether patches may that a rule wrote.
        most_lines: Others may of at most so many changed lines; None for none of them.
        short_run: Whether the program has to have come to its end.
    """

    name: str
    rules: bool = False
    most_lines: int | None = None
    short_run: bool = False


def read_policy(path: Path) -> Policy:
    """Read a policy.

    Raises:
        ConfigError: It cannot be read, or says what no policy says.
    """
    try:
        content = path.read_bytes()
        said = tomllib.loads(content.decode("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"The policy {path} cannot be read: {error}. It looks like this:\n{EXAMPLE}") from None
    _check(path, said)
    name = f"policy {path.name} {digest_of(content)[:12]}"
    return Policy(name=name, **said)


def decide(policy: Policy, record: Record, variant: str) -> Approval | str:
    """Return an approval of a variant as it stands, or why a person has to look at it."""
    patch, verdicts = record.patch_of(variant), record.verdicts_of(variant)
    if patch is None or not verdicts:
        return "it has no verdict"
    why = why_not(policy, patch, verdicts)
    if why:
        return why
    return Approval(by=policy.name, patch=patch.digest, verdict=digest_of_verdicts(verdicts))


def why_not(policy: Policy, patch: Patch, verdicts: Sequence[Verdict]) -> str:
    """Return why a policy does not approve a patch; nothing if it does."""
    run = [verdict for verdict in verdicts if not (verdict.outcome is Outcome.NOT_RUN and verdict.rung in OPTIONAL)]
    said = next((verdict for verdict in run if not verdict.passed), None)
    if said is not None:
        return f"{_name(said.rung)} is {said.outcome.value}"
    passed = {verdict.rung for verdict in run}
    needed = (*NEEDED, *([Rung.SHORT_RUN] if policy.short_run else []))
    missing = [_name(rung) for rung in needed if rung not in passed]
    if missing:
        return f"not run: {', '.join(missing)}"
    alarms = [alarm for verdict in verdicts for alarm in verdict.alarms]
    if alarms:
        return f"alarm: {alarms[0]}"
    if policy.rules and patch.author.name == RULE:
        return ""
    lines, most = changed_lines(patch.diff), policy.most_lines
    if most is None:
        return f"written by {patch.author.name}, and the policy approves rules only"
    return f"{lines} lines changed, and the policy approves up to {most}" if lines > most else ""


def changed_lines(diff: str) -> int:
    r"""Return how many lines a diff adds or takes away.

    Example:
        >>> changed_lines("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-one\n+two\n")
        2
    """
    in_hunk, found = False, 0
    for line in diff.splitlines():
        if line.startswith("@@"):
            in_hunk = True
        elif line.startswith("diff --git"):
            in_hunk = False
        elif line.startswith(("--- a/", "--- /dev/null")) and not in_hunk:
            continue
        elif in_hunk and line.startswith(("+", "-")):
            found += 1
    return found


def who(environment: Mapping[str, str] = os.environ) -> str:
    """Return who sits here, as far as the machine knows."""
    return environment.get("USER") or environment.get("LOGNAME") or "a person"


def is_approvable(outcome: Outcome | None) -> bool:
    """Say whether a person may approve what came to this."""
    return outcome in (Outcome.PASSED, Outcome.FOR_A_PERSON, Outcome.INCONCLUSIVE)


def _check(path: Path, said: Mapping[str, Any]) -> None:
    known: dict[str, type] = {"rules": bool, "most_lines": int, "short_run": bool}
    for name, value in said.items():
        if name not in known:
            raise ConfigError(f"{path} says {name!r}, which no policy says. There are: {', '.join(known)}.")
        if type(value) is not known[name] or (isinstance(value, int) and value < 0):
            kind = "true or false" if known[name] is bool else "a number from 0"
            raise ConfigError(f"{path} says {name} = {value!r}. It is {kind}.")
    if not said.get("rules") and said.get("most_lines") is None:
        raise ConfigError(f"{path} approves nothing. Say rules = true, or most_lines = 40; or leave --approve out.")


def _name(rung: Rung) -> str:
    return rung.name.lower().replace("_", " ")
