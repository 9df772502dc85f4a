from __future__ import annotations

import os
import shutil
import stat
import threading
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.adapters.git.credentials import Credentials
from reconciler.adapters.git.url import Remote
from reconciler.errors import Disposition, GitError
from reconciler.redaction import MASK, Redactor

WEB = Remote.parse("https://git.example.com/os.git")
SSH = Remote.parse("git@git.example.com:os.git")
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\n"
    + b64encode(b"openssh-key-v1\0\0\0\0\4none\0\0\0\4none" + b"canary" * 20).decode()
    + "\n-----END OPENSSH PRIVATE KEY-----\n"
)
LOCKED = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\n"
    + b64encode(b"openssh-key-v1\0\0\0\0\x0aaes256-ctr\0\0\0\6bcrypt" + b"canary" * 20).decode()
    + "\n-----END OPENSSH PRIVATE KEY-----\n"
)


def secret(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def config_of(folder: Path, remote: Remote = WEB) -> str:
    """The configuration that git would read."""
    with Credentials(folder).access(remote) as access:
        return Path(access.environment["GIT_CONFIG_GLOBAL"]).read_text()


def refused(folder: Path, remote: Remote) -> GitError:
    with pytest.raises(GitError) as caught, Credentials(folder).access(remote):
        pass
    assert caught.value.disposition is Disposition.WAIT
    assert caught.value.hint
    return caught.value


def test_user_name_and_password(tmp_path: Path) -> None:
    folder = secret(tmp_path / "c", {"username": "bot", "password": "hunter2\n"})
    basic = b64encode(b"bot:hunter2").decode()
    assert config_of(folder) == (
        f'[http "https://git.example.com/os.git"]\n\textraHeader = "Authorization: Basic {basic}"\n\t'
    )


def test_a_bearer_token_and_an_authority(tmp_path: Path) -> None:
    folder = secret(tmp_path / "c", {"bearerToken": "abc.DEF-123", "ca.crt": CERTIFICATE})
    with Credentials(folder).access(WEB) as access:
        text = Path(access.environment["GIT_CONFIG_GLOBAL"]).read_text()
        assert 'extraHeader = "Authorization: Bearer abc.DEF-123"' in text
        place = text.split("sslCAInfo = ")[1].strip().strip('"')
        assert Path(place).read_text() == CERTIFICATE


def test_an_authority_alone_is_enough(tmp_path: Path) -> None:
    folder = secret(tmp_path / "c", {"ca.crt": CERTIFICATE})
    assert "Authorization" not in config_of(folder)


def test_what_git_reads_is_closed_to_others_and_gone_afterwards(tmp_path: Path) -> None:
    folder = secret(tmp_path / "c", {"username": "bot", "password": "hunter2"})
    before = os.listdir("/proc/self/fd")
    with Credentials(folder).access(WEB) as access:
        place = Path(access.environment["GIT_CONFIG_GLOBAL"])
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        assert not os.get_inheritable(int(place.name))
        assert "hunter2" not in str(access)
        assert "hunter2" not in str(access.environment)
    assert not place.exists()
    assert os.listdir("/proc/self/fd") == before


def test_quotes_in_an_address_stay_in_it(tmp_path: Path) -> None:
    folder = secret(tmp_path / "c", {"username": "bot", "password": "hunter2"})
    text = config_of(folder, Remote.parse('https://git.example.com/a"]\\x/os.git'))
    assert text.startswith('[http "https://git.example.com/a\\"]\\\\x/os.git"]\n')


def test_everything_secret_is_told(tmp_path: Path) -> None:
    redactor = Redactor()
    token = "ghp_" + "x" * 36
    folders = [
        secret(tmp_path / "basic", {"username": "bot", "password": "hunter2"}),
        secret(tmp_path / "token", {"username": token, "password": "x-oauth-basic"}),
        secret(tmp_path / "bearer", {"bearerToken": "abc.DEF-123"}),
    ]
    secrets: list[str] = []
    for folder in folders:
        with Credentials(folder, redactor).access(WEB) as access:
            secrets += access.secrets
    with Credentials(secret(tmp_path / "ssh", {"identity": KEY, "known_hosts": "h k"}), redactor).access(SSH):
        pass
    basic = b64encode(b"bot:hunter2").decode()
    assert {"hunter2", basic, token, "abc.DEF-123"} <= set(secrets)
    for text in (*secrets, KEY.splitlines()[1]):
        assert redactor.clean(f"a {text} b") == f"a {MASK} b"
    assert redactor.clean("the bot works for git") == "the bot works for git"


def test_a_replaced_file_counts_at_once(tmp_path: Path) -> None:
    folder = secret(tmp_path / "c", {"bearerToken": "first"})
    assert "first" in config_of(folder)
    secret(folder, {"bearerToken": "second"})
    assert "second" in config_of(folder)


def test_a_mounted_secret_is_read_as_one(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    for version in ("..one", "..two"):
        secret(folder / version, {"username": version, "password": f"pass{version}"})
    (folder / "..data").symlink_to("..one")
    for name in ("username", "password"):
        (folder / name).symlink_to(f"..data/{name}")
    assert b64encode(b"..one:pass..one").decode() in config_of(folder)
    (folder / "..next").symlink_to("..two")
    (folder / "..next").rename(folder / "..data")
    assert b64encode(b"..two:pass..two").decode() in config_of(folder)


def test_a_secret_that_is_replaced_all_the_time_is_never_read_in_half(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    stop = threading.Event()

    def replace(number: int) -> None:
        """As the kubelet does: a new folder, the link to it, and the old one goes."""
        new = secret(folder / f"..{number}", {"username": f"bot{number}", "password": f"pass{number}"})
        (folder / "..next").symlink_to(new.name)
        (folder / "..next").rename(folder / "..data")
        if number:
            shutil.rmtree(folder / f"..{number - 1}")

    def keep_replacing() -> None:
        number = 1
        while not stop.is_set():
            replace(number)
            number += 1
            stop.wait(0.002)

    replace(0)
    for name in ("username", "password"):
        (folder / name).symlink_to(f"..data/{name}")
    thread = threading.Thread(target=keep_replacing)
    thread.start()
    try:
        seen = {b64decode(config_of(folder).split("Basic ")[1].split('"')[0]) for _ in range(500)}
    finally:
        stop.set()
        thread.join()
    assert len(seen) > 1
    for pair in seen:
        name, password = pair.decode().split(":")
        assert name.removeprefix("bot") == password.removeprefix("pass")


@pytest.mark.parametrize(
    ("remote", "wanted"), [(WEB, ("username", "password", "bearerToken")), (SSH, ("identity", "known_hosts"))]
)
def test_a_folder_that_is_missing_or_has_nothing_that_suits(
    tmp_path: Path, remote: Remote, wanted: tuple[str, ...]
) -> None:
    other = {"identity": KEY, "known_hosts": "h k"} if remote is WEB else {"username": "a", "password": "b"}
    (tmp_path / "file").touch()
    folders = {
        "does not exist": [tmp_path / "absent", tmp_path / "file"],
        "holds nothing": [secret(tmp_path / "empty", {".hidden": "x"})],
        " and ".join(f"`{name}`" for name in sorted(other)): [secret(tmp_path / "other", other)],
    }
    for problem, places in folders.items():
        for folder in places:
            error = refused(folder, remote)
            assert problem in error.message
            assert str(folder) in error.message
            assert all(f"`{name}`" in error.hint for name in wanted)


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"username": "bot"}, "`username`, which do not go together"),
        ({"password": "hunter2"}, "`password`, which do not go together"),
        ({"username": "bot", "password": "hunter2", "bearerToken": "abc"}, "do not go together"),
        ({"username": "bot", "password": ""}, "`password` in .* is empty"),
        ({"username": "bot", "password": "\n"}, "`password` in .* is empty"),
        ({"username": "bot", "password": "hunter2\nmore"}, "`password` in .* is not one line"),
        ({"username": "bot", "password": b"\xff\xfe"}, "`password` in .* is not one line"),
        ({"bearerToken": "abc\r\nX-Admin: yes"}, "`bearerToken` in .* is not one line"),
        ({"bearerToken": "two words"}, "`bearerToken` in .* is not one token"),
        ({"ca.crt": "nonsense"}, "`ca.crt` in .* holds no certificate"),
    ],
)
def test_files_that_make_no_sense_for_https(
    tmp_path: Path, files: Mapping[str, str | bytes], problem: str
) -> None:
    error = refused(secret(tmp_path / "c", files), WEB)
    assert error.message
    with pytest.raises(GitError, match=problem):
        raise error
    assert "hunter2" not in f"{error.message} {error.hint}"


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"identity": KEY}, "`known_hosts` in .* is missing"),
        ({"known_hosts": "h k"}, "`identity` in .* is missing"),
        ({"identity": KEY, "known_hosts": ""}, "`known_hosts` in .* is empty"),
        ({"identity": "ssh-ed25519 AAAA", "known_hosts": "h k"}, "`identity` in .* is not a private key"),
        ({"identity": b"\xff", "known_hosts": "h k"}, "`identity` in .* is not a private key"),
        ({"identity": LOCKED, "known_hosts": "h k"}, "`identity` in .* is protected by a passphrase"),
        (
            {"identity": "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA", "known_hosts": "h k"},
            "`identity` in .* is protected by a passphrase",
        ),
        (
            {
                "identity": "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA",
                "known_hosts": "h k",
            },
            "`identity` in .* is protected by a passphrase",
        ),
    ],
)
def test_files_that_make_no_sense_for_ssh(
    tmp_path: Path, files: Mapping[str, str | bytes], problem: str
) -> None:
    error = refused(secret(tmp_path / "c", files), SSH)
    with pytest.raises(GitError, match=problem):
        raise error
    assert "ssh-keyscan" in error.hint or "known_hosts" not in problem or "empty" in problem


