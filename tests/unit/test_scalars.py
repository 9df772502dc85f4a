from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.scalars import UnsafeNumber, plain


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "on",
        "yes",
        "y",
        "1:30",
        "0123",
        "-012",
        "01e3",
        "2024-01-01",
        "2024-13-45",
        "1_000",
        "tRue",
        "0b1",
        "1e",
        ".",
        "+",
        "-",
        "0x",
        "0o8",
        "0xg",
        "1.2.3",
        "12e34abc",
        ".infinity",
        "nan",
        "=",
        "<<",
    ],
)
def test_text_stays_text(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("FALSE", False),
        ("0", 0),
        ("-0", 0),
        ("+12", 12),
        ("123456789012345678", 123456789012345678),
        ("-123456789012345678", -123456789012345678),
        ("0o17", 15),
        ("0x1F", 31),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("4.10", 4.1),
        ("1e3", 1000.0),
        ("-1.5E-2", -0.015),
    ],
)
def test_core_schema(text: str, value: object) -> None:
    found = plain(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1234567890123456789", "has more than 18 digits"),
        ("9" * 5000, "has more than 18 digits"),
        ("0x" + "f" * 17, "has more than 18 digits"),
        ("1e999", "is not finite"),
        (".inf", "is not finite"),
        ("-.INF", "is not finite"),
        (".nan", "is not finite"),
        ("1." + "0" * 5000, "has more than 64 characters"),
    ],
)
def test_unsafe_numbers_are_refused(text: str, why: str) -> None:
    with pytest.raises(UnsafeNumber, match=why):
        plain(text)


@given(st.text("0123456789+-.eExob_:", max_size=30))
@settings(deadline=None)
def test_anything_is_a_value_or_unsafe(text: str) -> None:
    try:
        assert isinstance(plain(text), (str, int, float, type(None)))
    except UnsafeNumber as error:
        assert str(error)  # noqa: PT017  (either outcome is right)
