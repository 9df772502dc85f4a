from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from reconciler.adapters.git.mirror import Mirror
from reconciler.adapters.git.objects import LocalObjects
from reconciler.adapters.git.signatures import GitSignatures, split
from reconciler.errors import GitError
from tests.adapters.git.signing import (
    ENV,
    Keys,
    World,
    ssh_sign,
    store,
    unsigned,
    with_headers,
)
from tests.adapters.git.support import git, remote_with
from tests.servers.sshd import key_pair

pytestmark = pytest.mark.tools


def test_what_git_itself_signs_counts(world: World, keys: Keys) -> None:
    world.trust("ada.asc", keys.gpg.export(keys.ada))
    world.trust("ada.sshpub", keys.ssh.public)
    program = world.work.parent / "gpg"
    program.write_text(
        f'#!/bin/sh\nGNUPGHOME={keys.gpg.home} exec gpg --batch --pinentry-mode=loopback --passphrase= "$@"\n'
    )
    program.chmod(0o755)
    for options in (
        ("-c", f"gpg.program={program}", "-c", f"user.signingKey={keys.ada}"),
        ("-c", "gpg.format=ssh", "-c", f"user.signingKey={keys.ssh.private}"),
    ):
        git(
            world.work,
            *options,
            "commit",
            "--quiet",
            "--allow-empty",
            "-S",
            "-m",
            "Signed\n\nWith more lines\n",
        )
        head = git(world.work, "rev-parse", "HEAD")
        assert world.signatures.problem(head) == ""


def test_a_commit_that_nobody_signed(world: World, keys: Keys) -> None:
    world.trust("ada.sshpub", keys.ssh.public)
    assert world.signatures.problem(git(world.work, "rev-parse", "HEAD")) == "is not signed"


def test_signatures_by_trusted_keys(world: World, keys: Keys) -> None:
    world.trust("all.asc", keys.gpg.export(keys.other_ada) + keys.gpg.export(keys.ada))
    world.trust("all.sshpub", f"# ours\n\n{keys.rsa.public}\n{keys.ssh.public}\n")
    for key in (keys.ada, keys.subkey, keys.other_ada):
        assert world.signed(lambda payload, key=key: keys.gpg.sign(payload, key)) == ""  # type: ignore[misc]
    for pair in (keys.ssh, keys.rsa):
        assert world.signed(lambda payload, pair=pair: ssh_sign(payload, pair.private)) == ""  # type: ignore[misc]


def test_another_key_with_the_same_user_id_is_unknown(world: World, keys: Keys) -> None:
    world.trust("ada.asc", keys.gpg.export(keys.ada))
    world.trust("ada.sshpub", keys.ssh.public)
    problem = world.signed(lambda payload: keys.gpg.sign(payload, keys.other_ada))
    assert problem == f"is signed by the unknown OpenPGP key {keys.other_ada}"
    carried = ("--detach-sign", "--include-key-block")
    assert world.signed(lambda payload: keys.gpg.sign(payload, keys.other_ada, options=carried)) == problem
    problem = world.signed(lambda payload: ssh_sign(payload, keys.other_ssh.private))
    assert problem.startswith("is signed by the unknown SSH key SHA256:")


def test_a_signature_of_something_else(world: World, keys: Keys) -> None:
    world.trust("ada.asc", keys.gpg.export(keys.ada))
    world.trust("ada.sshpub", keys.ssh.public)
    other = unsigned(world.work, "another message")
    problem = world.signed(lambda _: keys.gpg.sign(other, keys.ada))
    assert problem == f"has a bad signature: the OpenPGP key {keys.ada[-16:]} did not sign this"
    assert world.signed(lambda _: ssh_sign(other, keys.ssh.private)) == "has a bad SSH signature"
    assert world.signed(lambda p: ssh_sign(p, keys.ssh.private, "file")) == "has a bad SSH signature"


def test_every_byte_of_a_commit_is_signed(world: World, keys: Keys) -> None:
    world.trust("ada.sshpub", keys.ssh.public)
    payload = unsigned(world.work)
    signature = ssh_sign(payload, keys.ssh.private)
    good = with_headers(payload, ("gpgsig", signature))
    assert world.problem(good) == ""
    for change in (
        good.replace(b"change", b"chance"),
        good.replace(b"A Person", b"B Person", 1),
        good.replace(b"1700000000", b"1700000001", 1),
        good + b"\n",
        with_headers(payload, ("gpgsig", signature), ("extra", b"header")),
        with_headers(payload, ("encoding", b"ISO-8859-1"), ("gpgsig", signature)),
    ):
        assert world.problem(change) == "has a bad SSH signature"


