"""OpenAI's models, and all that speak its language: Ollama, vLLM, llama.cpp, LM Studio, by OpenAI's official SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from etude.mage.backends.capabilities import Capability
from etude.mage.backends.hosts import read_url
from etude.mage.backends.protocol import Reply, Request, StopReason, Usage
from etude.mage.backends.services import Service
from etude.mage.backends.wording import JOINT, instructions_of, turns

if TYPE_CHECKING:
    from etude.mage.backends.wire import Call

STOPS: Final = {
    "stop": StopReason.COMPLETE,
    "length": StopReason.CUT_OFF,
    "content_filter": StopReason.REFUSED,
}

WORDS: Final = (
    *("model", "messages", "max_tokens", "max_completion_tokens", "response_format", "stream", "stream_options"),
)
"""What the SDK's own call takes of what we send."""


class OpenAIChat(Service):
    """Asks a model in the language of OpenAI's chat completions."""

    service = "openai"
    sdk = "openai"
    home = "https://api.openai.com/v1"
    home_domain = "openai.com"
    key_names = ("OPENAI_API_KEY",)
    url_name = "OPENAI_BASE_URL"

    def _tidied(self, url: str) -> str:
        url = url.strip().rstrip("/")
        return url if read_url(url).path.strip("/") else f"{url}/v1"

    def _body(self, request: Request, capability: Capability) -> dict[str, Any]:
        in_words = request.schema is not None and not capability.schema
        system = instructions_of(request, schema_in_words=in_words)
        spoken = [
            {"role": role, "content": JOINT.join(message.text for message in said)}
            for role, said in turns(request.messages)
        ]
        if system and capability.system:
            spoken = [{"role": "system", "content": system}, *spoken]
        elif system and spoken:
            spoken[0]["content"] = f"{system}{JOINT}{spoken[0]['content']}"
        body: dict[str, Any] = {
            "model": self.model,
            "messages": spoken,
            capability.limit_field: min(request.most_tokens, capability.most_output),
            "stream": True,
        }
        if capability.tells_usage:
            body["stream_options"] = {"include_usage": True}
        if request.schema is not None and capability.schema:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": dict(request.schema)},
            }
        return {**body, **request.sampling}

    def _send(self, body: dict[str, Any], key: str, call: Call) -> Reply:
        import openai

        own = {name: body.pop(name) for name in list(body) if name not in WORDS}
        stop, model, refused = "", "", False
        text: list[str] = []
        usage = Usage()
        with (
            call.client() as http,
            openai.OpenAI(
                api_key=key, base_url=self.base_url, max_retries=0, timeout=http.timeout, http_client=http
            ) as client,
            client.chat.completions.create(**body, extra_body=own or None) as stream,
        ):
            for chunk in stream:
                model = chunk.model or model
                if chunk.usage is not None:
                    usage = _usage(chunk.usage)
                for choice in chunk.choices or ():
                    stop = choice.finish_reason or stop
                    if choice.delta is None:
                        continue
                    if choice.delta.refusal:
                        refused = True
                        text.append(choice.delta.refusal)
                    text.append(choice.delta.content or "")
        if not stop:
            self.ended_early()
        return Reply(
            text="".join(text),
            stop=StopReason.REFUSED if refused else STOPS.get(stop, StopReason.OTHER),
            usage=usage,
            request=call.headers.get("x-request-id", ""),
            model=model,
        )


def _usage(told: Any) -> Usage:
    details = getattr(told, "prompt_tokens_details", None)
    return Usage(
        input=told.prompt_tokens, output=told.completion_tokens, cached=getattr(details, "cached_tokens", None)
    )
