"""What is decided, and what is left then."""

from __future__ import annotations

import pytest

from reconciler.core.model import Arch
from reconciler.core.shell import Dialect
from tests.unit.shell.texts import left, lines

T = '"$TARGETARCH"'


@pytest.mark.parametrize(
    ("text", "amd64", "arm64"),
    [
        (f"if [ {T} = amd64 ]; then a; else b; fi", "a", "b"),
        (f"if test {T} != amd64; then a; fi", "true", "a"),
        (f"if [ {T} = s390x ]; then a; elif [ {T} = arm64 ]; then b; else c; fi", "c", "b"),
        ("if [ $TARGETARCH = amd64 ]; then a; fi; b", "a ; b", "b"),
        ("if [ x$TARGETARCH = xamd64 ]; then a; fi; b", "a ; b", "b"),
        (f"if ! [ {T} = amd64 ]; then a; fi; b", "b", "a ; b"),
        (f"if [ ! {T} = amd64 ]; then a; fi; b", "b", "a ; b"),
        (f"if [ {T} = amd64 -o {T} = s390x ]; then a; fi; b", "a ; b", "b"),
        (f"if [ {T} = amd64 ] && [ -n {T} ]; then a; fi; b", "a ; b", "b"),
        (f"if [ {T} = amd64 ] || c; then a; fi", "a", "if ; c ; then ; a ; fi"),
        (f"if c && [ {T} = amd64 ]; then a; else b; fi",
         "if ; c && true ; then ; a ; else ; b ; fi",
         "if ; c && false ; then ; : ; else ; b ; fi"),
        (f"[ {T} = amd64 ] && a", "a", "false && :"),
        (f"[ {T} = amd64 ] || a", "true", "a"),
        (f"[ {T} = amd64 ] && a || b", "a || b", "b"),
        (f"[ {T} = amd64 ]", "true", "false"),
        (f"! [ {T} = amd64 ]; a", "a", "a"),
        (f"! [ {T} = arm64 ]", "true", "false && :"),
        (f"x && [ {T} = amd64 ] && a", "x && a", "x && false && :"),
        (f"case {T} in amd64|s390x) a;; *) b;; esac", "a", "b"),
        ("case $TARGETARCH in amd64) a;; arm*) b;; esac", "a", "b"),
        ('case "$(uname -m)" in x86_64) A=1;; *) A=2;; esac; [ "$A" = 1 ] && z', "A=1 ; z", "A=2 ; false && :"),
        ("A=$(uname -m); if [ $A = x86_64 ]; then a; fi; b", "A=$( ; uname -m ; ) ; a ; b",
        "A=$( ; uname -m ; ) ; b"),
        ("A=`uname -m`; case $A in aarch64) a;; esac; b", "A=`uname -m` ; b", "A=`uname -m` ; a ; b"),
        ('A=$(arch); if [ "$A" = aarch64 ]; then a; fi; b', "A=$( ; arch ; ) ; b",
         'A=$( ; arch ; ) ; if ; [ "$A" = aarch64 ] ; then ; a ; fi ; b'),
        (f"case {T} in amd64) a;; *) exit 1;; esac; b", "a ; b", "exit 1"),
        (f"if [ {T} = amd64 ]; then a; b; fi && c", "{ ; a ; b ; } && c", "c"),
        (f"if [ {T} = amd64 ]; then a || b; fi | c", "{ ; a || b ; } | c", "true | c"),
        (f"if [ {T} = amd64 ]; then a; fi > f", "{ ; a ; } > f", "{ ; true ; } > f"),
        (f"x $(if [ {T} = amd64 ]; then a; else b; fi)", "x $( ; a ; )", "x $( ; b ; )"),
        (f"for i in 1 2; do [ {T} = amd64 ] && a; b; done", "for i in 1 2 ; do ; a ; b ; done",
         "for i in 1 2 ; do ; b ; done"),
        (f"[[ {T} == arm64 ]] && a; b", "b", f"[[ {T} == arm64 ]] && a ; b"),
        (f"if [ {T} == arm64 ]; then a; fi; b", "b", f"if ; [ {T} == arm64 ] ; then ; a ; fi ; b"),
        ("if [ ${TARGETARCH:-amd64} = amd64 ]; then a; fi; b", "a ; b", "b"),
        (f"export X={T}; if [ $X = amd64 ]; then a; fi; b", f"export X={T} ; a ; b", f"export X={T} ; b"),
        (f"( if [ {T} = amd64 ]; then a; fi )", "( ; a ; )", "( ; true ; )"),
        (f"a & if [ {T} = amd64 ]; then b; fi", "a & ; b", "a & ; true"),
        (f"set -ex; [ {T} = amd64 ] && a; b >/dev/null 2>&1", "set -ex ; a ; b > /dev/null 2>& 1",
         "set -ex ; b > /dev/null 2>& 1"),
        (f"cat <<E > f && [ {T} = amd64 ] && a\n$X\nE\nb", "cat << E > f && a ; $X ; E ; b",
         "cat << E > f && false && : ; $X ; E ; b"),
    ],
)  # fmt: skip
def test_branches_of_other_architectures_are_gone(text: str, amd64: str, arm64: str) -> None:
    assert (lines(text), lines(text, Arch.ARM64)) == (amd64, arm64)


