"""What a backend is: one question in, one answer out."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

from etude.mage.values import Value


class Message(Value, frozen=True):
    """A turn of a conversation.

    Attributes:
        role: ``user`` or ``assistant``.
        text: What is said.
        shared: Whether it is the same for all variants of a study, so that a service may keep it.
    """

    role: str
    text: str
    shared: bool = False


class Request(Value, frozen=True):
    """A question.

    Attributes:
        system: What holds for all of it.
        messages: The conversation so far; the last one is the user's.
        most_tokens: So many tokens the answer may have.
        schema: The JSON Schema that it has to follow; None for plain text.
        sampling: Parameters of sampling that the user has set; none by default.
    """

    system: str
    messages: tuple[Message, ...]
    most_tokens: int
    schema: Mapping[str, Any] | None = None
    sampling: Mapping[str, float] = {}


class StopReason(StrEnum):
    """Why an answer ended."""

    COMPLETE = "complete"
    CUT_OFF = "cut off"
    REFUSED = "refused"
    OTHER = "other"


class Usage(Value, frozen=True):
    """What a question cost, in tokens, as the service says; None where it says nothing.

    Attributes:
        input: All of the question, kept parts included.
        output: All of the answer, what was thought and not said included.
        cached: So much of the question the service had kept from before.
        written: So much of it the service began to keep.
    """

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    written: int | None = None


class Reply(Value, frozen=True):
    """An answer.

    Attributes:
        text: What was answered.
        stop: Why it ended there.
        usage: What it cost.
        request: The service's number of the request; empty if it has none.
        model: Which model answered, as the service says.
        raw: The answer as it came, without keys; None where there is nothing more than the text.
    """

    text: str
    stop: StopReason = StopReason.COMPLETE
    usage: Usage = Usage()
    request: str = ""
    model: str = ""
    raw: bytes | None = None


class Backend(Protocol):
    """Answers questions. It asks once; whether to ask again is decided elsewhere.

    Attributes:
        name: What it is, as it stands in journals: ``anthropic:claude-...``.
        host: Where questions go: a host name, or ``this machine``.
    """

    name: str
    host: str

    def ask(self, request: Request) -> Reply:
        """Return the answer.

        Raises:
            BackendError: There is none.
        """
        ...
