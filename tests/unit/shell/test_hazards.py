"""What made other evaluators err, and all that could: each text is decided exactly, or kept whole."""

from __future__ import annotations

import pytest

from reconciler.core.model import Arch
from reconciler.core.shell import Dialect, Known, replaced, specialise
from tests.unit.shell.texts import PARSER, left, lines

DECIDED = 'if [ "$TARGETARCH" = amd64 ]; then a; else b; fi'
PROBED = 'if [ "$(uname -m)" = x86_64 ]; then a; else b; fi'

WHOLE = [
    # functions and aliases in the place of what decides
    f"uname() {{ echo x; }}; {PROBED}", f"test() {{ false; }}; {DECIDED}", f"true() {{ false; }}; {DECIDED}",
    f"alias true=false; {DECIDED}", f"unalias -a; {DECIDED}", f"function f {{ a; }}; {DECIDED}",
    # the shell itself is changed
    f"IFS=6; {DECIDED}", f"A=1 IFS=6 :; {DECIDED}", f"export IFS=6; {DECIDED}", f": ${{IFS:=6}}; {DECIDED}",
    f"shopt -s nocasematch; {DECIDED}", f"set -o posix; {DECIDED}", f"set -a; {DECIDED}", f"set -- a b; {DECIDED}",
    f"set; {DECIDED}", f"set -o; {DECIDED}", f"enable -n test; {DECIDED}", f"BASH_ENV=x; {DECIDED}",
    f"ENV=x; {DECIDED}",
    f"PS4='$(a)'; {DECIDED}", f"POSIXLY_CORRECT=1; {DECIDED}", f"LD_PRELOAD=x; {DECIDED}",
    # variables are changed in ways that are not followed
    f"eval TARGETARCH=arm64; {DECIDED}", f"e'v'al TARGETARCH=arm64; {DECIDED}", f'"eval" TARGETARCH=x; {DECIDED}',
    f"$E TARGETARCH=arm64; {DECIDED}", f". ./f; {DECIDED}", f"source f; {DECIDED}", f"read TARGETARCH < f; {DECIDED}",
    f"mapfile TARGETARCH < f; {DECIDED}", f"getopts a TARGETARCH; {DECIDED}", f"let TARGETARCH=1; {DECIDED}",
    f"unset TARGETARCH; {DECIDED}", f"readonly TARGETARCH; {DECIDED}", f"local TARGETARCH=x; {DECIDED}",
    f"declare TARGETARCH=x; {DECIDED}", f"typeset TARGETARCH=x; {DECIDED}", f"command eval TARGETARCH=x; {DECIDED}",
    f"builtin eval TARGETARCH=x; {DECIDED}", f"echo $((TARGETARCH=1)); {DECIDED}", f"echo ${{!A}}; {DECIDED}",
    f"A=(1); {DECIDED}", f"TARGETARCH+=x; {DECIDED}", f"TARGETARCH[0]=x; {DECIDED}",
    f"echo {{TARGETARCH}}>f; {DECIDED}",
    f"wait -p TARGETARCH; {DECIDED}", f"export $X; {DECIDED}", f"export A\"$X\"; {DECIDED}",
    f"coproc TARGETARCH {{ a; }}; {DECIDED}",
    f"trap 'TARGETARCH=arm64' USR1; {DECIDED}", f"select TARGETARCH in x; do {DECIDED}; done",
    # the text observes itself
    f"a; {DECIDED}; echo $?", f"a; {DECIDED}; exit", f"a || exit $?; {DECIDED}", f"echo $LINENO; {DECIDED}",
    f"a | b; echo $PIPESTATUS; {DECIDED}", f"echo $_; {DECIDED}", f"echo $-; {DECIDED}",
    f"echo $BASH_COMMAND; {DECIDED}",
    f"cat /proc/self/cmdline; {DECIDED}", f"cat /proc/$PPID/cmdline; {DECIDED}", f"echo ${{A:-$?}}; {DECIDED}",
    f"return 1; {DECIDED}", f"exit $A; {DECIDED}", f"exec b; {DECIDED}", f"fc -l; {DECIDED}", f"history; {DECIDED}",
    # what the shell prints is caught
    f"exec 2> f; set -x; {DECIDED}", f"{{ set -x; {DECIDED}; }} 2> f", f"set -o xtrace; ( {DECIDED} ) 2>&1 | tee f",
    f"set -v; {{ {DECIDED}; }} 2>> f", f"set -x; {{ {DECIDED}; }} 3>&2 2>&1", f"{{ a\n{DECIDED}; }} 2> f",
    f"a\nb 2>&1 | tee f; {DECIDED}",
    # shells do not agree on what this says
    f"echo $'a\\'b'; {DECIDED}", f'echo $"a"; {DECIDED}', f"a &> f; {DECIDED}", f"a &>f; {DECIDED}",
    f"a |& b; {DECIDED}",
    f"((a)); {DECIDED}", f"echo $((1+1)); {DECIDED}", f"echo $[1+1]; {DECIDED}", f"a >& f; {DECIDED}",
    f"time a; {DECIDED}",
    f"a <<< b; {DECIDED}", f"a <(b); {DECIDED}", f"[[ a == b && c == d ]]; {DECIDED}", f"echo ${{A/a/b}}; {DECIDED}",
    f"echo ${{A:1:2}}; {DECIDED}", f"echo ${{A^^}}; {DECIDED}", f"case a in @(a|b)) c;; esac; {DECIDED}",
    f"case a in a) b;& c) d;; esac; {DECIDED}", f"echo \"${{A:-'b'}}\"; {DECIDED}", f"echo `a \\`b\\``; {DECIDED}",
    f"echo \"`a \"b\"`\"; {DECIDED}", f"for ((;;)); do a; done; {DECIDED}", f"a\r\n{DECIDED}", f"a \x01; {DECIDED}",
    f"echo a\\\nb; {DECIDED}", f"A=$(); {DECIDED}", f"break $A; {DECIDED}", f"[[ -v TARGETARCH ]]; {DECIDED}",
    # no text at all, or no program
    "", "# nothing", "if", f"{DECIDED} fi", f"cat <<E\nx\n{DECIDED}", "(" * 60 + "a" + ")" * 60,
]  # fmt: skip


