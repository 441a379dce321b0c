"""The arguments and options of ``etude mage``: one name and one help text each, whichever commands have them.

Options that several commands share come in groups: a command takes a group as one argument, and ``spread`` gives it
the group's options on the command line.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Final, get_type_hints

import typer

APath = Annotated[Path, typer.Argument(metavar="PATH", help="The project's folder.")]
Paths = Annotated[
    list[Path] | None, typer.Argument(metavar="PATHS", help="The project's folder, or files and folders of it.")
]
AStudy = Annotated[str, typer.Argument(metavar="STUDY", help="The study's name, or its folder.")]
Entry = Annotated[
    str, typer.Option("--entry", help="How it is run: 'python train.py --seed {seed}', or script.py:experiment.")
]
Metric = Annotated[str, typer.Option("--metric", help="Where its metric is: metrics.json:accuracy, or its name.")]
Short = Annotated[
    str | None,
    typer.Option(
        "--short",
        metavar="ARGS",
        help="What shortens a run to the end: arguments added to --entry there, as in '--epochs 1'; '' for none.",
    ),
]
ShortLimit = Annotated[
    float | None,
    typer.Option("--short-limit", min=0.0, help="Seconds that a run to the end may take; 0 for none. 300 by default."),
]
Mode = Annotated[
    str, typer.Option("--mode", help="max if a larger metric is better (so if nothing is said), min if a smaller is.")
]
SandboxTier = Annotated[
    str,
    typer.Option("--sandbox", metavar="TIER", help="What code runs in: bwrap (default), namespaces, limits, outer."),
]
Name = Annotated[str | None, typer.Option("--name", metavar="STUDY", help="The study; by default the folder's name.")]
BackendName = Annotated[
    str | None,
    typer.Option("--backend", help="Who is asked: anthropic:MODEL, openai:MODEL@URL, command:..., manual:DIR."),
]
Writer = Annotated[str | None, typer.Option("--writer", help="Who writes variants, if not --backend.")]
Planner = Annotated[
    str | None, typer.Option("--planner", help="Who reads hints and documents, if anybody does; none for nobody.")
]
NO_PLANNER: Final = "none"
"""What ``--planner`` is called with where marks alone are to be planned."""
Explainer = Annotated[str | None, typer.Option("--explainer", help="Who explains, if not --backend.")]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="Where the backend is asked.")]
LocalOnly = Annotated[
    bool, typer.Option("--local-only", help="Refuse any host that is not this machine, from now on in this study.")
]
Context = Annotated[
    int | None,
    typer.Option("--context", min=1, metavar="TOKENS", help="What the model takes, question and answer together."),
]
MostOutput = Annotated[
    int | None, typer.Option("--most-output", min=1, metavar="TOKENS", help="What an answer of the model may have.")
]
Docs = Annotated[list[Path] | None, typer.Option("--doc", metavar="FILE", help="A text that is sent along: a paper.")]
Columns = Annotated[list[str] | None, typer.Option("--column", help="A column of the data that hints may name.")]
Choices = Annotated[
    list[str] | None, typer.Option("--choose", metavar="NAME=READING", help="How a component is meant: conv2=pool.")
]
MostBytes = Annotated[
    int | None, typer.Option("--most-bytes", min=1, help="So many bytes of files are sent at most; 200,000 by default.")
]
Steps = Annotated[
    int | None,
    typer.Option("--steps", min=1, help="So many optimizer steps, or fits, are watched of each program; 3 by default."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Approve the plan without being asked.")]
Approve = Annotated[
    Path | None,
    typer.Option("--approve", metavar="POLICY.toml", help="Approve what this policy allows, without a person."),
]
MaxCalls = Annotated[
    int | None, typer.Option("--max-calls", min=0, help="Questions that may be asked in this study, all together.")
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", min=0, help="Tokens that answers may have in this study, all together.")
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", min=0, help="Money that this study may cost; needs --prices.")
]
MaxInput = Annotated[
    int | None, typer.Option("--max-input", min=0, help="Tokens that questions may have in this study, all together.")
]
MaxSeconds = Annotated[
    float | None,
    typer.Option("--max-seconds", min=0, help="Seconds that answers may take in this study, all together."),
]
PerVariant = Annotated[
    list[str] | None,
    typer.Option(
        "--per-variant",
        metavar="WHAT=N",
        help="The same limits for each variant: calls=4, tokens=N, input=N, cost=N, seconds=N.",
    ),
]
PriceFile = Annotated[
    Path | None, typer.Option("--prices", metavar="PRICES.toml", help="What tokens cost, with a date.")
]
Repairs = Annotated[int | None, typer.Option("--repairs", min=0, help="Repairs of one draft, at most; 3 by default.")]
Own = Annotated[
    Path | None, typer.Option("--from", metavar="FOLDER", help="Your own changed copy, checked as any other patch.")
]
Only = Annotated[str, typer.Option("--variant", help="Only this variant.")]
Documents = Annotated[list[Path], typer.Option("--documents", "-d", metavar="PATH", help="Sources and documents.")]
Api = Annotated[str, typer.Option("--api", "-a", help="anthropic or openai.")]
Model = Annotated[str, typer.Option("--model", "-m", help="The model.")]


@dataclass(frozen=True)
class OfThePlan:
    """What a plan is made of: said once, it holds for the study."""

    entry: Entry = ""
    metric: Metric = ""
    mode: Mode = ""
    doc: Docs = None
    column: Columns = None
    choose: Choices = None
    steps: Steps = None
    most_bytes: MostBytes = None


@dataclass(frozen=True)
class OfRuns:
    """How programs are run to their end."""

    short: Short = None
    short_limit: ShortLimit = None


@dataclass(frozen=True)
class OfAsking:
    """Where somebody is asked, and what that may take."""

    base_url: BaseUrl = None
    context: Context = None
    most_output: MostOutput = None
    local_only: LocalOnly = False
    max_calls: MaxCalls = None
    max_tokens: MaxTokens = None
    max_input: MaxInput = None
    max_cost: MaxCost = None
    max_seconds: MaxSeconds = None
    per_variant: PerVariant = None
    prices: PriceFile = None


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the options of a group in place of the group itself."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)}

    @functools.wraps(command)
    def called(**given: Any) -> None:
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)}) for name, kind in groups.items()
        }
        command(**given, **made)

    def options() -> Iterator[inspect.Parameter]:
        for parameter in inspect.signature(command).parameters.values():
            if (group := groups.get(parameter.name)) is None:
                yield parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
                continue
            inner = get_type_hints(group, include_extras=True)
            for field in fields(group):
                yield inspect.Parameter(
                    field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=inner[field.name]
                )

    called.__signature__ = inspect.Signature(list(options()))  # type: ignore[attr-defined]
    called.__annotations__ = {}  # the signature has them all
    return called
