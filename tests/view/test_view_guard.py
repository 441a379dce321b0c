"""The guard: who may look."""

from __future__ import annotations

import pytest

from etude.view.guard import FOREIGN, STRANGE, Guard, Refused, Welcome

OURS = Guard("secret", "127.0.0.1", 8460)
COOKIE = {"etude-view-8460": "secret"}


def test_the_token_of_the_link_goes_into_a_cookie_and_the_cookie_is_enough() -> None:
    assert OURS.link == "http://127.0.0.1:8460/?token=secret"
    assert OURS.decide({"host": "127.0.0.1:8460"}, {"token": "secret"}, {}) == Welcome(anew=True)
    assert OURS.decide({"host": "localhost:8460"}, {}, COOKIE) == Welcome()
    assert Guard("secret", "::1", 8460).link == "http://[::1]:8460/?token=secret"


@pytest.mark.parametrize("cookies", [{}, {"etude-view-8460": "wrong"}, {"etude-view-8461": "secret"}])
@pytest.mark.parametrize("query", [{}, {"token": "wrong"}, {"token": ""}, {"token": "geheim ä"}])
def test_without_the_token_nobody_sees_anything(query: dict[str, str], cookies: dict[str, str]) -> None:
    assert OURS.decide({"host": "127.0.0.1:8460"}, query, cookies) == Refused(STRANGE)


@pytest.mark.parametrize("host", ["evil.example:8460", "127.0.0.1:80", "127.0.0.1", "", "127.0.0.1.evil.example:8460"])
def test_another_name_for_this_address_is_refused_even_with_the_cookie(host: str) -> None:
    assert OURS.decide({"host": host}, {}, COOKIE) == Refused(FOREIGN)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:3000"])
def test_pages_of_others_are_refused_even_with_the_cookie(origin: str) -> None:
    assert OURS.decide({"host": "127.0.0.1:8460", "origin": origin}, {}, COOKIE) == Refused(FOREIGN)
    assert OURS.decide({"host": "127.0.0.1:8460", "origin": "http://127.0.0.1:8460"}, {}, COOKIE) == Welcome()


def test_bound_to_the_world_it_answers_to_any_name_and_still_wants_the_token() -> None:
    guard = Guard("secret", "0.0.0.0", 8460)
    assert guard.decide({"host": "gpu7.lab:8460"}, {}, COOKIE) == Welcome()
    assert guard.decide({"host": "gpu7.lab:8460"}, {}, {}) == Refused(STRANGE)
    assert guard.decide({"host": "gpu7.lab:8460", "origin": "http://evil.example"}, {}, COOKIE) == Refused(FOREIGN)
