"""Backends by their names, as they stand on the command line."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from etude.core.errors import BackendError, ConfigError
from etude.mage.backends.anthropic_messages import AnthropicMessages
from etude.mage.backends.capabilities import ELSEWHERE, Capability, capability_of, replaced
from etude.mage.backends.command import Command
from etude.mage.backends.manual import Manual
from etude.mage.backends.openai_chat import OpenAIChat
from etude.mage.backends.protocol import Backend
from etude.mage.backends.scripted import Scripted
from etude.mage.backends.services import Service

SERVICES: Final[Mapping[str, type[Service]]] = {"anthropic": AnthropicMessages, "openai": OpenAIChat}

NAMES: Final = (
    "anthropic:claude-sonnet-5-5",
    "openai:gpt-5",
    "openai:qwen3@http://127.0.0.1:11434/v1",
    "command:llm -m some-model",
    "manual:FOLDER",
    "scripted:FOLDER",
)
"""What names look like."""

ANYBODY: Final = replaced(ELSEWHERE, context=200_000, most_output=32_000)
"""The cautious guess of programs and people."""


def backend_of(
    text: str,
    *,
    base_url: str | None = None,
    local_only: bool = False,
    timeout_s: float = 600.0,
    environment: Mapping[str, str] = os.environ,
    context: int | None = None,
    most_output: int | None = None,
    say: Callable[[str], None] | None = None,
) -> Backend:
    """Return a backend by its name. Nothing is sent, imported or looked for yet: ``check_ready`` does that.

    Args:
        text: Its name: ``anthropic:MODEL``, ``openai:MODEL``, either with ``@URL``, ``command:PROGRAM ARGUMENTS``,
            ``manual:FOLDER`` or ``scripted:FOLDER``.
        base_url: Where a service is asked; it may as well stand in the name.
        local_only: Whether nothing may leave this machine.
        timeout_s: How long an answer may take.
        environment: Where keys are.
        context: How many tokens the model takes, where that is known better than the table does.
        most_output: How many it gives; answers are allowed as many.
        say: Tells a person where a question is that they are asked.

    Raises:
        ConfigError: There is no such backend.
        BackendError: It is not on this machine, or may send things elsewhere, and ``local_only``.
    """
    kind, colon, rest = text.strip().partition(":")
    rest = rest.strip()
    if not colon or not rest or kind not in (*SERVICES, "command", "manual", "scripted"):
        raise ConfigError(f"{text!r} names no backend. Names look like these: {', '.join(NAMES)}.")
    if kind not in SERVICES:
        if base_url is not None:
            raise ConfigError(f"{text!r} is asked on this machine and has no base URL. Leave --base-url out.")
        capability = _told(ANYBODY, context=context, most_output=most_output)
        return _without_network(
            kind,
            rest,
            text,
            local_only=local_only,
            timeout_s=timeout_s,
            environment=environment,
            capability=capability,
            say=say,
        )
    model, at, url = rest.partition("@")
    if at and base_url is not None and url != base_url:
        raise ConfigError(f"{text!r} has an address, and --base-url={base_url!r} another one. Leave one of them out.")
    if not model or (at and not url):
        raise ConfigError(f"{text!r} names no model, or no address. Names look like these: {', '.join(NAMES)}.")
    assumed = capability_of(kind, model, own_host=not (url or base_url))
    return SERVICES[kind](
        model,
        base_url=url or base_url,
        local_only=local_only,
        timeout_s=timeout_s,
        environment=environment,
        capability=_told(assumed, context=context, most_output=most_output),
    )


def check_ready(backend: Backend) -> None:
    """Check what can be before anybody is asked: packages, programs, keys.

    Raises:
        BackendError: Something is missing.
    """
    ready = getattr(backend, "ready", None)
    if ready is not None:
        ready()


def capability_for(backend: Backend) -> Capability:
    """Return what a backend can take and give; of programs and people the cautious guess."""
    found = getattr(backend, "capability", None)
    return found if isinstance(found, Capability) else ANYBODY


def _without_network(
    kind: str,
    rest: str,
    text: str,
    *,
    local_only: bool,
    timeout_s: float,
    environment: Mapping[str, str],
    capability: Capability | None,
    say: Callable[[str], None] | None,
) -> Backend:
    if kind == "manual":
        return Manual(Path(rest), timeout_s=timeout_s, capability=capability, say=say)
    if kind == "scripted":
        return Scripted(Path(rest))
    if local_only:
        raise BackendError(
            f"{text!r} is a program, and nobody can know where it sends things; --local-only was asked for. Give a "
            "server on this machine, such as openai:MODEL@http://127.0.0.1:11434/v1, or leave --local-only out.",
            code="refused host",
        )
    try:
        command = shlex.split(rest)
    except ValueError as error:
        raise ConfigError(f"{text!r} cannot be read as a command: {error}.") from None
    return Command(command, timeout_s=timeout_s, environment=environment, capability=capability)


def _told(assumed: Capability, *, context: int | None, most_output: int | None) -> Capability | None:
    """Return what the user says about a model, beside what is assumed; None if that is nothing."""
    told = {name: n for name, n in (("context", context), ("most_output", most_output)) if n is not None}
    if not told:
        return None
    for name, number in told.items():
        if number < 1:
            raise ConfigError(f"{name}={number} is no number of tokens. Pass 1 or more.")
    usual = assumed.usual if most_output is None else most_output
    return replaced(assumed, **told, usual=usual, known=True)
