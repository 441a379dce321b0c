"""The meters of zeus, for those who have it: it knows GPUs of AMD, and processors by way of its own service."""

from __future__ import annotations

import importlib
from typing import Any, Final, final

from etude.system.energy import Energy, Label
from etude.system.meters.meter import NOT_BEGUN

WINDOW: Final = "etude"
INSTALL: Final = "the package zeus is missing. Install it: pip install 'etude[zeus]'."


@final
class Zeus:
    """What zeus finds of GPUs, processors and memory; only what it does find is in the figure, and named.

    Args:
        monitor: A ``ZeusMonitor``; None for one of all that it finds, imported and made here and not before.
        needs_gpus: Whether a figure without GPUs would be of no use.
    """

    label: Final = Label.MEASURED

    def __init__(self, monitor: Any = None, *, needs_gpus: bool = False) -> None:
        self._has_begun = False
        self._lacks = ""
        try:
            self._monitor = importlib.import_module("zeus.monitor").ZeusMonitor() if monitor is None else monitor
        except ImportError:
            self._lacks = INSTALL
        except Exception as error:  # each of its devices has errors of its own
            self._lacks = f"zeus does not start: {error}"
        else:
            found = self._monitor.gpu_indices or ([] if needs_gpus else self._monitor.cpu_indices)
            self._lacks = "" if found else f"zeus finds no GPU{'' if needs_gpus else ', and no processor'} that tells."

    @property
    def source(self) -> str:
        """What it reads."""
        return "zeus"

    def lacks(self) -> str:
        """Return why it gives no figures here."""
        return self._lacks

    def begin(self) -> None:
        """Begin a stretch."""
        if not self._lacks:
            try:
                self._monitor.begin_window(WINDOW, sync_execution=False, restart=True)
                self._has_begun = True
            except Exception as error:
                self._lacks = f"zeus failed: {error}"

    def end(self) -> Energy:
        """End the stretch, and return what it took."""
        if self._lacks or not self._has_begun:
            return Energy.unavailable(self._lacks or NOT_BEGUN)
        self._has_begun = False
        try:
            window = self._monitor.end_window(WINDOW, sync_execution=False)
        except Exception as error:
            return Energy.unavailable(f"zeus failed: {error}")
        parts = {"GPUs": window.gpu_energy, "processors": window.cpu_energy, "memory": window.dram_energy}
        told = {name: sum(joules.values()) for name, joules in parts.items() if joules}
        source = f"{self.source}: {', '.join(told) or 'nothing found'}"
        if not told or min(told.values()) <= 0:
            return Energy.unavailable(f"{source}, where a counter did not go up")
        return Energy.measured(sum(told.values()), source)
