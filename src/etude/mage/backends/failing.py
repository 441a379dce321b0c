"""What a service means when it does not answer: its status, codes and words, as errors of ours."""

# ruff: noqa: PLR2004 - the numbers are HTTP's own

from __future__ import annotations

import email.utils
import math
from collections.abc import Mapping
from typing import Any, Final

from etude.core.errors import BackendError
from etude.mage.values import Value

NO_MORE_MONEY: Final = ("spend_limit", "insufficient_quota", "credit_balance", "usage_limit", "billing")
"""What is in codes that say that the account may spend no more."""

NO_MORE_MONEY_IN_WORDS: Final = ("api usage limits", "credit balance is too low", "exceeded your current quota")
"""The same in messages, where a service gives no code."""

TOO_LONG: Final = ("prompt is too long", "maximum context length", "context_length_exceeded", "context window")

LONGEST_WORDS: Final = 600
"""So many characters of a service's message are passed on."""


class Said(Value, frozen=True):
    """What a service says about a failure.

    Attributes:
        message: In words.
        type: Its kind, such as ``rate_limit_error``.
        code: Its cause, such as ``insufficient_quota``.
        param: The parameter that it is about.
    """

    message: str = ""
    type: str = ""
    code: str = ""
    param: str = ""

    @property
    def all(self) -> str:
        """All of it, for a search."""
        return f"{self.type} {self.code} {self.param} {self.message}".lower()


def what_was_said(body: object) -> Said:
    """Return what the body of a failure says, in either service's form, or in none."""
    if not isinstance(body, Mapping):
        return Said(message=str(body or "")[:LONGEST_WORDS])
    error: Any = body.get("error", body)
    if not isinstance(error, Mapping):
        return Said(message=str(error)[:LONGEST_WORDS])
    details = error.get("details")
    cause = details.get("error_code") if isinstance(details, Mapping) else None
    return Said(
        message=str(error.get("message") or "")[:LONGEST_WORDS],
        type=str(error.get("type") or ""),
        code=str(cause or error.get("code") or ""),
        param=str(error.get("param") or ""),
    )


class ServiceError(BackendError):
    """A service's own word that there is no answer.

    Attributes:
        said: What it says.
    """

    said = Said()


def failure(
    service: str,
    status: int | None,
    said: Said,
    *,
    headers: Mapping[str, str] | None = None,
    now_s: float | None = None,
) -> ServiceError:
    """Return the error for an answer that is none.

    Args:
        service: ``anthropic`` or ``openai``: whose language is spoken.
        status: The HTTP status; None if the answer had begun, and failed on its way.
        said: What the service says.
        headers: Those of the answer.
        now_s: The time, in seconds since 1970, for a wait that is given as a date.
    """
    found = {name.lower(): value for name, value in (headers or {}).items()}
    after_s = wait_in(found, now_s=now_s)
    code, may_retry = _kind(service, status, said, after_s, has_wait="retry-after" in found)
    if found.get("x-should-retry") == "false":
        may_retry = False
    error = ServiceError(
        _words(service, status, said, code, has_wait="retry-after" in found),
        code=code,
        may_retry=may_retry,
        after_s=after_s,
        status=status,
    )
    error.said = said
    return error


def wait_in(headers: Mapping[str, str], *, now_s: float | None = None) -> float | None:
    """Return how many seconds a service wants to be left alone; None if it does not say.

    Args:
        headers: Of its answer, with small letters.
        now_s: The time; a date is held against the service's own one if it gives one.
    """
    try:
        return max(float(headers["retry-after-ms"]) / 1000, 0.0)
    except (KeyError, ValueError):
        text = headers.get("retry-after", "")
    try:
        wait_s = float(text)
        return math.inf if math.isnan(wait_s) else max(wait_s, 0.0)
    except ValueError:
        until, server_s = _seconds(text), _seconds(headers.get("date", ""))
    now_s = server_s if server_s is not None else now_s
    return max(until - now_s, 0.0) if until is not None and now_s is not None else None


def _seconds(text: str) -> float | None:
    parts = email.utils.parsedate_tz(text) if text else None
    return float(email.utils.mktime_tz(parts)) if parts is not None else None


def _kind(service: str, status: int | None, said: Said, after_s: float | None, *, has_wait: bool) -> tuple[str, bool]:
    """Return what kind of failure it is, and whether asking again could help."""
    named, words = f"{said.type} {said.code}".lower(), said.message.lower()
    midway = status is None
    no_money = any(word in named for word in NO_MORE_MONEY) or any(word in words for word in NO_MORE_MONEY_IN_WORDS)
    # Of a rate that passes Anthropic says when.
    silent = service == "anthropic" and status == 429 and not has_wait
    rules = (
        (status == 402 or no_money or silent, "spend limit", False),
        (status == 429 or (midway and "rate_limit" in named), "rate limit", after_s is None or math.isfinite(after_s)),
        (status == 529 or "overloaded" in named, "overloaded", True),
        (status in (401, 403) or (midway and "authentication" in named), "key", False),
        (status == 404, "unknown model", False),
        (status == 413 or any(told in said.all for told in TOO_LONG), "too large", False),
        (midway or status in (408, 409) or (status or 0) >= 500, "server", True),
        (True, "bad request", False),
    )
    return next((kind, may_retry) for holds, kind, may_retry in rules if holds)


def _words(service: str, status: int | None, said: Said, code: str, *, has_wait: bool) -> str:
    """Return the failure in words, with the mend where there is one."""
    if code == "spend limit":
        return _spend_words(service, status, said, has_wait=has_wait)
    at = f"{status}" if status is not None else "in the middle of the answer"
    named = f", {said.code or said.type}" if said.code or said.type else ""
    begins = {
        "rate limit": "Provider is asked too often",
        "overloaded": "Provider is overloaded",
        "key": "Provider does not take the key",
        "unknown model": "Provider does not know the model, or the address is not its own",
        "too large": "Provider says that the question is too long",
        "server": "Provider failed",
    }.get(code, "Provider does not take the request")
    mend = {
        "key": " Check the key in the environment, and what it may be used for.",
        "unknown model": " Check how it is spelled, and the base URL.",
        "too large": " Send fewer files, or ask a model that takes more.",
    }.get(code, "")
    told = f": {said.message}" if said.message else ""
    stop = "" if told.endswith((".", "!", "?")) else "."
    return f"{begins} ({at}{named}){told}{stop}{mend}"


def _spend_words(service: str, status: int | None, said: Said, *, has_wait: bool) -> str:
    """Return in words that the account may spend no more."""
    why = said.code if any(word in said.code for word in NO_MORE_MONEY) else said.type
    named = any(word in why for word in NO_MORE_MONEY)
    if service == "anthropic" and status == 429 and not has_wait:
        return "Provider says the monthly spend limit is reached (429, no retry-after)."
    what = (
        "the spend limit"
        if "spend_limit" in why or "usage limits" in said.message.lower()
        else "the end of what is paid"
    )
    return f"Provider says {what} is reached ({status}{f', {why}' if named else ''})."
