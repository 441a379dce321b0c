"""What models can take and give: a table that is data, and what is learned of a model that is not in it."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Final, Literal

from etude.mage.values import Value

LimitField = Literal["max_tokens", "max_completion_tokens"]

MOST_TOKENS: Final = 8_192
"""So many tokens an answer may have, unless somebody says otherwise."""


class Capability(Value, frozen=True):
    """What a model can do, and how it wants to be asked.

    Attributes:
        context: Tokens of question and answer together.
        most_output: Tokens of an answer.
        limit_field: What the limit of an answer is called in a request.
        schema: Whether it can be held to a JSON Schema.
        keeps: Whether it keeps the beginning of a question that is marked, so that it is cheaper the next time.
        system: Whether instructions have a place of their own; if not, they go before the first message.
        tells_usage: Whether a streamed answer has to be asked for what it cost.
        edits: What it gets right most often: ``symbols``, or ``whole`` files.
        known: Whether all this is known, and not only assumed.
        usual: Tokens that an answer is allowed where the model gives as many.
    """

    context: int
    most_output: int
    limit_field: LimitField = "max_tokens"
    schema: bool = False
    keeps: bool = False
    system: bool = True
    tells_usage: bool = True
    edits: Literal["symbols", "whole"] = "symbols"
    known: bool = True
    usual: int = MOST_TOKENS

    @property
    def answer(self) -> int:
        """Tokens that an answer is allowed."""
        return min(self.usual, self.most_output)


def _claude(context: int, most_output: int, *, schema: bool = True) -> Capability:
    return Capability(context=context, most_output=most_output, schema=schema, keeps=True)


def _gpt(context: int, most_output: int, *, schema: bool = True, system: bool = True) -> Capability:
    return Capability(
        context=context, most_output=most_output, limit_field="max_completion_tokens", schema=schema, system=system
    )


CHECKED: Final = "2026-11"
"""When the table was last held against what the services say."""

ANTHROPIC: Final[tuple[tuple[str, Capability], ...]] = (
    ("claude-3-5-*", _claude(200_000, 8_192, schema=False)),
    ("claude-3-7-*", _claude(200_000, 64_000, schema=False)),
    ("claude-3-*", _claude(200_000, 4_096, schema=False)),
    ("claude-opus-4-[01]*", _claude(200_000, 32_000, schema=False)),
    ("claude-opus-4-20*", _claude(200_000, 32_000, schema=False)),
    ("claude-sonnet-4-0*", _claude(200_000, 64_000, schema=False)),
    ("claude-sonnet-4-20*", _claude(200_000, 64_000, schema=False)),
    ("claude-*-4-5*", _claude(200_000, 64_000)),
    ("claude-haiku-*", _claude(200_000, 64_000)),
    ("claude-*-4-[6-9]*", _claude(1_000_000, 128_000)),
    ("claude-*-5*", _claude(1_000_000, 128_000)),
    ("*", Capability(context=200_000, most_output=8_192, keeps=True, known=False)),
)
"""Anthropic's models; the first pattern that fits counts."""

OPENAI: Final[tuple[tuple[str, Capability], ...]] = (
    ("gpt-3.5*", _gpt(16_385, 4_096, schema=False)),
    ("gpt-4o-2024-05-13", _gpt(128_000, 4_096, schema=False)),
    ("gpt-4o*", _gpt(128_000, 16_384)),
    ("gpt-4.1*", _gpt(1_000_000, 32_768)),
    ("gpt-4-turbo*", _gpt(128_000, 4_096, schema=False)),
    ("gpt-4-*preview", _gpt(128_000, 4_096, schema=False)),
    ("gpt-4*", _gpt(8_192, 4_096, schema=False)),
    ("o1-mini*", _gpt(128_000, 65_536, schema=False, system=False)),
    ("o1-preview*", _gpt(128_000, 32_768, schema=False, system=False)),
    ("o[134]*", _gpt(200_000, 100_000)),
    ("gpt-5*chat*", _gpt(128_000, 16_384)),
    ("gpt-[56]*", _gpt(400_000, 128_000)),
    (
        "*",
        Capability(context=128_000, most_output=16_384, limit_field="max_completion_tokens", known=False),
    ),
)
"""Models of OpenAI itself."""

ELSEWHERE: Final = Capability(context=8_192, most_output=4_096, edits="whole", known=False)
"""Any model behind another address: servers on one's own machine read no more than they were started with, and some
cut a longer question silently. Who knows better says so."""


def capability_of(service: str, model: str, *, own_host: bool = True) -> Capability:
    """Return what is known of a model, or what is assumed of one that is not.

    Args:
        service: ``anthropic`` or ``openai``: whose language is spoken.
        model: The model.
        own_host: Whether it is asked at the service itself, and not at another address.

    Example:
        >>> capability_of("anthropic", "claude-sonnet-4-5").most_output
        64000
    """
    if service == "openai" and not own_host:
        return ELSEWHERE
    table = ANTHROPIC if service == "anthropic" else OPENAI
    return next(capability for pattern, capability in table if fnmatchcase(model, pattern))


def corrected(capability: Capability, said: str) -> Capability | None:
    """Return what is known better after a service turned a request down; None if it was about something else.

    Args:
        capability: What was assumed.
        said: The service's message, and the name of the parameter if it gives one.
    """
    text = said.lower()
    other: LimitField = "max_tokens" if capability.limit_field == "max_completion_tokens" else "max_completion_tokens"
    about_limit = "max_tokens" in text or "max_completion_tokens" in text
    if about_limit and any(word in text for word in ("unsupported", "not supported", "unrecognized", "not permitted")):
        return replaced(capability, limit_field=other)
    if about_limit and (most := _least_number(text)) is not None and most < capability.most_output:
        return replaced(capability, most_output=most)
    if capability.schema and any(word in text for word in ("response_format", "json_schema", "output_config")):
        return replaced(capability, schema=False)
    if capability.tells_usage and "stream_options" in text:
        return replaced(capability, tells_usage=False)
    if capability.system and "system" in text and "role" in text:
        return replaced(capability, system=False)
    return None


def replaced(capability: Capability, **changed: object) -> Capability:
    """Return a capability with some fields changed."""
    fields = {name: getattr(capability, name) for name in capability.__struct_fields__}
    return Capability(**{**fields, **changed})


def _least_number(text: str) -> int | None:
    """Return the smallest number of tokens that a text names: of what was asked and what is allowed, the latter."""
    numbers = [int(found.replace(",", "")) for found in re.findall(r"\b\d[\d,]{2,}\b", text)]
    return min(numbers, default=None)