def test_a_key_as_it_comes_out_of_a_form_is_put_right(tmp_path: Path) -> None:
    pasted = KEY.replace("\n", "\r\n").rstrip()
    folder = secret(tmp_path / "c", {"identity": pasted, "known_hosts": "h k"})
    with Credentials(folder).access(SSH) as access:
        command = access.environment["GIT_SSH_COMMAND"]
        place = Path(command.rsplit(" -i ", 1)[1])
        assert place.read_text() == KEY
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
    for option in ("BatchMode=yes", "StrictHostKeyChecking=yes", "IdentitiesOnly=yes", "IdentityAgent=none"):
        assert f"-o{option}" in command
    assert "-oGlobalKnownHostsFile=/dev/null -oUserKnownHostsFile=/proc/" in command


def test_a_local_repository_takes_no_credentials(tmp_path: Path) -> None:
    folder = secret(tmp_path / "c", {"username": "bot", "password": "hunter2"})
    assert "takes no credentials" in refused(folder, Remote.parse("/srv/os.git")).message


def test_files_that_may_not_be_read(tmp_path: Path) -> None:
    folder = secret(tmp_path / "c", {"username": "bot", "password": "hunter2"})
    (folder / "username").unlink()
    (folder / "username").symlink_to("username")
    (folder / "ca.crt").mkdir()
    assert "`password`, which do not go together" in refused(folder, WEB).message
    if os.getuid():
        (folder / "password").chmod(0)
        assert "cannot be read" in refused(folder, WEB).message
