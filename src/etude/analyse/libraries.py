"""The libraries that statistics come from, imported when they are needed."""

from __future__ import annotations

from typing import Any

from etude.core.errors import ConfigError


def scipy_stats() -> Any:
    """Return ``scipy.stats``.

    Raises:
        ConfigError: scipy is missing.
    """
    try:
        from scipy import stats
    except ImportError as error:
        raise ConfigError(
            "Runs are compared with scipy, which is missing. Install it: pip install 'etude[stats]'."
        ) from error
    return stats
