"""Hostile input for the readers: nothing but documented errors, whatever the shape and whatever the size.

What other tests hold already: any bytes for `core.yaml` (test_yaml), any text for Containerfiles, ignore files and
patterns (test_properties), any short pattern for `core.globs` (test_globs), any JSON of the usual keys for manifests
(test_index). Here: documents of every kind, auth files, addresses and names; and for all readers, size and depth.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.adapters.git.url import Remote
from reconciler.adapters.registry.auth_file import AuthFile, Credential
from reconciler.adapters.registry.place import Place
from reconciler.adapters.registry.problems import Refusal
from reconciler.core import index
from reconciler.core.containerfile import parse
from reconciler.core.globs import matches
from reconciler.core.inputs import canonical_json
from reconciler.core.model import GROUP, Arch, ImageRef
from reconciler.core.status import read_status
from reconciler.errors import GitError, InvalidInput
from reconciler.process import run
from reconciler.settings import read_settings
from tests.unit.containerfile import oversized
from tests.unit.containerfile.samples import NAME
from tests.unit.definitions import config, mosc
from tests.unit.documents.configs import CONFIG
from tests.unit.documents.definitions import DEFINITION
from tests.unit.documents.settings_cases import SETTINGS
from tests.unit.documents.statuses import STATUS

ROOT = Path(__file__).parents[3]

Reader = Callable[[bytes], object]
READERS: dict[str, tuple[Reader, str]] = {
    "definition": (oversized.definition, DEFINITION),
    "configuration": (oversized.repository, CONFIG),
    "settings": (lambda content: read_settings(content, "c.yaml"), SETTINGS),
    "status": (lambda content: read_status(content, "s.yaml"), STATUS),
}
ODD_VALUES = [
    *("", "~", "[]", "{}", "[[]]", "{a: b}", "1", "-1", "1.5", "true", "99999999999999999", "''", "'\u0130'"),
    *("'0s'", "\u0663s", "'* * * * 8'", "'a@b'", "'/'", "'..'", "'a//b'", "'\\'", "'\U0001f4a9'", "x y", "'[::1]:0'"),
    *("'[::]:99999'", "'h:65536'", "https://@/", "https://[/x", "'sha256:'", "'a/b:c@d'", "NoArch", "amd64", "[1, ~]"),
    *("[amd64, amd64]", "[{}]", "{name: }", "{name: {}}", "'\ufffd'", "'0-0/0 * * * *'", "'*/99 * * * *'", "'1e9d'"),
]  # fmt: skip
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(
        ["", "a", "\ud800", "\udcff", "é", "dTpw", "====", ":", "sha256:" + "a" * 64, "c" * 40]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["r.io", "os", "\ud800"]), inner, max_size=2)
    ),
    max_leaves=6,
)


@st.composite
def edited(draw: st.DrawFn, text: str) -> str:
    """A sound document with a few lines changed, doubled, dropped, or given an odd value."""
    lines = text.splitlines()
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(lines) - 1))
        line = lines[place]
        key, colon, _ = line.partition(":")
        odd = draw(st.sampled_from(ODD_VALUES))
        lines[place : place + 1] = draw(
            st.sampled_from(
                [[], [line, line], [f"{key}{colon} {odd}"], [f"{key}x{colon} {odd}"], [f"  {line}"]]
            )
        )
        lines = lines or [""]
    return "\n".join(lines)


@pytest.mark.parametrize("kind", READERS)
@given(st.data())
@settings(max_examples=100, deadline=None)
def test_edited_documents_are_read_or_have_faults_with_a_place(kind: str, data: st.DataObject) -> None:
    read, sound = READERS[kind]
    text = data.draw(edited(sound))
    try:
        read(text.encode())
    except InvalidInput as error:
        found = error.faults
        assert found
        assert all(0 <= fault.line <= text.count("\n") + 1 and fault.message for fault in found)


@pytest.mark.parametrize("kind", READERS)
@given(content=st.binary(max_size=100))
@settings(max_examples=50, deadline=None)
def test_any_bytes_are_read_or_refused(kind: str, content: bytes) -> None:
    read, _ = READERS[kind]
    try:
        read(content)
    except InvalidInput as error:
        assert error.faults  # noqa: PT017  (either outcome is right)


def look_up(content: bytes) -> Credential | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "auth.json"
        path.write_bytes(content)
        return AuthFile(path).find(Place.parse("r.io/os/worker"))


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "auths": JSON | st.dictionaries(st.sampled_from(["r.io", "https://r.io/v1/", "r.io/os", "/"]), JSON
            | st.dictionaries(st.sampled_from(["auth", "username", "password", "identitytoken"]), JSON)),
            "credHelpers": JSON,
            "credsStore": JSON,
        },
    ).map(lambda document: json.dumps(document).encode())
    | st.binary(max_size=60)
)  # fmt: skip
@settings(max_examples=250, deadline=None)
def test_auth_files_are_read_or_refused_and_what_is_read_can_be_sent(content: bytes) -> None:
    try:
        found = look_up(content)
    except Refusal as refusal:
        assert "auth.json" in refusal.message  # noqa: PT017  (either outcome is right)
        return
    if found is not None:
        assert f"{found.username}:{found.password}{found.identity_token}".encode()


@pytest.mark.parametrize(
    "entry",
    [
        {"auth": "\u00e9"},
        {"username": "\ud800", "password": "x"},
        {"username": "me", "password": "\udcff"},
        {"auth": base64.b64encode(b"me:x").decode(), "identitytoken": "\ud800"},
    ],
)
def test_text_that_cannot_be_sent_is_malformed(entry: dict[str, str]) -> None:
    with pytest.raises(Refusal, match="is malformed"):
        look_up(json.dumps({"auths": {"r.io": entry}}).encode())


SOUND_PROVENANCE = {
    f"{GROUP}/input": "sha256:" + "a" * 64,
    f"{GROUP}/definition": "sha256:" + "b" * 64,
    f"{GROUP}/engine": "1",
    f"{GROUP}/source-commit": "c" * 40,
    f"{GROUP}/epoch": "",
    f"{GROUP}/bases": '[["x", "y"]]',
}


@given(st.dictionaries(st.sampled_from(sorted(SOUND_PROVENANCE)), JSON | JSON.map(json.dumps), max_size=2))
@settings(max_examples=200, deadline=None)
def test_what_a_manifest_says_of_itself_can_be_written_again(annotations: dict[str, object]) -> None:
    manifest = json.dumps({"annotations": SOUND_PROVENANCE | annotations}).encode()
    found = index.provenance(index.load(manifest))
    if found is not None:
        assert index.provenance({"annotations": found.annotations()}) == found
        assert canonical_json([[base.ref, base.digest] for base in found.bases])


def test_half_a_character_in_a_manifest_is_not_from_us() -> None:
    assert index.provenance({"annotations": SOUND_PROVENANCE}) is not None
    for key in ("bases", "epoch"):
        hostile = SOUND_PROVENANCE | {f"{GROUP}/{key}": '[["\ud800", "y"]]'}
        assert index.provenance({"annotations": hostile}) is None


ADDRESSES = st.lists(
    st.sampled_from([
        *("https://", "ssh://", "http://", "file://", "git@", "h.io", "[::1]", "127.0.0.1", "a:b@", ":22", ":"),
        *("/os.git", "/", "//", "-x", "%00", "%zz", "?", "#", "@", " ", "\n", "\u2100", "\u0663", "..", "~", "[", "]"),
    ]),
    max_size=6,
).map("".join)  # fmt: skip


@given(ADDRESSES | st.text(max_size=30))
@settings(max_examples=300, deadline=None)
def test_addresses_are_parsed_or_refused_and_git_can_be_given_what_is_parsed(text: str) -> None:
    try:
        remote = Remote.parse(text)
    except GitError as error:
        assert error.hint  # noqa: PT017  (either outcome is right)
        return
    assert not remote.address.startswith("-")
    assert not set("\n\0") & set(remote.address)
    assert all("\0" not in value and "\n" not in value for value in remote.environment.values())
    assert all(secret not in remote.address for secret in remote.secrets if len(secret) > 8)


@given(
    st.text("aA0.-_/:@[]s", max_size=30) | st.text(max_size=20),
    st.sampled_from(["", "h.io/", "h.io/a@sha256:"]),
)
@settings(max_examples=300, deadline=None)
def test_references_are_parsed_or_refused_and_parse_to_themselves(text: str, before: str) -> None:
    try:
        found = ImageRef.parse(before + text)
    except ValueError as error:
        assert "is not a fully qualified" in str(error)  # noqa: PT017  (either outcome is right)
    else:
        assert ImageRef.parse(str(found)) == found
        assert str(found) in (before + text, f"{before}{text}:latest")


@given(
    st.text(max_size=12)
    | st.sampled_from([a.value.upper() for a in Arch])
    | st.sampled_from(["X86_64\n", "AARCH64 "])
)
@settings(max_examples=100, deadline=None)
def test_architectures_are_parsed_or_refused(text: str) -> None:
    try:
        assert Arch.parse(text) in Arch
    except ValueError as error:
        assert "unknown architecture" in str(error)  # noqa: PT017  (either outcome is right)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("u\u017fer a", "unknown instruction"),  # Python's capital of U+017F is S, Go's is none
        ("COPY --from=s\u00a0/a /b", "outside ASCII"),
        ("RUN --\u0085 a", "outside ASCII"),
        (f"HEALTHCHECK --interval={'1' * 500_000} CMD a", "not a time"),  # in linear time
    ],
)
def test_what_is_beyond_ascii_or_reason_is_a_fault(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse(f"FROM x\n{text}\n", NAME)


def test_white_space_beyond_ascii_ends_the_flags() -> None:
    """Tried with buildah 1.28.2: it looks for a file called `--from=s`."""
    (copy,) = parse("FROM x\nCOPY \u00a0--from=s /a /b\n", NAME).stages[0].body
    assert (copy.flags, copy.words) == ((), ("--from=s", "/a", "/b"))


@given(
    st.lists(st.sampled_from(["**", "*", "a", "?"]), min_size=1, max_size=6),
    st.text("a/", min_size=1, max_size=8),
)
@settings(max_examples=200, deadline=None)
def test_a_row_of_any_folders_is_one(parts: list[str], path: str) -> None:
    single = [part for i, part in enumerate(parts) if part != "**" or parts[i - 1 : i] != ["**"]]
    assert matches("/" + "/".join(parts), path) is matches("/" + "/".join(single), path)


def test_oversized_input_costs_little_and_leaves_the_process_alive() -> None:
    """In a process of its own, with limits of memory and of CPU time for all cases together."""
    argv = [sys.executable, "-m", "tests.unit.containerfile.oversized"]
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    finished = run(argv, env=env, timeout=280, cwd=ROOT)
    assert (finished.status, finished.stderr) == (0, b"")
    with tempfile.TemporaryDirectory() as folder:
        expected = len([*oversized.cases(Path(folder))])
    assert finished.stdout.decode().split("\n") == [str(expected), ""]


def test_the_sound_parts_of_oversized_documents_are_sound() -> None:
    """Or else the cases would be refused for another reason than their size."""
    oversized.definition(mosc("worker").encode())
    oversized.repository(config().encode())