@pytest.mark.parametrize(
    ("text", "amd64"),
    [
        ("if [[ $TARGETARCH == amd64 ]]; then a; else b; fi", "a"),
        ("[ $TARGETARCH == amd64 ] && a", "a"),
        ("if [[ $TARGETARCH = a* ]]; then a; else b; fi",
         "if ; [[ $TARGETARCH = a* ]] ; then ; a ; else ; b ; fi"),
        ("if [[ ! x == y || x == x ]]; then a; fi; [ $TARGETARCH = arm64 ] && b; c",
         "if ; [[ ! x == y || x == x ]] ; then ; a ; fi ; c"),
        ("export A=$B; if [ $TARGETARCH = amd64 ]; then a; fi", "export A=$B ; a"),
    ],
)  # fmt: skip
def test_bash_knows_more(text: str, amd64: str) -> None:
    assert lines(text, Arch.AMD64, Dialect.BASH) == amd64


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a;b && c", "a  ;  b   &&   c # why"),
        ("if a; then b; fi; c", "if a\nthen\n  b\nfi\n\n# so\nc"),
        ("case $x in a) b;; esac", "case $x in\n  (a)\n    b\n  ;;\nesac"),
        ("{ a; b; }", "a; b"),
        ("a; true; b", "a; b"),
    ],
)
def test_the_layout_of_a_text_does_not_count(one: str, other: str) -> None:
    assert left(one) == left(other) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('a "b c"', "a b c"), ('a "b"', "a b"), ('a "$b"', "a $b"), ("a 'b'", 'a "b"'), ("a 2 > f", "a 2> f"),
        ("{ a && b; } || c", "a && { b || c; }"), ("! { a && b; }", "! a && b"), ("(a; b)", "{ a; b; }"),
        ("{ a; b; } | c", "a; b | c"), ("{ { a; } > f; } > g", "{ a; } > f > g"), ("a &", "a"),
        ("cat <<E\nx\nE", "cat <<'E'\nx\nE"), ("cat <<-E\n\tx\nE", "cat <<E\n\tx\nE"), ("a; false; b", "a; b"),
        ("set -e; [ $TARGETARCH = arm64 ] && a; b", "set -e; false; b"), ("a || true", "a"), ("a && true", "a"),
        ("while a; do b; done", "until a; do b; done"), ("for i; do a; done", "for i in; do a; done"),
        ("if a; then b; fi", "a && b"), ("x a\\ b", "x a b"), ("[ $TARGETARCH = arm64 ]",
        "! [ $TARGETARCH = amd64 ]"),
    ],
)  # fmt: skip
def test_texts_that_do_not_mean_the_same_stay_apart(one: str, other: str) -> None:
    assert left(one) != left(other)
    assert None not in (left(one), left(other))
