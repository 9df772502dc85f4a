from __future__ import annotations

import pytest

from reconciler.adapters.git.failures import CommandFailed, failure, mask, readable, said
from reconciler.errors import Disposition, GitUnavailable

ENDING = (
    "\nfatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights"
)


@pytest.mark.parametrize(
    "stderr",
    [
        "fatal: unable to access 'https://h/x/': Could not resolve host: h",
        "ssh: Could not resolve hostname h: Name or service not known" + ENDING,
        "fatal: unable to access 'https://h/x/': Failed to connect to h port 443: Couldn't connect to server",
        "ssh: connect to host h port 22: Connection refused" + ENDING,
        "ssh: connect to host h port 22: Connection timed out" + ENDING,
        "kex_exchange_identification: Connection closed by remote host" + ENDING,
        "fatal: unable to access 'https://h/x/': The requested URL returned error: 503",
        "error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502\nfatal: expected flush",
        "error: RPC failed; curl 28 Operation too slow. Less than 1000 bytes/sec transferred the last 30 seconds",
        "fetch-pack: unexpected disconnect while reading sideband packet\nfatal: early EOF\nfatal: fetch-pack: bad",
        "fatal: the remote end hung up unexpectedly",
        "fatal: unable to access 'https://h/x/': Empty reply from server",
        "fatal: write error: No space left on device",
    ],
)
def test_the_world_was_in_the_way(stderr: str) -> None:
    error = failure(stderr.encode(), "https://h/x")
    assert isinstance(error, GitUnavailable)
    assert error.disposition is Disposition.RETRY
    assert error.hint
    assert "https://h/x" in error.message


@pytest.mark.parametrize(
    ("stderr", "hint"),
    [
        ("git@h: Permission denied (publickey)." + ENDING, "credentials"),
        ("Host key verification failed." + ENDING, "known_hosts"),
        ("fatal: could not read Username for 'https://h': terminal prompts disabled", "credentials"),
        ("fatal: Authentication failed for 'https://h/x/'", "credentials"),
        ("fatal: unable to access 'https://h/x/': The requested URL returned error: 403", "credentials"),
        ("remote: Repository not found.\nfatal: repository 'https://h/x/' not found", "address"),
        ("fatal: '/x' does not appear to be a git repository" + ENDING, "address"),
        ("fatal: detected dubious ownership in repository at '/x'" + ENDING, "owner"),
        ("fatal: unable to access 'https://h/x/': The requested URL returned error: 301", "redirects"),
        (
            "fatal: unable to access 'https://h/x/': server certificate verification failed. CAfile: none",
            "trust store",
        ),
        (
            "fatal: unable to access 'https://h/x/': server verification failed: certificate signer not trusted.",
            "trust store",
        ),
        (
            "fatal: unable to access 'https://h/x/': SSL certificate problem: unable to get local issuer",
            "trust store",
        ),
        (
            "fatal: unable to access 'https://h/x/': Problem with the SSL CA cert (path? access rights?)",
            "`ca.crt`",
        ),
        (
            "fatal: unable to access 'https://h/x/': error setting certificate file: /proc/1/fd/7",
            "`ca.crt`",
        ),
        (
            'Load key "/proc/1/fd/7": error in libcrypto\ngit@h: Permission denied (publickey).' + ENDING,
            "`identity`",
        ),
        ("ssh -F none: 1: ssh: not found" + ENDING, "ssh client"),
        ("git: 'remote-https' is not a git command. See 'git --help'.", "support for https"),
        ("fatal: couldn't find remote ref refs/heads/x", "branch"),
        ("error: object 1: badDate: invalid author\nfatal: fsck error in packed object", "malformed"),
    ],
)
def test_trying_again_changes_nothing(stderr: str, hint: str) -> None:
    error = failure(stderr.encode(), "x")
    assert not isinstance(error, GitUnavailable)
    assert error.disposition is Disposition.WAIT
    assert hint in error.hint


def test_damage_is_told_from_a_broken_connection() -> None:
    damage = (
        b"error: packfile objects/pack/pack-1.pack does not match index\n"
        b"fatal: unable to rename temporary '*.pack' file to 'objects/pack/pack-1.pack'\n"
        b"fatal: fetch-pack: invalid index-pack output"
    )
    assert isinstance(failure(damage, "x"), CommandFailed)
    assert isinstance(
        failure(b"fatal: early EOF\nfatal: fetch-pack: invalid index-pack output", "x"), GitUnavailable
    )
    full = b"fatal: unable to rename temporary '*.pack' file to 'x': No space left on device"
    assert isinstance(failure(full, "x"), GitUnavailable)


def test_what_a_server_says_does_not_decide() -> None:
    error = failure(b"remote: error: Connection refused, try later\nerror: failed to push some refs", "x")
    assert not isinstance(error, GitUnavailable)


def test_user_information_and_secrets_are_masked() -> None:
    text = "cannot open https://bot:tok@h/x and ssh://git@h/y; header dG9r, 'https://tok@h'"
    shown = mask(text, ("dG9r", "", "tok"))
    assert shown == "cannot open https://***@h/x and ssh://***@h/y; header ***, 'https://***@h'"


def test_what_people_read_has_no_control_characters_and_an_end() -> None:
    shown = readable(b"\x1b[31mred\x1b[0m\r\xff\n" + b"x" * 10_000 + b"\n" + b"line\n" * 50)
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert len(shown) < 4000
    assert readable(b"\x1b[31mred\n") == " [31mred"


def test_the_same_complaint_reads_the_same_however_long_it_took() -> None:
    text = "fatal: unable to access 'https://a/b/': Failed to connect to a port 443 after {} ms: Couldn't connect"
    first, second = (failure(text.format(n).encode(), "https://a/b").message for n in (0, 12))
    assert first == second
    assert "Failed to connect to a port 443: Couldn't" in first


def test_the_servers_words_about_a_push() -> None:
    stdout = b"To x\n!\tabc:refs/heads/main\t[remote rejected] (pre-receive hook declined)\nDone\n"
    stderr = b"remote: no pushing on Fridays        \nerror: failed to push some refs\n"
    assert said(stdout, stderr) == "no pushing on Fridays\n[remote rejected] (pre-receive hook declined)"


def test_a_failure_without_words() -> None:
    assert "did not say why" in failure(b"", "x").message
