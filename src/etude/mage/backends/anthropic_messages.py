"""Anthropic's models, by its official SDK."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from etude.mage.backends.capabilities import Capability
from etude.mage.backends.protocol import Message, Reply, Request, StopReason, Usage
from etude.mage.backends.services import Service
from etude.mage.backends.wording import instructions_of, turns

if TYPE_CHECKING:
    from etude.mage.backends.wire import Call

STOPS: Final = {
    "end_turn": StopReason.COMPLETE,
    "stop_sequence": StopReason.COMPLETE,
    "max_tokens": StopReason.CUT_OFF,
    "model_context_window_exceeded": StopReason.CUT_OFF,
    "refusal": StopReason.REFUSED,
}


class AnthropicMessages(Service):
    """Asks one of Anthropic's models."""

    service = "anthropic"
    sdk = "anthropic"
    home = "https://api.anthropic.com"
    home_domain = "anthropic.com"
    key_names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    url_name = "ANTHROPIC_BASE_URL"

    def _tidied(self, url: str) -> str:
        return url.strip().rstrip("/").removesuffix("/v1")  # the SDK adds it

    def _body(self, request: Request, capability: Capability) -> dict[str, Any]:
        in_words = request.schema is not None and not capability.schema
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": min(request.most_tokens, capability.most_output),
            "messages": [
                {"role": role, "content": [{"type": "text", "text": message.text} for message in said]}
                for role, said in turns(request.messages)
            ],
        }
        system = instructions_of(request, schema_in_words=in_words)
        if system:
            body["system"] = system
        if capability.keeps:
            _mark_shared(body["messages"], request.messages)
        if request.schema is not None and capability.schema:
            body["output_config"] = {"format": {"type": "json_schema", "schema": dict(request.schema)}}
        return {**body, **request.sampling}

    def _send(self, body: dict[str, Any], key: str, call: Call) -> Reply:
        import anthropic

        own = {name: body.pop(name) for name in list(body) if name not in WORDS}  # the SDK does not know all of them
        stop: str | None = None
        ended, text, request, model = False, [], "", ""
        tokens: dict[str, int] = {}
        with (
            warnings.catch_warnings(action="ignore", category=DeprecationWarning),  # a model's age is no error of ours
            call.client() as http,
            anthropic.Anthropic(
                api_key=key,
                base_url=self.base_url,
                max_retries=0,
                timeout=http.timeout,
                http_client=http,
                open_telemetry=False,  # a question goes to whom it is for, and to nobody's traces
            ) as client,
            client.messages.create(**body, stream=True, extra_body=own or None) as stream,
        ):
            request = call.headers.get("request-id", "")
            for event in stream:
                if event.type == "message_start":
                    model = event.message.model or ""
                    _note(tokens, event.message.usage)
                elif event.type == "content_block_start" and event.content_block.type == "text":
                    text.append(event.content_block.text or "")
                elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                    text.append(event.delta.text)
                elif event.type == "message_delta":
                    stop = event.delta.stop_reason or stop
                    _note(tokens, event.usage)
                elif event.type == "message_stop":
                    ended = True
        if not ended or stop is None:
            self.ended_early()
        return Reply(
            text="".join(text),
            stop=STOPS.get(stop, StopReason.OTHER),
            usage=_usage(tokens),
            request=request,
            model=model,
        )


WORDS: Final = ("model", "max_tokens", "messages", "system", "output_config")
"""What the SDK's own call takes of what we send."""


def _mark_shared(turns_sent: list[dict[str, Any]], messages: tuple[Message, ...]) -> None:
    """Mark the end of what all variants share, so that the service keeps it, and all before it."""
    shared = 0
    for message in messages:
        if not message.shared:
            break
        shared += bool(message.text)
    blocks = [block for turn in turns_sent for block in turn["content"]]
    if 0 < shared <= len(blocks):
        blocks[shared - 1]["cache_control"] = {"type": "ephemeral"}


def _note(tokens: dict[str, int], usage: Any) -> None:
    for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
        value = getattr(usage, name, None)
        if isinstance(value, int):
            tokens[name] = value


def _usage(tokens: dict[str, int]) -> Usage:
    """Return what was used: the service counts what it had kept, or begins to keep, apart from the rest."""
    cached, written = tokens.get("cache_read_input_tokens"), tokens.get("cache_creation_input_tokens")
    plain = tokens.get("input_tokens")
    return Usage(
        input=None if plain is None else plain + (cached or 0) + (written or 0),
        output=tokens.get("output_tokens"),
        cached=cached,
        written=written,
    )
