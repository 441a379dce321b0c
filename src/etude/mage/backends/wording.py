"""A question as plain text: for programs and people, and for models that cannot be asked in another way."""

from __future__ import annotations

import json
from collections.abc import Iterable

from etude.mage.backends.protocol import Message, Request

JOINT = "\n\n"


def turns(messages: Iterable[Message]) -> list[tuple[str, list[Message]]]:
    """Return a conversation in which the roles take turns: what one says in several messages is one turn of it.

    Empty messages are left out; services refuse them.
    """
    found: list[tuple[str, list[Message]]] = []
    for message in messages:
        if not message.text:
            continue
        if found and found[-1][0] == message.role:
            found[-1][1].append(message)
        else:
            found.append((message.role, [message]))
    return found


def instructions_of(request: Request, *, schema_in_words: bool) -> str:
    """Return what holds for all of a question, and, if it is asked for, in which form to answer.

    Args:
        request: The question.
        schema_in_words: Whether the schema has to be said, since the model cannot be held to it otherwise.
    """
    if request.schema is None or not schema_in_words:
        return request.system
    schema = json.dumps(request.schema, indent=1, ensure_ascii=False)
    form = f"Answer with JSON alone, without a fence around it. It has to follow this JSON Schema:\n{schema}"
    return f"{request.system}{JOINT}{form}" if request.system else form


def as_text(request: Request) -> str:
    """Return a whole question as one text, for whoever reads only that."""
    instructions = instructions_of(request, schema_in_words=True)
    spoken = turns(request.messages)
    if len(spoken) == 1:
        parts = [message.text for message in spoken[0][1]]
    else:
        titles = {"user": "=== The question ===", "assistant": "=== Your answer to that ==="}
        parts = [JOINT.join([titles[role], *(message.text for message in said)]) for role, said in spoken]
    return JOINT.join(part for part in (instructions, *parts) if part) + "\n"
