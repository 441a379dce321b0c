"""What would be sent, shown before anything is: every byte, to whom, and what stays here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.core.text import count
from etude.mage.asking.budget import most_input
from etude.mage.backends.protocol import Request
from etude.mage.values import Value

LARGEST_SHARE: Final = 0.9
"""So much of what a model takes may be used: guesses of lengths are guesses."""
LESS: Final = (
    "Send less with --most-bytes, say how many tokens it takes with --context if they are more, or name a model that "
    "takes more."
)
"""What mends a question that is too large."""


def text_of(request: Request) -> bytes:
    """Return the text of a question, as it is, in UTF-8."""
    return "".join([request.system, *(message.text for message in request.messages)]).encode("utf-8", "surrogatepass")


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
        context: Tokens that whoever would be asked takes, question and answer together; None if nobody would be.
        sends: Gives what is sent for a question, byte for byte.
    """

    backend: str
    host: str
    requests: Mapping[str, Request]
    sent: tuple[str, ...]
    left_out: Mapping[str, str]
    rules: tuple[str, ...] = ()
    unclear: Mapping[str, tuple[str, ...]] = {}
    is_whole: bool = True
    context: int | None = None
    sends: Callable[[Request], bytes] = text_of

    @property
    def tokens(self) -> dict[str, int]:
        """How many tokens each question may have with its answer, guessed from above."""
        return {name: tokens_of(request) for name, request in self.requests.items()}

    @property
    def too_large(self) -> tuple[str, ...]:
        """The questions that would be refused."""
        context = self.context
        return tuple(n for n, tokens in self.tokens.items() if context is not None and is_too_large(tokens, context))

    @property
    def sizes(self) -> dict[str, int]:
        """How many bytes each question has where it is sent."""
        return {name: len(self.sends(request)) for name, request in self.requests.items()}

    def told(self, *, whole: bool = True) -> str:
        """Return it for a person; with the questions themselves if ``whole``."""
        total = sum(self.sizes.values())
        asked = f"{count(len(self.requests), 'question')} to {self.backend} at {self.host}, {total:,} bytes in all"
        lines = [f"{asked}; repairs come on top." if self.requests else "Nobody would be asked anything."]
        lines += self._told_tokens()
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

    def _told_tokens(self) -> list[str]:
        if self.context is None or not self.requests:
            return []
        name, tokens = max(self.tokens.items(), key=lambda one: one[1])
        lines = [
            f"{self.backend} takes {self.context:,} tokens. The largest question, {name}, may have {tokens:,} with its "
            "answer."
        ]
        if self.too_large:
            most = int(self.context * LARGEST_SHARE)
            lines.append(
                f"It would be refused, and nothing sent: too large for what may be used, {most:,} tokens: "
                f"{', '.join(self.too_large)}. {LESS}"
            )
        return lines

    def for_programs(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "backend": self.backend,
            "host": self.host,
            "bytes": self.sizes,
            "tokens": self.tokens,
            "context": self.context,
            "too_large": list(self.too_large),
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


def tokens_of(request: Request) -> int:
    """Return how many tokens a question may have with its answer, from above."""
    return most_input(request) + request.most_tokens


def is_too_large(tokens: int, context: int) -> bool:
    """Say whether a question and its answer are more than a model may be asked."""
    return tokens > context * LARGEST_SHARE


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
        tokens = tokens_of(request)
        if is_too_large(tokens, context):
            raise ConfigError(
                f"The question for {name} may have {tokens:,} tokens with its answer, and {backend} takes {context:,}. "
                f"It has {count(len(sent), 'file')}. {LESS}"
            )


def _text_of(request: Request) -> list[str]:
    lines = ["── system", request.system.rstrip("\n")]
    for message in request.messages:
        lines += [f"── {message.role}{', the same for all variants' if message.shared else ''}", message.text]
    return lines
