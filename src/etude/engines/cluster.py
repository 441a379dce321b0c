"""Workers that come by themselves: started with ``etude worker``, by hand or by somebody else's scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from etude.core.errors import ConfigError
from etude.core.numbers import port_to_open
from etude.core.resources import Resources
from etude.core.text import brief
from etude.engines import Door

CREDENTIALS: Final = "credentials.json"
"""In the study's folder, unless another place is named."""


@dataclass
class Cluster:
    """Starts no worker, and lets those in that come with the credentials of this run.

    Each ``etude worker --join`` brings a machine's workers. They may come and go while the study runs: a trial whose
    worker left goes back into the queue.

    Args:
        bind: The address of this machine to listen on. Others reach it at ``0.0.0.0`` or at that of one network.
        port: The port there; 0 for any that is free.
        advertise: Where others reach this machine, if it is not known by ``bind``: a name or an address, or several.
        credentials: The file to write what a worker needs into; ``credentials.json`` in the study's folder if not
            given. Who has it can join the study, so nobody else can read it.

    Raises:
        ConfigError: ``bind`` is no address, or ``port`` no port.

    Example:
        >>> Cluster(bind="0.0.0.0", port=8443).port
        8443
    """

    usual_workers: ClassVar[int] = 1_000
    """So many may come, if the call does not say how many."""

    bind: str = "127.0.0.1"
    port: int = 0
    advertise: str | tuple[str, ...] = ()
    credentials: str | Path | None = None
    _written: Path | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.bind, str) or not self.bind:
            raise ConfigError(f"bind={brief(self.bind)} is no address. Pass one of this machine, or '0.0.0.0' for all.")
        self.port = port_to_open("port", self.port)
        self.advertise = (self.advertise,) if isinstance(self.advertise, str) else tuple(self.advertise)

    def machine(self) -> None:
        """Each machine that joins sees how many workers it has room for."""

    def prepare(self, n: int, resources: Resources | None = None, *, least: int = 1, ranks: int = 1) -> None:
        """See whether the port can be had, before anything of the study is there.

        Raises:
            ConfigError: It cannot.
        """
        from etude.wire.gate import listening_at  # whoever names the engine need not let anybody in

        listening_at(self.bind, self.port).close()

    @property
    def _is_local(self) -> bool:
        return self.bind == "localhost" or self.bind.startswith("127.") or self.bind == "::1"

    def start(self, n: int, door: Door) -> None:
        """Let workers in; how many come is not ours to say."""
        if self._written is None:
            from etude.wire.credentials import write_invitation  # studies know us by name, and most let nobody in

            path = Path(self.credentials or door.folder / CREDENTIALS)
            invitation = door.invite(self.bind, self.port, tuple(self.advertise))
            write_invitation(invitation, path)
            self._written = path
            here = " They can come from this machine alone: bind='0.0.0.0' lets others in." if self._is_local else ""
            door.tell(
                f"Workers may come to {invitation.hosts[0]}, port {invitation.port}: etude worker --credentials "
                f"{path}{here}"
            )

    def end(self, worker: str) -> None:
        """Its node ends it."""

    def stop(self) -> None:
        """Remove the credentials, which are of no use any more: the nodes are sent home with the study."""
        if self._written is not None:
            self._written.unlink(missing_ok=True)
            self._written = None