@pytest.mark.parametrize("text", WHOLE)
def test_what_is_not_proven_is_kept_whole(text: str) -> None:
    assert [left(text, arch) for arch in Arch] == [None] * len(Arch)


@pytest.mark.parametrize(
    "text",
    [
        f"{DECIDED}; shopt -s nocasematch", f"{DECIDED}; shopt -s lastpipe", f"[[ a -eq b ]]; {DECIDED}",
        f"[[ -v TARGETARCH ]]; {DECIDED}", f"{DECIDED}; a <(b)", f"{DECIDED}; A=(1)", f"{DECIDED}; a[1]=2",
        f"{DECIDED}; a |& b",
        f"{DECIDED}; echo {{A}}>f", f"{DECIDED}; {{A}}>f b", f"{DECIDED}; time a", f"{DECIDED}; declare -x A=1",
        f"{DECIDED}; export $A", f"{DECIDED}; case a in a) b;;& esac", f"{DECIDED}; coproc a",
        f"{DECIDED}; (( A=1 ))",
        f"{DECIDED}; echo ${{A@P}}", f"{DECIDED}; echo ${{!A*}}", f"{DECIDED}; echo ${{A[0]}}", f"{DECIDED}; a &>> f",
        f"{DECIDED}; echo $'a'", f"[[ $? = 0 ]]; {DECIDED}", f"[[ $? = 0 && a = a ]]; {DECIDED}",
        f"{DECIDED}; @(a)", f"set -x; {{ {DECIDED}; }} 2> f",
    ],
)  # fmt: skip
def test_bash_has_more_to_keep_whole(text: str) -> None:
    assert [left(text, arch, Dialect.BASH) for arch in Arch] == [None] * len(Arch)


