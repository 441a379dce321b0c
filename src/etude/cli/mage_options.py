"""The arguments and options of ``etude mage``: one name and one help text each, whichever commands have them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

APath = Annotated[Path, typer.Argument(metavar="PATH", help="The project's folder.")]
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
        help="What shortens a run to the end: arguments added to --entry there, as in '--epochs 1'.",
    ),
]
ShortLimit = Annotated[
    float | None,
    typer.Option("--short-limit", min=0.0, help="Seconds that a run to the end may take; 0 for none. 300 by default."),
]
Mode = Annotated[str, typer.Option("--mode", help="max if a larger metric is better, min if a smaller is.")]
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
Planner = Annotated[str | None, typer.Option("--planner", help="Who reads hints and documents, if anybody does.")]
Explainer = Annotated[str | None, typer.Option("--explainer", help="Who explains, if not --backend.")]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="Where the backend is asked.")]
LocalOnly = Annotated[bool, typer.Option("--local-only", help="Refuse any host that is not this machine.")]
Docs = Annotated[list[Path] | None, typer.Option("--doc", metavar="FILE", help="A text that is sent along: a paper.")]
Columns = Annotated[list[str] | None, typer.Option("--column", help="A column of the data that hints may name.")]
Choices = Annotated[
    list[str] | None, typer.Option("--choose", metavar="NAME=READING", help="How a component is meant: conv2=pool.")
]
MostBytes = Annotated[int, typer.Option("--most-bytes", help="So many bytes of files are sent at most.")]
Yes = Annotated[bool, typer.Option("--yes", help="Approve the plan without being asked.")]
Approve = Annotated[
    Path | None,
    typer.Option("--approve", metavar="POLICY.toml", help="Approve what this policy allows, without a person."),
]
MaxCalls = Annotated[int | None, typer.Option("--max-calls", help="Questions that may be asked, all together.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", help="Tokens that answers may have, all together.")]
MaxCost = Annotated[float | None, typer.Option("--max-cost", help="Money that may be spent; needs --prices.")]
PriceFile = Annotated[
    Path | None, typer.Option("--prices", metavar="PRICES.toml", help="What tokens cost, with a date.")
]
Repairs = Annotated[int, typer.Option("--repairs", min=0, help="Repairs of one draft, at most.")]
Own = Annotated[
    Path | None, typer.Option("--from", metavar="FOLDER", help="Your own changed copy, checked as any other patch.")
]
Only = Annotated[str, typer.Option("--variant", help="Only this variant.")]
USUAL_BYTES: Final = 200_000
