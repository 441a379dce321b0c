"""For people who extend Étude: checks for their own parts, chaos for their studies, and a clock that stands still.

``check_stopper``, ``check_sampler``, ``check_engine``, ``check_policy`` and ``check_partition`` say in one call whether
a stopper, a sampler, an engine, a policy or a partition keeps what its protocol promises; what they find is an
``AssertionError`` that names the promise. ``chaos`` runs a study while its processes are killed and stopped, and
reports what came of it.
"""

from etude.core.clock import VirtualClock
from etude.testing.aftermath import Chaos
from etude.testing.conformance import check_sampler, check_stopper
from etude.testing.engines import check_engine
from etude.testing.faults import chaos
from etude.testing.partitions import check_partition
from etude.testing.policies import check_policy

__all__ = [
    "Chaos",
    "VirtualClock",
    "chaos",
    "check_engine",
    "check_partition",
    "check_policy",
    "check_sampler",
    "check_stopper",
]
