"""Who shares this machine, and how long studies took there: ``etude system tenants``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from etude.cli.shell import AsJson, print_json, print_table
from etude.core.errors import ConfigError
from etude.core.text import seconds

if TYPE_CHECKING:
    from etude.system.tenants import Response, Tenant

SHOWN: Final = 10
"""Studies that have ended that are listed for people, the newest ones."""

ALedger = Annotated[
    Path | None, typer.Option("--ledger", metavar="FILE", help="The ledger; by default the user's.", dir_okay=False)
]


def tenants(ledger: ALedger = None, as_json: AsJson = False) -> None:
    """Show which studies share this machine, and what they hold.

    Also how long those took that have ended.
    """
    from etude.core.clock import WallClock
    from etude.system.budget import Amount
    from etude.system.ledger import Ledger
    from etude.system.ledger_file import default_path
    from etude.worker.machine import this_machine

    at = ledger or default_path()
    there: list[Tenant] = []
    ended: list[Response] = []
    if at.exists():  # looking makes none
        machine = this_machine()
        with Ledger.open(Amount.of(cores=machine.cores or 1, memory_gb=machine.memory_gb), ledger) as opened:
            if opened.trouble:
                raise ConfigError(opened.trouble)
            there, ended = opened.tenants(), opened.response_times()
    if as_json:
        print_json({"path": str(at), "tenants": [_at_work(one) for one in there], "ended": list(map(_over, ended))})
        return
    now_s = WallClock().now_s()
    if there:
        head = ["study", "cores", "of", "memory GB", "waited", "since it came"]
        print_table(head, [_row(one, now_s) for one in there])
    else:
        print(f"No study shares this machine now ({at}).")
    if ended:
        print(_sentence(ended))
        print_table(["study", "waited", "took"], [_past(one) for one in ended[-SHOWN:]])


def _row(one: Tenant, now_s: float) -> list[str]:
    began_s = now_s if one.began_s is None else one.began_s
    waited = seconds(began_s - one.submitted_s) + (" so far" if one.began_s is None else "")
    memory = f"{one.held.memory_gb:.3g}" if one.held.memory_mb else ""
    return [one.name, str(one.held.cores), str(one.want.most.cores), memory, waited, seconds(now_s - one.submitted_s)]


def _past(one: Response) -> list[str]:
    return [one.name, seconds(one.waited_s), seconds(one.response_s) + (" until it was found dead" if one.died else "")]


def _sentence(ended: Sequence[Response]) -> str:
    waited_s, took_s = (median(getattr(one, name) for one in ended) for name in ("waited_s", "response_s"))
    of = "One study has" if len(ended) == 1 else f"{len(ended):,} studies have"
    return (
        f"{of} ended here: at the median they began {seconds(waited_s)} after they came, and had ended after "
        f"{seconds(took_s)}."
    )


def _at_work(one: Tenant) -> dict[str, Any]:
    return {
        "study": one.name,
        "cores": one.held.cores,
        "memory_gb": one.held.memory_gb,
        "wants_cores": one.want.most.cores,
        "came_s": one.submitted_s,
        "began_s": one.began_s,
    }


def _over(one: Response) -> dict[str, Any]:
    return {
        "study": one.name,
        "came_s": one.submitted_s,
        "waited_s": one.waited_s,
        "response_s": one.response_s,
        "died": one.died,
    }