@pytest.mark.parametrize(
    "before",
    [
        "TARGETARCH=arm64 :", "TARGETARCH=arm64 a", ": ${TARGETARCH:=arm64}", 'a "${TARGETARCH=arm64}"',
        "for TARGETARCH in arm64; do a; done", "export TARGETARCH=$X", "TARGETARCH=$(a)", "TARGETARCH=~",
        "TARGETARCH=*",
        "TARGETARCH={a,b}", "TARGETARCH=$X", "a && TARGETARCH=arm64", "if a; then TARGETARCH=arm64; fi",
        "case $X in a) TARGETARCH=arm64;; esac", "while a; do TARGETARCH=arm64; done", "{ TARGETARCH=arm64; } < f",
        "TARGETARCH=arm64 > f", "[ $X ]", "[ $X = y ]", 'test "$X" y', "[ -v 'x[TARGETARCH=1]' ]", "[ -f * ]",
        "printf -v TARGETARCH x", "printf 'a%n' TARGETARCH", "printf \"a%-3n\" TARGETARCH", 'printf "a$X" TARGETARCH',
        'printf "$X"', "printf * x", "export A=$X", "export TARGETARCH=a\\ b",
        "A=1 TARGETARCH=$A",
        "TARGETARCH=a TARGETARCH=b", "TARGETARCH=arm64 | a", "TARGETARCH=arm64 & :", "while [ $X ]; do a; done",
        "for i in 1; do [ $X ] && a; done",
    ],
)  # fmt: skip
def test_what_may_have_changed_is_not_known(before: str) -> None:
    """The rest of the text is still read; only nothing is decided by the variable."""
    found = left(f"{before}; {DECIDED}")
    assert found is not None
    assert found.endswith('if\n[ "$TARGETARCH" = amd64 ]\nthen\na\nelse\nb\nfi')


@pytest.mark.parametrize(
    "before",
    [
        "( TARGETARCH=arm64 )", "a $(TARGETARCH=arm64)", "export TARGETARCH", "[ $TARGETARCH = x ]",
        "[ \"$X\" = y ]", "[ -n \"$X\" -a \"$X\" != y ]", "printf '%s\\n' x", "printf 'a%%\\n'",
        "export A=\"$X\"", "cd /x",
        "umask 022", "wait", "wait $!",
        "command -v a > /dev/null", "a 2> /dev/null", "a > /dev/null 2>&1", "set -euo pipefail", "set +x",
        "a \\\n  b",
        "find . -exec a {} +", "grep 'a$' f", "LC_ALL=C a", "A=${X:-y}", "a ${X#y} ${X%%y*} ${#X}",
        "a 2>&1 | b", "shift", "kill 1",
    ],
)  # fmt: skip
def test_what_changes_nothing_does_not_disturb(before: str) -> None:
    found = left(f"{before}; {DECIDED}")
    if "set +x" in before:
        assert found == "set +x\na"
    assert found is not None
    assert found.endswith("\na")


@pytest.mark.parametrize(
    "text",
    [
        f"PATH=/x:$PATH; {PROBED}", f"export PATH=/x:/bin; {PROBED}", f"PATH=/x a; {PROBED}",
        f"{PROBED}; : ${{PATH:=/x}}",
        f"cp a /usr/bin/uname; {PROBED}", f"cat b > uname; {PROBED}", f'ln -s a "/usr/bin/uname"; {PROBED}',
        f"mv a $D/uname; {PROBED}",
        f"{PROBED} 2> f", PROBED.replace("-m", "-p"), PROBED.replace("uname", "./uname"),
        PROBED.replace("uname", "A=1 uname"),
        PROBED.replace("-m", "-m | cat"), PROBED.replace("-m", "-m > f"), PROBED.replace("-m", "$X"),
    ],
)  # fmt: skip
def test_a_probe_that_may_not_be_the_real_one_decides_nothing(text: str) -> None:
    found = left(text)
    assert found is None or ("a" in found.split() and "b" in found.split())


