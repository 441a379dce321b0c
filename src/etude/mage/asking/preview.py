"""What would be sent, shown before anything is: every byte, to whom, and what stays here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.core.text import count
from etude.mage.asking.budget import most_input
from etude.mage.backends.protocol import Request
from etude.mage.values import Value

LARGEST_SHARE: Final = 0.9
"""So much of what a model takes may be used: guesses of lengths are guesses."""


class Preview(Value, frozen=True):
    """What would be sent.

    Attributes:
        backend: Who would be asked.
        host: Where it goes.
        requests: For each variant, the first question.
        sent: The files whose contents go.
        left_out: The others, and why.
        rules: Variants for which nobody is asked.
        unclear: Variants that nobody is asked for, since they can be read in several ways: which.
        is_whole: Whether what the untouched program did is among it; it is sent as well, and known once that has run.
    """

    backend: str
    host: str
    requests: Mapping[str, Request]
    sent: tuple[str, ...]
    left_out: Mapping[str, str]
    rules: tuple[str, ...] = ()
    unclear: Mapping[str, tuple[str, ...]] = {}
    is_whole: bool = True

    @property
    def sizes(self) -> dict[str, int]:
        """How many bytes each question has."""
        return {name: size_of(request) for name, request in self.requests.items()}

    def told(self, *, whole: bool = True) -> str:
        """Return it for a person; with the questions themselves if ``whole``."""
        total = sum(self.sizes.values())
        asked = f"{count(len(self.requests), 'question')} to {self.backend} at {self.host}, {total:,} bytes in all"
        lines = [f"{asked}; repairs come on top." if self.requests else "Nobody would be asked anything."]
        lines += [f"By rules, without asking: {', '.join(self.rules)}."] if self.rules else []
        for name, readings in self.unclear.items():
            lines.append(f"Not asked for, since it can be read in several ways: {name}: {'; '.join(readings)}.")
        if not self.is_whole:
            lines.append("What the untouched program does (parameters, calls, columns) comes on top, once it has run.")
        lines += ["", f"Sent: {count(len(self.sent), 'file')}", *(f"  {path}" for path in self.sent)]
        lines += ["", f"Left out: {count(len(self.left_out), 'file')}"]
        lines += [f"  {path}: {why}" for path, why in self.left_out.items()]
        for name, request in self.requests.items():
            lines += ["", f"══ {name}: {self.sizes[name]:,} bytes, at most {request.most_tokens:,} tokens back"]
            lines += _text_of(request) if whole else []
        return "\n".join(lines)

    def for_programs(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "backend": self.backend,
            "host": self.host,
            "bytes": self.sizes,
            "sent": list(self.sent),
            "left_out": dict(self.left_out),
            "rules": list(self.rules),
            "unclear": {name: list(readings) for name, readings in self.unclear.items()},
            "is_whole": self.is_whole,
            "requests": {
                name: {
                    "system": request.system,
                    "messages": [{"role": one.role, "text": one.text} for one in request.messages],
                    "most_tokens": request.most_tokens,
                }
                for name, request in self.requests.items()
            },
        }


def size_of(request: Request) -> int:
    """Return how many bytes of text a question has, in UTF-8."""
    return sum(len(text.encode()) for text in (request.system, *(message.text for message in request.messages)))


def refuse_too_large(requests: Mapping[str, Request], *, context: int, backend: str, sent: Sequence[str]) -> None:
    """Refuse questions that a model cannot take, before any is asked.

    Args:
        requests: For each variant, the first question.
        context: How many tokens question and answer may have together.
        backend: Who would be asked.
        sent: The files whose contents go.

    Raises:
        ConfigError: One is too large.
    """
    for name, request in requests.items():
        tokens = most_input(request) + request.most_tokens
        if tokens > context * LARGEST_SHARE:
            raise ConfigError(
                f"The question for {name} may have {tokens:,} tokens with its answer, and {backend} takes {context:,}. "
                f"It has {count(len(sent), 'file')}. Send less with --most-bytes, say how many tokens it takes with "
                "--context if they are more, or name a model that takes more."
            )


def _text_of(request: Request) -> list[str]:
    lines = ["── system", request.system.rstrip("\n")]
    for message in request.messages:
        lines += [f"── {message.role}{', the same for all variants' if message.shared else ''}", message.text]
    return lines
