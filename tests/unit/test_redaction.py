from __future__ import annotations

import json
from base64 import b64encode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.redaction import MASK, Redactor

SECRETS = st.text(min_size=4, max_size=40).filter(lambda text: len(text.strip()) >= 4 and "*" not in text)


@given(SECRETS, st.text(max_size=20), st.text(max_size=20))
def test_a_secret_is_masked_in_every_spelling(secret: str, before: str, after: str) -> None:
    redactor = Redactor()
    redactor.add(secret)
    part = secret.strip()
    for spelling in (part, quote(part, safe=""), json.dumps(part)[1:-1], repr(part)[1:-1]):
        assert spelling not in redactor.clean(f"{before} {spelling} {after}").replace(before, "").replace(
            after, ""
        )
    encoded = b64encode(part.encode("utf-8", "surrogateescape")).decode()
    assert encoded not in redactor.clean(f"x {encoded} y")


def test_a_secret_within_a_secret_leaves_no_rest() -> None:
    redactor = Redactor()
    redactor.add("tiger")
    redactor.add("tiger-and-more")
    assert redactor.clean("say tiger-and-more, tiger") == f"say {MASK}, {MASK}"


def test_each_line_of_a_key_is_secret() -> None:
    redactor = Redactor()
    redactor.add("first-line\nsecond-line\n")
    assert redactor.clean("... second-line ...") == f"... {MASK} ..."


def test_a_replaced_secret_stays_secret() -> None:
    redactor = Redactor()
    redactor.add("old-password")
    redactor.add("new-password")
    assert redactor.clean("old-password new-password") == f"{MASK} {MASK}"


def test_what_is_too_short_to_be_a_secret_masks_nothing() -> None:
    redactor = Redactor()
    redactor.add("", "a", "  b ")
    assert redactor.clean("a banana") == "a banana"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("https://ada:tiger@host/x", "https://***@host/x"),
        ("https://ada:ti@ger@host/x y@z", "https://***@host/x y@z"),
        ("git@host:path", "git@host:path"),
        ("Authorization: Basic YWRhOnRpZ2Vy", "Authorization: Basic ***"),
        ("{'authorization': 'Bearer abcdefghijkl'}", "{'authorization': 'Bearer ***'}"),
        ("sent bearer abcdefghijkl to it", "sent bearer *** to it"),
        (
            "a -----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb\n-----END OPENSSH PRIVATE KEY----- z",
            "a *** private key *** z",
        ),
        ("a -----BEGIN PRIVATE KEY-----\nb3Blb", "a *** private key ***"),
        ("basic facts", "basic facts"),
    ],
)
def test_what_looks_like_a_secret_is_masked_unasked(text: str, clean: str) -> None:
    assert Redactor().clean(text) == clean
