"""Blanks between words: shortened where they certainly only divide words, kept wherever they might be more."""

from __future__ import annotations

import pytest

from reconciler.core.shell import single_blanks


@pytest.mark.parametrize(
    ("text", "single"),
    [
        ("echo a > /f  &&  echo b > /g", "echo a > /f && echo b > /g"),
        ("a\tb \t c", "a b c"),
        ("dnf install   $A ${B}   && rm -rf /x/*", "dnf install $A ${B} && rm -rf /x/*"),
        ("echo 'a  b'  \"c  $D\"'e  f'", "echo 'a  b' \"c  $D\"'e  f'"),
        ('echo "a\\"  b"  c', 'echo "a\\"  b" c'),
        ("echo \"a'  b\"  'c\"  d'", "echo \"a'  b\" 'c\"  d'"),
        ("if  [ -f /x ];  then  a;  else  ! b;  fi", "if [ -f /x ]; then a; else ! b; fi"),
        ("for i in a  b; do  c  $i; done", "for i in a b; do c $i; done"),
        ("find / -name a -exec rm {} \\;  -print", "find / -name a -exec rm {} \\; -print"),
        ("A=1  B='x  y'  make  2>&1  |  tee /log", "A=1 B='x  y' make 2>&1 | tee /log"),
        ("set -eux;  export A=1;  { a;  b; }", "set -eux; export A=1; { a; b; }"),
        ("> /f  a  >> /g", "> /f a >> /g"),
    ],
)
def test_blanks_between_words_are_one(text: str, single: str) -> None:
    assert single_blanks(text) == single
    assert single_blanks(single) == single


@pytest.mark.parametrize(
    "text",
    [
        # Quotes that do not end, escapes, comments, here-documents: what a blank is in them is another matter.
        "echo 'a  b",
        'echo "a  b',
        "echo a\\  b",
        "echo a # b  c",
        "cat <<A  > /f\nb  c\nA",
        "cat <<< a  b",
        "a\n  b",
        # Forms with a language of their own inside.
        "echo $(a  b)",
        "echo `a  b`",
        "(a  b)",
        "echo ${A:-b  c}",
        "echo $((1  + 2))",
        'echo "$(a  b)"',
        'echo "${A:-b  c}"',
        "a[1  2]=3",
        "a[ 1  ]=3",
        "a[  1 ] b",
        "A=(b  c)",
        "echo $'a  b'",
        'echo $"a  b"',
        # White space that is a blank to some only.
        "a  b\u00a0c",
        "a  b\rc",
        "a  b\vc",
    ],
)
def test_a_text_that_is_not_read_keeps_its_blanks(text: str) -> None:
    assert single_blanks(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "set  | grep a",
        "$LIST  | grep a",
        "s'e't  | grep a",
        "2> /g declare  -p",
        "a=1  typeset -p",
        "if  declare -p; then a; fi",
        "eval  'a'",
        ".  /x",
        "command  set",
        "time  set",
        "trap  'a' DEBUG",
        "export  $N; env",
        "export  A=1 $N; env",
        "export  BASH_EXECUTION_STRING; env",
        'echo  "$BASH_EXECUTION_STRING"',
        "cat  /proc/1/cmdline",
        "ps  -ef",
        "function  f { a; }",
        "alias  a=b",
    ],
)
def test_a_text_that_may_look_at_itself_keeps_its_blanks(text: str) -> None:
    assert single_blanks(text) == text