def test_keys_and_signatures_whose_time_is_over(world: World, keys: Keys) -> None:
    payload = unsigned(world.work)
    before = keys.gpg.sign(payload, keys.revoked)
    world.trust("revoked.asc", keys.gpg.export(keys.revoked))
    assert world.signed(lambda _: before) == ""
    keys.gpg.revoke(keys.revoked)
    world.trust("revoked.asc", keys.gpg.export(keys.revoked))
    short = keys.revoked[-16:]
    assert world.signed(lambda _: before) == f"is signed by the OpenPGP key {short}, which was revoked"
    world.trust("expired.asc", keys.gpg.export(keys.expired))
    then = "20200201T000000"
    problem = world.signed(lambda p: keys.gpg.sign(p, keys.expired, now=then))
    assert problem == f"is signed by the OpenPGP key {keys.expired[-16:]}, which has expired"
    world.trust("elder.asc", keys.gpg.export(keys.elder))
    brief = ("--default-sig-expire=1d", "--detach-sign")
    assert world.signed(lambda p: keys.gpg.sign(p, keys.elder, now=then)) == ""
    problem = world.signed(lambda p: keys.gpg.sign(p, keys.elder, options=brief, now=then))
    assert problem == f"has a signature by the OpenPGP key {keys.elder[-16:]} that has expired"


def test_more_than_one_signature_is_none(world: World, keys: Keys) -> None:
    world.trust("ada.asc", keys.gpg.export(keys.ada, keys.other_ada))
    world.trust("ada.sshpub", keys.ssh.public)
    payload = unsigned(world.work)
    ssh, mallory = (ssh_sign(payload, key.private) for key in (keys.ssh, keys.other_ssh))
    pgp = keys.gpg.sign(payload, keys.ada)
    several = "has more than one signature, of which none counts"
    for headers in (
        (("gpgsig", ssh), ("gpgsig", mallory)),
        (("gpgsig", mallory), ("gpgsig", ssh)),
        (("gpgsig", ssh), ("gpgsig", ssh)),
        (("gpgsig", ssh), ("gpgsig-sha256", ssh)),
        (("gpgsig", ssh), ("extra", b"header"), ("gpgsig", pgp)),
        (("gpgsig", ssh + mallory),),
        (("gpgsig", pgp + ssh),),
        (("gpgsig", keys.gpg.sign(payload, keys.ada, keys.other_ada)),),
    ):
        assert world.problem(with_headers(payload, *headers)) == several


def test_a_signed_message_is_no_signature_of_the_commit(world: World, keys: Keys) -> None:
    world.trust("ada.asc", keys.gpg.export(keys.ada))
    for options in (("--sign",), ("--clear-sign",), ("--store",)):
        for text in (b"anything else", unsigned(world.work)):
            made = keys.gpg.sign(text, keys.ada, options=options)
            assert world.signed(lambda _, made=made: made)  # type: ignore[misc]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"nonsense",
        b"-----BEGIN SIGNED MESSAGE-----\nMIIB\n-----END SIGNED MESSAGE-----\n",
        b"-----BEGIN PGP SIGNATURE-----\nMIIB\n-----END SSH SIGNATURE-----\n",
        b"-----BEGIN PGP SIGNATURE-----\n",
        b"x\n-----BEGIN SSH SIGNATURE-----\nMIIB\n-----END SSH SIGNATURE-----\n",
    ],
)
def test_what_is_no_signature(world: World, keys: Keys, text: bytes) -> None:
    world.trust("ada.sshpub", keys.ssh.public)
    assert world.signed(lambda _: text) == "has a signature that is neither OpenPGP's nor SSH's"


def test_blocks_that_hold_nothing(world: World, keys: Keys) -> None:
    world.trust("ada.asc", keys.gpg.export(keys.ada))
    world.trust("ada.sshpub", keys.ssh.public)
    block = "-----BEGIN {0} SIGNATURE-----\n\nMIIB\n-----END {0} SIGNATURE-----\n"
    assert world.signed(lambda _: block.format("PGP").encode()) == "has a signature that gpg cannot read"
    assert world.signed(lambda _: block.format("SSH").encode()) == "has a bad SSH signature"


def test_a_signed_tag_inside_a_merge_is_not_the_merges_signature() -> None:
    raw = b"tree 1\nmergetag object 2\n gpgsig -----BEGIN\n x\nauthor a\ngpgsig one\n two\nencoding x\n\ngpgsig three\n"
    payload, signatures = split(raw)
    assert (
        payload
        == b"tree 1\nmergetag object 2\n gpgsig -----BEGIN\n x\nauthor a\nencoding x\n\ngpgsig three\n"
    )
    assert signatures == (b"one\ntwo\n",)
    assert split(b"tree 1\ngpgsignature x\n\nm") == (b"tree 1\ngpgsignature x\n\nm", ())


