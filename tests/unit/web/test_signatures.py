from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.settings import WebhookType
from reconciler.web.signatures import TOLERANCE, Headers, delivery, event, only, proof
from tests.unit.web.senders import BODY, NOW, SENDERS, Sender, gitlab_signed

ALL = pytest.mark.parametrize("sender", SENDERS, ids=str)
bodies = st.binary(max_size=300)
identities = st.text("abcdef0123456789-", min_size=1, max_size=40)


def sent(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    """As a server has them."""
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]


def holds(type_: WebhookType, headers: Headers, secret: str | bytes, body: bytes, now: float = NOW) -> bool:
    judge = proof(type_, headers, secret.encode() if isinstance(secret, str) else secret, now)
    judge.update(body)
    return judge.holds()


def test_githubs_own_example() -> None:
    """From "Validating webhook deliveries"."""
    headers = [
        (
            b"x-hub-signature-256",
            b"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        )
    ]
    assert holds(WebhookType.GITHUB, headers, "It's a Secret to Everybody", b"Hello, World!")
    assert not holds(WebhookType.GITHUB, headers, "It's a Secret to Everybody", b"Hello, World?")


def test_the_example_of_standard_webhooks() -> None:
    """From the specification's reference libraries."""
    headers = [
        (b"webhook-id", b"msg_p5jXN8AQM9LWM0D4loKWxJek"),
        (b"webhook-timestamp", b"1614265330"),
        (b"webhook-signature", b"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ]
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    assert holds(WebhookType.GITLAB, headers, secret, b'{"test": 2432232314}', now=1614265330)


@ALL
@given(body=bodies, identity=identities, cuts=st.lists(st.integers(0, 300), max_size=4))
def test_a_good_signature_holds_however_the_body_arrives(
    sender: Sender, body: bytes, identity: str, cuts: list[int]
) -> None:
    judge = proof(sender.type, sent(sender.sign(sender.secret, body, identity)), sender.secret.encode(), NOW)
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), None], strict=True):
        judge.update(body[start:end])
    assert judge.holds()


@ALL
@given(body=bodies, identity=identities)
def test_another_secret_does_not_hold(sender: Sender, body: bytes, identity: str) -> None:
    assert not holds(sender.type, sent(sender.sign(sender.other, body, identity)), sender.secret, body)


@pytest.mark.parametrize("sender", [s for s in SENDERS if s.name != "gitlab-token"], ids=str)
@given(body=bodies, other=bodies)
def test_a_signature_holds_for_its_own_body_only(sender: Sender, body: bytes, other: bytes) -> None:
    headers = sent(sender.sign(sender.secret, body, "id"))
    assert holds(sender.type, headers, sender.secret, other) is (body == other)


@ALL
@given(data=st.data())
def test_no_change_to_the_proof_holds(sender: Sender, data: st.DataObject) -> None:
    headers = sender.sign(sender.secret, BODY, "id")
    good = headers[sender.proof].encode()
    place = data.draw(st.integers(0, len(good) - 1))
    changed = data.draw(
        st.one_of(
            st.binary(max_size=100),
            st.just(good[:place]),
            st.builds(lambda byte: good[:place] + bytes([byte]) + good[place + 1 :], st.integers(0, 255)),
        )
    )
    others = [(name, value) for name, value in sent(headers) if name != sender.proof.lower().encode()]
    if _says_the_same(sender, good, changed):
        return
    assert not holds(sender.type, [*others, (sender.proof.lower().encode(), changed)], sender.secret, BODY)


def _says_the_same(sender: Sender, one: bytes, other: bytes) -> bool:
    if sender.name == "gitlab-token":
        return one == other
    if sender.name == "gitlab-signed":
        return one[:-2] == other[:-2]  # several last letters of base64 stand for the same bytes
    return one.lower() == other.lower()  # hex has two spellings


header_names = st.sampled_from(
    [name.lower() for sender in SENDERS for name in sender.sign(sender.secret, b"", "x")]
)
wild_headers = st.lists(st.tuples(header_names.map(str.encode), st.binary(max_size=80)), max_size=8)


@pytest.mark.parametrize("type_", WebhookType)
@given(headers=wild_headers, body=bodies)
def test_nothing_that_a_stranger_sends_holds_or_breaks(
    type_: WebhookType, headers: Headers, body: bytes
) -> None:
    for sender in SENDERS:
        if sender.type is type_:
            assert not holds(type_, headers, sender.secret, body)
    assert isinstance(delivery(type_, headers), bytes)
    assert event(type_, headers) == event(type_, headers).lower()


