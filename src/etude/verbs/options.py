"""The options of verbs, as type checkers need them where a verb has several signatures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from etude.ablate.policies import Policy
    from etude.ablate.until import UntilDecided
    from etude.core.events import Keep
    from etude.core.ranks import DDP, FSDP
    from etude.core.resources import Resources
    from etude.results.search import Search, TrialResult
    from etude.tune.sampler import Sampler
    from etude.tune.stop import Stopper


class AblateOptions(TypedDict, total=False):
    """What ``Experiment.ablate`` takes by name, whatever ``dry_run`` is: its docstring says what each means."""

    at: TrialResult | Mapping[str, Any] | None
    policy: str | Policy
    seeds: int | str | UntilDecided | Sequence[int]
    seed: int
    controls: bool | None
    stopper: str | Stopper | Sequence[str | Stopper]
    retune: int | None
    space: Mapping[str, object] | None
    sampler: str | Sampler | None
    margin: float | None
    level: float
    force: bool
    on_refusal: Literal["raise", "skip"]
    workers: int | tuple[int, int | None] | None
    resources: Resources | str | None
    ranks: int
    parallel: str | DDP | FSDP
    batch: str
    name: str | None
    retries: int
    on_oom: str | None
    timeout_s: float | None
    grace_s: float
    reuse_child: bool
    deadline_s: float | None
    max_failures: int | None
    max_cost: float | None
    price_per_hour: float | None
    mirror: str | os.PathLike[str] | None
    keep: Keep | int | str | None
    states: str | os.PathLike[str] | None
    reuse: Search | str | os.PathLike[str] | Sequence[Search | str | os.PathLike[str]] | None
    system: object
    engine: object
    wait: bool
    progress: bool | None
