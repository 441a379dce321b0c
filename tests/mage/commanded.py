"""The real command, in processes of its own, beside a small program, and a model whose words we know."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from llm_server import Step

from etude.core.events import Prepared
from etude.mage.loop.book import Did, Record
from etude.mage.loop.session import read
from etude.store.journal import Journal

PATIENCE_S: Final = 300.0
"""How long a command may take; none is waited for longer than it needs."""
ETUDE: Final = (sys.executable, "-c", "from etude.cli import main; main()")
KEY: Final = "sk-whole-way-0123456789abcdef0123456789"

PROGRAM: Final = '''\
"""Trains a small network on points that are drawn."""

import argparse
import json
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.fc2 = nn.Linear(16, 24)  # ABLATABLE_COMPONENT(with=none)
        self.fc3 = nn.Linear(24, 3)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def points(n, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 8, generator=generator)
    return TensorDataset(x, (x[:, :3] * x[:, 3:6]).argmax(1))


def accuracy(net, loader):
    net.eval()
    with torch.no_grad():
        right = sum((net(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    train = DataLoader(points(256, 1), batch_size=32, shuffle=True)
    valid = DataLoader(points(128, 2), batch_size=128)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(4):
        net.train()
        for x, y in train:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # ABLATABLE_COMPONENT
            optimizer.step()
    Path("metrics.json").write_text(json.dumps({"accuracy": accuracy(net, valid)}))


if __name__ == "__main__":
    main()
'''
FC2: Final = "without-fc2"
CLIP: Final = "without-clip_grad_norm"
ENTRY: Final = ("--entry", "python train.py --seed {seed}")
METRIC: Final = ("--metric", "metrics.json:accuracy")


def reply(width: int) -> str:
    """Return an answer that takes ``fc2`` out, and gives ``fc3`` so many inputs."""
    return f"""\
`fc2` goes, and `fc3` gets what `fc1` gives.

```python file=train.py symbol=Net.__init__
def __init__(self):
    super().__init__()
    self.fc1 = nn.Linear(8, 16)
    self.fc3 = nn.Linear({width}, 3)
```

```python file=train.py symbol=Net.forward
def forward(self, x):
    x = F.relu(self.fc1(x))
    return self.fc3(F.relu(x))
```
"""


READY: Final = Step("ready")
"""Answers the question whether anybody is there."""
FORGOTTEN: Final = Step(reply(24), usage=(900, 120, 0, 0))
"""The shape of ``fc3`` is forgotten, as in the paper."""
MENDED: Final = Step(reply(16), usage=(1100, 130, 0, 0))


class Held(threading.Event):
    """Holds an answer back, and tells when its question has come."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        """Note that the server has the question, and hold it."""
        self.came.set()
        return super().wait(timeout)


class Mage:
    """The command, in a folder of its own, as somebody calls it there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.endswith(("_KEY", "_TOKEN"))}
        self.environment = {
            **kept,
            "ETUDE_STUDIES": str(folder / "studies"),
            "TMPDIR": str(self.temporary),
            "ETUDE_API_KEY": KEY,
            "ANTHROPIC_API_KEY": KEY,
            "COLUMNS": "200",
            "USER": "ada",
            "NO_COLOR": "1",
        }

    def started(self, *args: str, **how: Any) -> subprocess.Popen[str]:
        """Start a command of the mage."""
        return subprocess.Popen([*ETUDE, "mage", *args], cwd=self.folder, env=self.environment, text=True, **how)

    def __call__(self, *args: str, code: int = 0) -> str:
        """Run a command to its end, and return what it printed."""
        return self.both(*args, code=code)[0]

    def both(self, *args: str, code: int = 0) -> tuple[str, str]:
        """Run a command to its end, and return what it printed and what it told meanwhile."""
        with self.started(*args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == code, f"{args} left with {process.returncode}:\n{out}\n{err}"
        return out, err

    def etude(self, *args: str) -> None:
        """Run a command that is none of the mage."""
        subprocess.run([*ETUDE, *args], cwd=self.folder, env=self.environment, check=True, timeout=PATIENCE_S)

    def killed(self, *args: str, at: str, once: threading.Event | None = None) -> str:
        """Start a command, kill it when it tells something, and return what it told until then.

        Args:
            args: The command.
            at: What it tells.
            once: What is waited for besides.
        """
        told = ""
        with self.started(
            *args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                told += line
                if at in line:
                    break
            if once is not None:
                assert once.wait(PATIENCE_S), told
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL, told
        self.wait_for_children()
        return told

    def wait_for_children(self) -> None:
        """Wait until no program runs any more that a command has started; fail if one stays."""
        mark, until = os.fsencode(self.temporary), time.monotonic() + PATIENCE_S
        while left := [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark in _content(path)]:
            assert time.monotonic() < until, [_content(path) for path in left]
            time.sleep(0.02)

    @contextmanager
    def on_a_terminal(self, *args: str, code: int) -> Iterator[int]:
        """Run a command on a terminal of its own, and give our end of it."""
        ours, theirs = pty.openpty()
        try:
            with self.started(*args, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
                os.close(theirs)
                try:
                    yield ours
                    until(ours, None)
                    assert process.wait(PATIENCE_S) == code
                finally:
                    process.kill()
        finally:
            os.close(ours)

    @property
    def record(self) -> Record:
        """What lies in the journal."""
        return read(self.folder / "studies" / "project")

    def facts(self) -> list[Prepared]:
        """Return what was written down, in its order."""
        with closing(Journal.read(self.folder / "studies" / "project")) as journal:
            return [fact for fact in journal.facts_but_reports() if isinstance(fact, Prepared)]

    def did(self, what: Did) -> list[Prepared]:
        """Return what was written down of one kind."""
        return [fact for fact in self.facts() if fact.what == what]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


def until(terminal: int, text: str | None, *, after: str = "") -> str:
    """Read from a terminal until a text has come, behind another one; without one, until the other end is closed."""
    got, first = b"", after.encode()
    while text is None or first not in got or text.encode() not in got[got.find(first) :]:
        assert select.select([terminal], [], [], PATIENCE_S)[0], f"{text!r} did not come: {got!r}"
        try:
            more = os.read(terminal, 4096)
        except OSError:  # Linux says so when the last writer has gone
            more = b""
        if not more:
            assert text is None, f"{text!r} did not come: {got!r}"
            break
        got += more
    return got.decode()