@ALL
def test_without_a_proof_nothing_holds(sender: Sender) -> None:
    headers = sender.sign(sender.secret, BODY, "id")
    del headers[sender.proof]
    assert not holds(sender.type, sent(headers), sender.secret, BODY)
    headers[sender.proof] = ""
    assert not holds(sender.type, sent(headers), sender.secret, BODY)


@ALL
def test_of_two_proofs_none_counts(sender: Sender) -> None:
    headers = sent(sender.sign(sender.secret, BODY, "id"))
    name = sender.proof.lower().encode()
    assert not holds(sender.type, [*headers, (name, only(headers, name))], sender.secret, BODY)


@pytest.mark.parametrize("off", [-TOLERANCE - 1, TOLERANCE + 1])
def test_a_signed_time_must_be_about_now(off: float) -> None:
    sender = next(sender for sender in SENDERS if sender.name == "gitlab-signed")
    headers = sent(gitlab_signed(sender.secret, BODY, "id"))
    assert not holds(sender.type, headers, sender.secret, BODY, now=NOW + off)
    assert holds(sender.type, headers, sender.secret, BODY, now=NOW + off / 2)


def test_a_sender_that_changes_its_key_signs_with_both() -> None:
    sender = next(sender for sender in SENDERS if sender.name == "gitlab-signed")
    old, new = (gitlab_signed(secret, BODY, "id") for secret in (sender.other, sender.secret))
    both = {**new, "webhook-signature": f"{old['webhook-signature']} v2,AAAA {new['webhook-signature']}"}
    assert holds(sender.type, sent(both), sender.secret, BODY)
    assert holds(sender.type, sent(both), sender.other, BODY)


def test_a_header_full_of_signatures_is_not_worked_through() -> None:
    sender = next(sender for sender in SENDERS if sender.name == "gitlab-signed")
    headers = gitlab_signed(sender.secret, BODY, "id")
    headers["webhook-signature"] = "v1,AAAA " * 100 + headers["webhook-signature"]
    assert not holds(sender.type, sent(headers), sender.secret, BODY)


def test_a_signing_token_is_no_password() -> None:
    """It would show in every delivery; GitLab does not send it, so whoever does is somebody else."""
    sender = next(sender for sender in SENDERS if sender.name == "gitlab-signed")
    assert not holds(sender.type, [(b"x-gitlab-token", sender.secret.encode())], sender.secret, BODY)


@pytest.mark.parametrize("type_", WebhookType)
def test_an_empty_secret_is_none(type_: WebhookType) -> None:
    with pytest.raises(ValueError, match="is empty"):
        proof(type_, [], b"", NOW)


@pytest.mark.parametrize("secret", [b"whsec_", b"whsec_not base64!", b"whsec_AAA"])
def test_a_broken_signing_token_says_so_and_not_what_it_is(secret: bytes) -> None:
    with pytest.raises(ValueError, match="no signing token") as caught:
        proof(WebhookType.GITLAB, [], secret, NOW)
    assert secret.removeprefix(b"whsec_").decode() not in str(caught.value) or secret == b"whsec_"


def test_a_signing_key_with_an_unusual_alphabet_is_refused() -> None:
    """`-` and `_` belong to another base64: dropping them silently would make another key."""
    with pytest.raises(ValueError, match="no signing token"):
        proof(WebhookType.GITLAB, [], b"whsec_" + base64.urlsafe_b64encode(b"\xff\xfe" * 16), NOW)


@pytest.mark.parametrize(
    ("type_", "headers", "identity", "about"),
    [
        (WebhookType.GITHUB, {"X-GitHub-Delivery": "a", "X-GitHub-Event": "push"}, b"a", "push"),
        (WebhookType.GITEA, {"X-Gitea-Delivery": "a", "X-Gitea-Event": "push"}, b"a", "push"),
        (WebhookType.GITEA, {"X-Forgejo-Delivery": "a", "X-Forgejo-Event": "create"}, b"a", "create"),
        (WebhookType.GITLAB, {"Idempotency-Key": "a", "X-Gitlab-Event": "Push Hook"}, b"a", "push hook"),
        (WebhookType.GITLAB, {"webhook-id": "b", "Idempotency-Key": "a"}, b"b", ""),
        (WebhookType.GENERIC, {"Idempotency-Key": "a", "X-GitHub-Event": "push"}, b"a", ""),
        (WebhookType.GITHUB, {}, b"", ""),
    ],
)
def test_what_a_delivery_says_of_itself(
    type_: WebhookType, headers: dict[str, str], identity: bytes, about: str
) -> None:
    assert delivery(type_, sent(headers)) == identity
    assert event(type_, sent(headers)) == about
