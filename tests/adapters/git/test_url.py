from __future__ import annotations

from base64 import b64encode

import pytest

from reconciler.adapters.git.url import Remote
from reconciler.errors import GitError


@pytest.mark.parametrize(
    ("text", "address", "protocol"),
    [
        ("https://git.example.com/acme/os.git", "https://git.example.com/acme/os.git", "https"),
        ("https://GIT.example.com:8443/os.git", "https://git.example.com:8443/os.git", "https"),
        ("https://[2001:db8::1]:8443/os.git", "https://[2001:db8::1]:8443/os.git", "https"),
        ("ssh://git@git.example.com:2222/os.git", "ssh://git@git.example.com:2222/os.git", "ssh"),
        ("git@git.example.com:acme/os.git", "git@git.example.com:acme/os.git", "ssh"),
        ("server:os.git", "server:os.git", "ssh"),
        ("file:///srv/git/os.git", "file:///srv/git/os.git", "file"),
        ("/srv/git/my os.git", "/srv/git/my os.git", "file"),
        ("http://127.0.0.1:3000/os.git", "http://127.0.0.1:3000/os.git", "http"),
        ("http://[::1]/os.git", "http://[::1]/os.git", "http"),
        ("http://localhost/os.git", "http://localhost/os.git", "http"),
    ],
)
def test_accepted_addresses(text: str, address: str, protocol: str) -> None:
    remote = Remote.parse(text)
    assert (remote.address, remote.protocol) == (address, protocol)
    assert remote.environment == {}
    assert remote.is_local == (protocol == "file")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "--upload-pack=touch X",
        "-oProxyCommand=touch X:os.git",
        "-u@host:os.git",
        "ssh://-oProxyCommand=touch/os.git",
        "ssh://-l@host/os.git",
        "ssh://host:os/x",
        "ssh://git:password@host/os.git",
        "host:-os.git",
        "ext::sh -c touch% X",
        "ext::sh",
        "git://git.example.com/os.git",
        "ftp://git.example.com/os.git",
        "http://git.example.com/os.git",
        "http://127.0.0.1.example.com/os.git",
        "https://",
        "https:///os.git",
        "https://host",
        "https://host/",
        "https://host:port/os.git",
        "https://host:99999/os.git",
        "https://[::1/os.git",
        "https://host/os.git?token=1",
        "https://host/os.git#main",
        "https://host/o\ns.git",
        "https://ho st/os.git",
        "file://host/os.git",
        "file:os.git",
        "file://",
        "/srv/o\ns.git",
        "/srv/o\0s.git",
        "./os.git",
        "os.git",
        "../os.git",
    ],
)
def test_refused_addresses(text: str) -> None:
    with pytest.raises(GitError, match="is not an address of a Git repository") as caught:
        Remote.parse(text)
    assert caught.value.hint


def test_credentials_leave_the_address_and_reach_git_by_its_environment() -> None:
    remote = Remote.parse("https://bot:p%40ss@git.example.com/os.git")
    basic = b64encode(b"bot:p@ss").decode()
    assert remote.address == "https://git.example.com/os.git"
    assert remote.environment == {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.https://git.example.com/os.git.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {basic}",
    }
    assert set(remote.secrets) == {"p@ss", basic}


def test_a_token_in_place_of_the_user_is_a_secret() -> None:
    assert "ghp_secret" in Remote.parse("https://ghp_secret@git.example.com/os.git").secrets


@pytest.mark.parametrize(
    "text",
    [
        "https://bot:hunter2@git.example.com/os.git",
        "ssh://git@git.example.com/os.git",
    ],
)
def test_no_user_information_shows(text: str) -> None:
    remote = Remote.parse(text)
    for shown in (str(remote), repr(remote)):
        assert "hunter2" not in shown
        assert "bot" not in shown
    assert "git@" not in str(remote)


@pytest.mark.parametrize(
    "text",
    [
        "http://bot:hunter2@git.example.com/os.git",
        "https://bot:hunter2/x@git.example.com/os.git?q",
        "https://bot:hunter2@git.example.com",
        "https:/bot:hunter2@git.example.com/os.git",
        "ssh://git:hunter2@host/os.git",
        "nonsense://hunter2@",
        "bot:hunter2@host/os.git",
    ],
)
def test_a_refusal_does_not_repeat_credentials(text: str) -> None:
    with pytest.raises(GitError) as caught:
        Remote.parse(text)
    assert "hunter2" not in caught.value.message
