"""A power meter between the machine and the wall, which is asked over HTTP."""

from __future__ import annotations

import http.client
import json
import math
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any, Final, final

from etude.core.errors import ConfigError
from etude.core.numbers import amount, is_finite
from etude.core.text import brief
from etude.system.energy import Energy, Label
from etude.system.meters.meter import NOT_BEGUN
from etude.system.meters.sampling import Sampling, Unread, Wait, energy_of

LONGEST_ANSWER: Final = 1 << 16
"""Bytes that an answer may have."""
MOST_W: Final = 1e9
"""More is no reading of a machine."""


@final
class PowerMeter:
    """All that the machine takes at the wall, read every second beside the training.

    An answer is a number of watts, as text or as JSON, or a JSON object that has it somewhere. A reading that does not
    come in time is missing: the figure gets wider bounds, and says so.

    Args:
        url: Where it is asked.
        field: Where in an object the watts are, as in ``outlets.0.power``.
        every_s: Seconds between two readings.
        timeout_s: How long an answer may take.
        longest_s: For so many seconds readings may be missing; if for longer, the energy is unavailable.
        now_s: A clock.
        wait: How the time between two readings goes by.

    Raises:
        ConfigError: It is no address of HTTP, or an option cannot be.

    Source:
        Rocha et al. 2020, "PipeTune: Pipeline Parallelism of Hyper and System Parameters Tuning for Deep Learning
        Clusters", section 3.2: power is read each second of training, and integrated by the trapezoid rule. Bounds, and
        what becomes of readings that are missing, are ours.
    """

    label: Final = Label.MEASURED

    def __init__(
        self,
        url: str,
        *,
        field: str = "power",
        every_s: float = 1.0,
        timeout_s: float = 1.0,
        longest_s: float = 10.0,
        now_s: Callable[[], float] = time.monotonic,
        wait: Wait = threading.Event.wait,
    ) -> None:
        self._host = _host(url)
        self._url, self._field, self._now_s, self._wait = url, field, now_s, wait
        self._every_s = amount("every_s", every_s, above=True)
        self._timeout_s = amount("timeout_s", timeout_s, above=True)
        self._longest_s = amount("longest_s", longest_s, above=True)
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open  # it stands next to us
        self._sampling: Sampling[float] | None = None

    @property
    def source(self) -> str:
        """What it reads; without the rest of the address, which may hold a password."""
        return f"power meter at {self._host}"

    def lacks(self) -> str:
        """Return why it gives no figures here: it is asked once."""
        try:
            self._power_w()
        except Unread as error:
            return str(error)
        return ""

    def begin(self) -> None:
        """Begin a stretch."""
        self.end()
        self._sampling = Sampling(self._power_w, every_s=self._every_s, now_s=self._now_s, wait=self._wait)

    def end(self) -> Energy:
        """End the stretch, and return what it took."""
        sampling, self._sampling = self._sampling, None
        if sampling is None:
            return Energy.unavailable(NOT_BEGUN)
        return energy_of(sampling.end(), self.source, longest_s=self._longest_s)

    def _power_w(self) -> float:
        try:
            with self._open(self._url, timeout=self._timeout_s) as answer:
                text = answer.read(LONGEST_ANSWER).decode()
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            raise Unread(f"{self.source} does not answer: {error}") from error
        watts = _found(text, self._field)
        if not is_finite(watts) or not 0 <= watts <= MOST_W:
            raise Unread(
                f"{self.source} answers {brief(text)}, which has no watts in it: wanted is a number from 0, or a JSON "
                f"object with one at {self._field!r}. Pass field=, if it lies elsewhere."
            )
        return float(watts)


def _host(url: str) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port
    except (ValueError, AttributeError, TypeError):
        parts, host, port = urllib.parse.urlsplit(""), None, None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"url={brief(url)} is no address of a power meter. Pass one as in 'http://10.0.0.7/power'.")
    return host if port is None else f"{host}:{port}"


def _found(text: str, field: str) -> Any:
    """Return the watts in an answer; NaN if they are not there.

    Example:
        >>> _found("71.5", "power"), _found('{"outlets": [{"w": 3}]}', "outlets.0.w")
        (71.5, 3)
    """
    try:
        value = json.loads(text)
        for part in field.split(".") if isinstance(value, dict) else ():
            value = value[int(part)] if isinstance(value, list) else value[part]
    except (ValueError, LookupError, TypeError, RecursionError):
        return math.nan
    return value
