"""The keys that count, and the programs that judge by them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reconciler.adapters.git.objects import LocalObjects
from reconciler.adapters.git.openpgp import Keyring
from reconciler.adapters.git.runner import Runner
from reconciler.adapters.git.signatures import GitSignatures
from reconciler.errors import GitError, ToolMissing
from tests.adapters.git.signing import (
    Keys,
    World,
    ssh_sign,
    store,
    unsigned,
    with_headers,
)
from tests.adapters.git.support import git

pytestmark = pytest.mark.tools


def test_keys_that_come_and_go_count_at_once(world: World, keys: Keys) -> None:
    payload = unsigned(world.work)
    made = store(world.work, with_headers(payload, ("gpgsig", keys.gpg.sign(payload, keys.ada))))
    world.trust("ada.sshpub", keys.ssh.public)
    first = world.signatures.keys()
    assert world.signatures.problem(made) == "is signed with OpenPGP, and no OpenPGP key is trusted"
    world.trust("ada.asc", keys.gpg.export(keys.other_ada))
    second = world.signatures.keys()
    assert world.signatures.problem(made) == f"is signed by the unknown OpenPGP key {keys.ada}"
    world.trust("ada.asc", keys.gpg.export(keys.ada))
    third = world.signatures.keys()
    assert world.signatures.problem(made) == ""
    (world.trusted / "ada.asc").unlink()
    assert world.signatures.problem(made) == "is signed with OpenPGP, and no OpenPGP key is trusted"
    assert world.signatures.keys() == first
    assert len({first, second, third}) == 3


def test_programs_are_needed_only_where_signature_and_key_meet(
    world: World, keys: Keys, tmp_path: Path
) -> None:
    (tmp_path / "nothing").mkdir()
    bare = GitSignatures(LocalObjects.open(world.work), world.trusted, {"PATH": str(tmp_path / "nothing")})
    payload = unsigned(world.work)
    pgp = store(world.work, with_headers(payload, ("gpgsig", keys.gpg.sign(payload, keys.ada))))
    ssh = store(world.work, with_headers(payload, ("gpgsig", ssh_sign(payload, keys.ssh.private))))
    world.trust("ada.asc", keys.gpg.export(keys.ada))
    assert bare.problem(git(world.work, "rev-parse", "HEAD")) == "is not signed"
    assert bare.problem(ssh) == "is signed with SSH, and no SSH key is trusted"
    with pytest.raises(ToolMissing, match="gpg") as caught:
        bare.problem(pgp)
    assert "GnuPG" in caught.value.hint
    world.trust("ada.sshpub", keys.ssh.public)
    with pytest.raises(ToolMissing, match="ssh-keygen") as caught:
        bare.problem(ssh)
    assert "OpenSSH" in caught.value.hint


def test_a_folder_without_keys(world: World) -> None:
    head = git(world.work, "rev-parse", "HEAD")
    world.trust(".hidden.asc", "x")
    world.trust("readme.txt", "x")
    for ask in (world.signatures.keys, lambda: world.signatures.problem(head)):
        with pytest.raises(GitError, match="holds no key") as caught:
            ask()
        assert "*.asc" in caught.value.hint
    for path in world.trusted.iterdir():
        path.unlink()
    world.trusted.rmdir()
    with pytest.raises(GitError, match="does not exist"):
        world.signatures.keys()


def test_files_that_are_no_keys(world: World, keys: Keys) -> None:
    private = keys.gpg("--armor", "--export-secret-keys", keys.other_ada)
    empty = b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nMIIB\n-----END PGP PUBLIC KEY BLOCK-----\n"
    for content in (b"nonsense", private, keys.gpg.export(keys.ada) + private, empty):
        world.trust("bad.asc", content)
        with pytest.raises(GitError, match=r"'bad.asc' in .* is no OpenPGP public key") as caught:
            world.signed(lambda payload: keys.gpg.sign(payload, keys.ada))
        assert "--export" in caught.value.hint
    kind, key, _ = keys.ssh.public.split()
    for content in (
        b"nonsense",
        b"# none\n",
        f"cert-authority {keys.ssh.public}".encode(),
        f"* {keys.ssh.public}".encode(),
        f"ssh-rsa {key}".encode(),
        f"{kind} {key[:-3]}".encode(),
        keys.ssh.private.read_bytes(),
        f"{keys.ssh.public}\n{kind} !".encode(),
    ):
        world.trust("bad.sshpub", content)
        with pytest.raises(GitError, match=r"'bad.sshpub' in .* is no SSH public key") as caught:
            world.signed(lambda payload: ssh_sign(payload, keys.ssh.private))
        assert ".pub" in caught.value.hint


TRUSTED, STRANGER = "A" * 40, "B" * 40
GOOD = f"GOODSIG {TRUSTED[-16:]} Ada"
VALID = f"VALIDSIG {TRUSTED} 2026-01-01 1 0 4 0 22 8 00 {TRUSTED}"


@pytest.mark.parametrize(
    ("statuses", "status", "accepted"),
    [
        ((GOOD, VALID), 0, True),
        ((GOOD, VALID), 1, False),
        ((GOOD,), 0, False),
        ((VALID,), 0, False),
        ((), 0, False),
        ((GOOD, VALID.replace(TRUSTED, STRANGER)), 0, False),
        ((GOOD, f"VALIDSIG {TRUSTED} 2026-01-01 1 0 4 0 22 8 00 {STRANGER}"), 0, False),
        ((GOOD, VALID, VALID), 0, False),
        ((GOOD, GOOD, VALID), 0, False),
        ((GOOD, VALID, f"BADSIG {STRANGER[-16:]} x"), 0, False),
        ((f"ERRSIG {STRANGER[-16:]} 22 8 00 1 4 -", VALID), 0, False),
        ((GOOD.replace("GOODSIG", "EXPKEYSIG"), VALID), 0, False),
    ],
)
def test_what_gpg_has_to_say_for_a_signature_to_count(
    tmp_path: Path, statuses: tuple[str, ...], status: int, accepted: bool
) -> None:
    program = tmp_path / "gpg"
    lines = "".join(f"echo '[GNUPG:] {line}'\n" for line in statuses)
    program.write_text(f"#!/bin/sh\n{lines}exit {status}\n")
    program.chmod(0o755)
    runner = Runner({"PATH": f"{tmp_path}:{os.environ['PATH']}"}, 30)
    problem = Keyring(b"", frozenset([TRUSTED]), runner).problem(b"payload", b"signature")
    assert (problem == "") == accepted