def test_only_commits_are_looked_at(world: World, keys: Keys) -> None:
    world.trust("ada.sshpub", keys.ssh.public)
    git(world.work, "tag", "-a", "-m", "x", "v1")
    for oid in (git(world.work, "rev-parse", "v1"), git(world.work, "rev-parse", "HEAD^{tree}"), "1" * 40):
        with pytest.raises(GitError, match="there is no commit"):
            world.signatures.problem(oid)


def test_an_ssh_signature_without_any_ssh_key(world: World, keys: Keys) -> None:
    world.trust("ada.asc", keys.gpg.export(keys.ada))
    problem = world.signed(lambda payload: ssh_sign(payload, keys.ssh.private))
    assert problem == "is signed with SSH, and no SSH key is trusted"


def test_settings_of_repository_and_account_do_not_matter(
    world: World, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.trust("ada.asc", keys.gpg.export(keys.ada))
    world.trust("ada.sshpub", keys.ssh.public)
    everybody = tmp_path / "allowed"
    everybody.write_text(f"* {keys.other_ssh.public}\n")
    for key, value in {
        "gpg.program": "true",
        "gpg.openpgp.program": "true",
        "gpg.ssh.program": "true",
        "gpg.ssh.allowedSignersFile": str(everybody),
    }.items():
        git(world.work, "config", key, value)
    home = tmp_path / "home"
    (home / ".gnupg").mkdir(parents=True, mode=0o700)
    (home / ".gnupg" / "gpg.conf").write_text(f"keyring {keys.gpg.home}/pubring.kbx\n")
    monkeypatch.setenv("GNUPGHOME", str(keys.gpg.home))
    monkeypatch.setenv("HOME", str(home))
    signatures = GitSignatures(
        LocalObjects.open(world.work),
        world.trusted,
        {**ENV, "GNUPGHOME": str(keys.gpg.home), "HOME": str(home)},
    )
    payload = unsigned(world.work)
    for signature, problem in (
        (keys.gpg.sign(payload, keys.other_ada), "is signed by the unknown OpenPGP key"),
        (ssh_sign(payload, keys.other_ssh.private), "is signed by the unknown SSH key"),
        (keys.gpg.sign(payload, keys.ada), ""),
        (ssh_sign(payload, keys.ssh.private), ""),
    ):
        found = signatures.problem(store(world.work, with_headers(payload, ("gpgsig", signature))))
        assert found.startswith(problem) if problem else found == ""


def test_a_certificate_does_not_stand_for_its_key(world: World, keys: Keys, tmp_path: Path) -> None:
    holder = key_pair(tmp_path, "holder")
    subprocess.run(
        [
            "ssh-keygen",
            "-q",
            "-s",
            str(keys.ssh.private),
            "-I",
            "x",
            "-n",
            "trusted",
            f"{holder.private}.pub",
        ],
        check=True,
        timeout=60,
    )
    world.trust("ada.sshpub", keys.ssh.public)
    signed = world.signed(lambda payload: ssh_sign(payload, Path(f"{holder.private}-cert.pub")))
    assert signed.startswith("is signed by the unknown SSH key SHA256:")


def test_commits_of_a_mirror_and_a_damaged_one(world: World, keys: Keys, tmp_path: Path) -> None:
    server, author = remote_with(tmp_path / "remote", {"a": b"1"})
    payload = unsigned(author)
    made = store(author, with_headers(payload, ("gpgsig", ssh_sign(payload, keys.ssh.private))))
    git(author, "push", "--quiet", "origin", f"{made}:refs/heads/main")
    world.trust("ada.sshpub", keys.ssh.public)
    mirror = Mirror(str(server), tmp_path / "cache")
    signatures = GitSignatures(mirror, world.trusted, ENV)
    assert signatures.problem(mirror.fetch("main")) == ""
    for pack in (tmp_path / "cache").rglob("*.pack"):
        pack.chmod(0o600)
        pack.write_bytes(b"")
    assert signatures.problem(made) == ""


def test_several_threads_may_ask(world: World, keys: Keys) -> None:
    world.trust("ada.asc", keys.gpg.export(keys.ada))
    payload = unsigned(world.work)
    made = store(world.work, with_headers(payload, ("gpgsig", keys.gpg.sign(payload, keys.ada))))
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(world.signatures.problem(made))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [""] * 6
