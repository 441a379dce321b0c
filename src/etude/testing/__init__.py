"""For people who extend Étude: conformance checks for their own parts, and a clock that stands still.

``check_stopper`` and ``check_sampler`` say in one call whether a stopper or a sampler keeps what its
protocol promises; what they find is an ``AssertionError`` that names the promise.
"""

from etude.core.clock import VirtualClock
from etude.testing.conformance import check_sampler, check_stopper

__all__ = ["VirtualClock", "check_sampler", "check_stopper"]
