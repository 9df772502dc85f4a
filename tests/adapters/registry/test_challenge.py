from __future__ import annotations

import pytest

from reconciler.adapters.registry.challenge import Challenge, Scheme, parse_challenges

BEARER = Challenge(Scheme.BEARER, "https://auth.example.com/token", "registry.example.com")


@pytest.mark.parametrize(
    "headers",
    [
        ['Bearer realm="https://auth.example.com/token",service="registry.example.com"'],
        [
            'bearer  realm = "https://auth.example.com/token" , SERVICE="registry.example.com",'
            'scope="repository:os:pull,push"'
        ],
        ["Bearer realm=https://auth.example.com/token,service=registry.example.com"],
        [r'Bearer realm="https://auth.example.com/\token",service="registry.example.com"'],
        ['Basic realm="x"', 'Bearer realm="https://auth.example.com/token",service="registry.example.com"'],
        ['Basic realm="a, b", Bearer realm="https://auth.example.com/token",service="registry.example.com"'],
        ['Negotiate YII==, Bearer realm="https://auth.example.com/token",service="registry.example.com"'],
    ],
)
def test_bearer_is_found_among_all_challenges(headers: list[str]) -> None:
    assert parse_challenges(headers) == BEARER


@pytest.mark.parametrize("headers", [["Basic"], ['Basic realm="x"'], ['Digest realm="y"', "BASIC realm=x"]])
def test_basic_is_taken_where_there_is_no_bearer(headers: list[str]) -> None:
    assert parse_challenges(headers) == Challenge(Scheme.BASIC)


def test_a_service_is_optional() -> None:
    assert parse_challenges(['Bearer realm="https://a.example.com"']) == Challenge(
        Scheme.BEARER, "https://a.example.com"
    )


@pytest.mark.parametrize("headers", [[], [""], ["Negotiate"], ["Bearer"], ['="'], ['Bearer realm="unclosed']])
def test_nothing_understood_is_none(headers: list[str]) -> None:
    assert parse_challenges(headers) is None


def test_a_huge_header_is_cut() -> None:
    assert parse_challenges(["," * 1_000_000 + 'Bearer realm="https://a.example.com"']) is None