def test_probes_can_be_distrusted() -> None:
    assert left(PROBED, probes=True) == "a"
    assert left(PROBED, probes=False) != "a"


def test_a_probe_that_may_be_missing_keeps_the_default() -> None:
    text = 'case "$(arch)" in x86_64) a;; aarch64) b;; *) c;; esac'
    assert lines(text) == 'case "$( ; arch ; )" in ; (x86_64) ; a ; ;; ; (*) ; c ; ;; ; esac'


def test_a_shell_that_traces_from_the_start() -> None:
    assert left(f"{{ {DECIDED}; }} 2> f", traced=True) is None
    assert left(f"{{ {DECIDED}; }} 2> f") == "{\na\n} 2> f"


@pytest.mark.parametrize("name", ["BASH_ENV", "BASH_FUNC_uname%%", "IFS", "SHELLOPTS", "BASHOPTS", "a-b"])
def test_an_environment_that_changes_the_shell(name: str) -> None:
    assert left(DECIDED, more={name: "x"}) is None


@pytest.mark.parametrize("value", ["a b", "a*", "$X", "~", "é", "", "a\nb", "x" * 300, "-n"])
def test_values_that_could_be_read_otherwise_decide_nothing_unquoted(value: str) -> None:
    found = left("if [ $V = x ]; then a; else b; fi", more={"V": value})
    assert found is not None
    assert (found == "b") is (value == "-n")


def test_trees_of_another_shape_are_not_read() -> None:
    known = Known({}, Arch.AMD64)
    tree = PARSER.tree("a; b", Dialect.SH)
    assert specialise(tree, "a; b", known) == "a\nb"
    new = {"Stmts": [{"Cmd": {"Type": "New"}}]}
    wrongs: tuple[object, ...] = (None, [], {}, {"Stmts": 1}, {"Stmts": [1]}, {"Stmts": [{}]}, new)
    for wrong in wrongs:
        assert specialise(wrong, "a; b", known) is None
    assert specialise(tree, "b; a", known) is None
    assert isinstance(tree, dict)
    assert specialise({**tree, "New": 1}, "a; b", known) is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cp x /usr/local/bin/uname", "uname"), ("echo > uname", "uname"), ("ln -s x uname", "uname"),
        ("cd /usr/local/bin && cp /x arch", "arch"), ("ln -s /x apk", "apk"), ("cp /shims/rpm /usr/bin", "rpm"),
        ("ln -sf /x /bin/sh", "sh"), ("rm /bin/sh; printf '#!' > /bin/sh", "sh"), ("mv a 'bash'", "bash"),
        ("rm -f /usr/bin/uname", "uname"), ("install -m755 x /sbin/dpkg", "dpkg"), ("cp /x uname", "uname"),
        ("if true; then ln -s x dash; fi", "dash"), ("A=1 ln -s busybox y", "busybox"), (">/bin/sh x", "sh"),
        ("A=$(uname -m)", ""), ("uname -m; arch; dpkg --print-architecture", ""), ("sh -c 'x'; exec bash y", ""),
        ("apt-get install -y dpkg bash", ""), ("rm -rf /var/lib/dpkg", ""), ("cp arch-x /usr/bin/arch-x", ""),
        ("useradd -s /bin/bash core", ""), ("echo '#!/bin/sh' > /x", ""), ("/usr/bin/uname -m", ""),
        ("test -x /usr/libexec/rpm && rpm -q x", ""), ("dnf install -y rpm && rpm --eval %_arch", ""),
    ],
)  # fmt: skip
def test_texts_that_replace_probes_and_shells(text: str, names: str) -> None:
    assert replaced(text) == frozenset(names.split())
