"""The token goes to the forge, and shows nowhere else."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from reconciler.adapters.forge import HttpForge
from reconciler.adapters.forge.token import TokenFile
from reconciler.errors import ForgeError, ReconcilerError
from reconciler.redaction import Redactor
from tests.adapters.forge.conftest import HEAD, Connect
from tests.adapters.registry.support import Answer, Asked, scripted
from tests.servers.forge import Reply, TestForge


def shown(error: ReconcilerError) -> str:
    """All that a person or a log could get to see of it."""
    return "\n".join([*traceback.format_exception(error), error.message, error.hint, repr(error)])


def test_an_error_page_that_echoes_the_token_is_cleaned(client: HttpForge, forge: TestForge) -> None:
    forge.answer(Reply(400, {"message": f"you sent {forge.token}, Authorization: Bearer {forge.token}"}))
    with pytest.raises(ForgeError, match="you sent") as caught:
        client.pull(7)
    assert forge.token not in shown(caught.value)


def test_another_host_never_sees_the_token(client: HttpForge, forge: TestForge) -> None:
    with scripted(lambda _: Answer(200, b"{}")) as elsewhere:
        forge.answer(Reply(302, {}, {"Location": f"http://{elsewhere.host}/"}))
        with pytest.raises(ForgeError, match="where the token has no business"):
            client.pull(7)
        assert elsewhere.asked == []


def test_a_next_page_on_another_host_is_asked_for_here(connect: Connect) -> None:
    def answer(asked: Asked) -> Answer:
        page = '[{"id": 2, "body": "b"}]' if "page" in asked.query else '[{"id": 1, "body": "a"}]'
        more = {} if "page" in asked.query else {"Link": f'<http://{elsewhere.host}/x?page=2>; rel="next"'}
        return Answer(200, page.encode(), more)

    with scripted() as elsewhere, scripted(answer) as server:
        found = connect(f"http://{server.host}").comments(7)
        assert [comment.id for comment in found] == [1, 2]
        assert elsewhere.asked == []


def test_a_replaced_token_counts_at_once(client: HttpForge, forge: TestForge, token_file: Path) -> None:
    old = client.who()
    forge.token, forge.user = "another-token-of-the-forge", forge.other
    with pytest.raises(ForgeError, match="answered 401") as caught:
        client.pull(7)
    assert "token file" in caught.value.hint
    token_file.write_text(forge.token)
    assert client.pull(7).head == HEAD
    assert client.who() != old


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"two words", b"two\nlines-hush", b"\xff\xfehush", b"x" * 20_000, b"a\x00hush"]
)
def test_a_file_that_holds_no_token_is_refused_without_showing_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(ForgeError, match="does not hold one token") as caught:
        TokenFile(path, Redactor()).read()
    assert "hush" not in shown(caught.value)
    assert "x" * 100 not in shown(caught.value)


def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ForgeError, match="nowhere cannot be read: No such file"):
        TokenFile(tmp_path / "nowhere", Redactor()).read()


def test_the_redactor_knows_the_token(token_file: Path, forge: TestForge) -> None:
    redactor = Redactor()
    TokenFile(token_file, redactor).read()
    assert forge.token not in redactor.clean(f"something with {forge.token} in it")
