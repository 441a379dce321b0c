"""Étude: one training function, every study.

    import etude

    experiment = etude.Experiment(train, model=model, data=data, metric="accuracy", mode="max")
    search = experiment.tune({"lr": etude.loguniform(1e-4, 1.0)}, trials=100, workers=4)
    search.best.params

Importing this loads no framework, and hardly anything else: names are looked up when they are used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from etude.core.version import VERSION

if TYPE_CHECKING:
    from etude import components, measures, partitions, policies
    from etude.ablate.making import custom, setting
    from etude.ablate.until import UntilDecided, until_decided
    from etude.analyse.many_tasks import interquartile_mean
    from etude.analyse.rankings import Rankings, rankings
    from etude.analyse.report.own import report_section
    from etude.analyse.verdict import Verdict
    from etude.analyse.verdicts import Verdicts, verdicts
    from etude.comparing import compare_starts
    from etude.comparing_partitions import compare_partitions
    from etude.core.data import Data
    from etude.core.errors import (
        ConfigError,
        DefinitionChangedError,
        EtudeError,
        Invalid,
        JournalError,
        NotAStudyError,
        RemovalRefused,
        ResultError,
        SignatureError,
        SpaceError,
        StateError,
        StudyError,
        StudyInUseError,
    )
    from etude.core.events import Keep
    from etude.core.plan import GO_ON, Act, Decision, Report, Standing
    from etude.core.prefixes import value_at
    from etude.core.ranks import DDP, FSDP
    from etude.core.resources import Resources
    from etude.core.signature import Derived, Stateless
    from etude.data.table import table
    from etude.engines import Door, Engine
    from etude.engines.cluster import Cluster
    from etude.engines.curves import RecordedCurves, SyntheticCurves
    from etude.engines.ray import Ray
    from etude.engines.simulated import Simulated
    from etude.engines.spark import Spark
    from etude.experiment import Experiment
    from etude.fit.choosing import Auto
    from etude.fit.soups import soup
    from etude.fit.weights import Weights, weights
    from etude.forecasting.forecast import forecast
    from etude.forecasting.result import Forecast
    from etude.frameworks.callbacks import callback
    from etude.frameworks.torch_samplers import distribute
    from etude.removing import Removed, remove
    from etude.results.ablated import Ablation
    from etude.results.fitted import Fit
    from etude.results.reading import read as open  # noqa: A004
    from etude.results.search import Search, TrialResult
    from etude.system.asked import System
    from etude.system.objective import Weighted
    from etude.tune.by_optuna import CMAES, GP, NSGA2, TPE
    from etude.tune.domains import integers, loguniform, ordered, uniform
    from etude.tune.grid import Grid
    from etude.tune.halving import ASHA, Hyperband
    from etude.tune.median import MedianRule
    from etude.tune.qmc import QMC
    from etude.tune.rules import Divergence, Plateau, WallTime
    from etude.tune.sampler import Request, Sampler, Told
    from etude.tune.samplers import Random
    from etude.tune.spaces import Space, choice, piecewise, upto
    from etude.tune.stop import NeverStop, Stopper

__version__ = VERSION

_HOME = {
    "Experiment": "etude.experiment",
    "Data": "etude.core.data",
    "table": "etude.data.table",
    "Derived": "etude.core.signature",
    "Stateless": "etude.core.signature",
    "Resources": "etude.core.resources",
    "DDP": "etude.core.ranks",
    "FSDP": "etude.core.ranks",
    "Space": "etude.tune.spaces",
    "uniform": "etude.tune.domains",
    "loguniform": "etude.tune.domains",
    "integers": "etude.tune.domains",
    "choice": "etude.tune.spaces",
    "ordered": "etude.tune.domains",
    "piecewise": "etude.tune.spaces",
    "upto": "etude.tune.spaces",
    "value_at": "etude.core.prefixes",
    "Sampler": "etude.tune.sampler",
    "Request": "etude.tune.sampler",
    "Told": "etude.tune.sampler",
    "Random": "etude.tune.samplers",
    "Grid": "etude.tune.grid",
    "QMC": "etude.tune.qmc",
    "TPE": "etude.tune.by_optuna",
    "GP": "etude.tune.by_optuna",
    "CMAES": "etude.tune.by_optuna",
    "NSGA2": "etude.tune.by_optuna",
    "Stopper": "etude.tune.stop",
    "Report": "etude.core.plan",
    "Standing": "etude.core.plan",
    "Decision": "etude.core.plan",
    "Act": "etude.core.plan",
    "GO_ON": "etude.core.plan",
    "MedianRule": "etude.tune.median",
    "ASHA": "etude.tune.halving",
    "Ablation": "etude.results.ablated",
    "UntilDecided": "etude.ablate.until",
    "until_decided": "etude.ablate.until",
    "Rankings": "etude.analyse.rankings",
    "rankings": "etude.analyse.rankings",
    "interquartile_mean": "etude.analyse.many_tasks",
    "report_section": "etude.analyse.report.own",
    "Verdict": "etude.analyse.verdict",
    "Verdicts": "etude.analyse.verdicts",
    "verdicts": "etude.analyse.verdicts",
    "Hyperband": "etude.tune.halving",
    "Plateau": "etude.tune.rules",
    "Divergence": "etude.tune.rules",
    "WallTime": "etude.tune.rules",
    "NeverStop": "etude.tune.stop",
    "Cluster": "etude.engines.cluster",
    "Door": "etude.engines",
    "Engine": "etude.engines",
    "Ray": "etude.engines.ray",
    "Spark": "etude.engines.spark",
    "System": "etude.system.asked",
    "Weighted": "etude.system.objective",
    "Simulated": "etude.engines.simulated",
    "RecordedCurves": "etude.engines.curves",
    "SyntheticCurves": "etude.engines.curves",
    "Keep": "etude.core.events",
    "Auto": "etude.fit.choosing",
    "Weights": "etude.fit.weights",
    "weights": "etude.fit.weights",
    "soup": "etude.fit.soups",
    "partitions": "etude.partitions",
    "measures": "etude.measures",
    "components": "etude.components",
    "policies": "etude.policies",
    "setting": "etude.ablate.making",
    "custom": "etude.ablate.making",
    "compare_partitions": "etude.comparing_partitions",
    "compare_starts": "etude.comparing",
    "Fit": "etude.results.fitted",
    "forecast": "etude.forecasting.forecast",
    "Forecast": "etude.forecasting.result",
    "callback": "etude.frameworks.callbacks",
    "distribute": "etude.frameworks.torch_samplers",
    "remove": "etude.removing",
    "Removed": "etude.removing",
    "Search": "etude.results.search",
    "TrialResult": "etude.results.search",
    "open": "etude.results.reading",
    "Invalid": "etude.core.errors",
    "StateError": "etude.core.errors",
    "EtudeError": "etude.core.errors",
    "ConfigError": "etude.core.errors",
    "SpaceError": "etude.core.errors",
    "SignatureError": "etude.core.errors",
    "RemovalRefused": "etude.core.errors",
    "StudyError": "etude.core.errors",
    "NotAStudyError": "etude.core.errors",
    "JournalError": "etude.core.errors",
    "DefinitionChangedError": "etude.core.errors",
    "StudyInUseError": "etude.core.errors",
    "ResultError": "etude.core.errors",
}

_WINDOWS = {"components", "measures", "partitions", "policies"}
"""Modules with names of their own: there is more than one Random."""

__all__ = [
    "ASHA",
    "CMAES",
    "DDP",
    "FSDP",
    "GO_ON",
    "GP",
    "NSGA2",
    "QMC",
    "TPE",
    "Ablation",
    "Act",
    "Auto",
    "Cluster",
    "ConfigError",
    "Data",
    "Decision",
    "DefinitionChangedError",
    "Derived",
    "Divergence",
    "Door",
    "Engine",
    "EtudeError",
    "Experiment",
    "Fit",
    "Forecast",
    "Grid",
    "Hyperband",
    "Invalid",
    "JournalError",
    "Keep",
    "MedianRule",
    "NeverStop",
    "NotAStudyError",
    "Plateau",
    "Random",
    "Rankings",
    "Ray",
    "RecordedCurves",
    "RemovalRefused",
    "Removed",
    "Report",
    "Request",
    "Resources",
    "ResultError",
    "Sampler",
    "Search",
    "SignatureError",
    "Simulated",
    "Space",
    "SpaceError",
    "Spark",
    "Standing",
    "StateError",
    "Stateless",
    "Stopper",
    "StudyError",
    "StudyInUseError",
    "SyntheticCurves",
    "System",
    "Told",
    "TrialResult",
    "UntilDecided",
    "Verdict",
    "Verdicts",
    "WallTime",
    "Weighted",
    "Weights",
    "callback",
    "choice",
    "compare_partitions",
    "compare_starts",
    "components",
    "custom",
    "distribute",
    "forecast",
    "integers",
    "interquartile_mean",
    "loguniform",
    "measures",
    "open",
    "ordered",
    "partitions",
    "piecewise",
    "policies",
    "rankings",
    "remove",
    "report_section",
    "setting",
    "soup",
    "table",
    "uniform",
    "until_decided",
    "upto",
    "value_at",
    "verdicts",
    "weights",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'etude' has no attribute {name!r}")
    home = importlib.import_module(_HOME[name])
    found = home if name in _WINDOWS else getattr(home, "read" if name == "open" else name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
