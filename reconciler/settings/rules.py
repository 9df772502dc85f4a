"""Single values of a configuration: what one may look like.

Belongs here: addresses, names of branches and tags, message templates. Does not belong here: which key holds what
(`file`), and values that other documents share (`core.documents.values`). Functions raise pydantic's custom error.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from string import Template
from typing import Final
from urllib.parse import urlsplit

from pydantic_core import PydanticCustomError

from reconciler.core.documents.shape import rule
from reconciler.core.model import COMMIT, ImageRef
from reconciler.core.yaml import shown
from reconciler.settings.values import Address

PLACEHOLDERS: Final = ("pools", "count", "instance", "commit")
"""What `writeBack.message` may mention: the first pools' names, how many there are, this daemon's name, and the commit
that the images follow (its first 12 digits)."""

_SCP: Final = re.compile(r"(?:(?P<user>[^@:/]+)@)?(?P<host>[^@:/]+):(?P<path>[^/].*|/(?!/).*)")
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")
_URL_HINT: Final = (
    "write https://host/path, ssh://git@host/path, git@host:path, file:///path or an absolute path"
)


def url(text: str) -> str:
    """A URL that is safe to hand to git. Raises pydantic's custom error; the message never repeats a
    credential."""
    if not text or text.startswith("-") or "::" in re.sub(r"\[[^\]/]*\]", "", text):
        raise rule(
            "must not be empty, start with '-' or hold '::'", _URL_HINT
        )  # options, and git's remote helpers
    if not text.isprintable() or " " in text:
        raise rule("must not hold spaces or control characters", _URL_HINT)
    if text.startswith("/"):
        return text
    if "://" not in text:
        return _scp(text)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise rule("is no URL", _URL_HINT) from None
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or len(parts.path) < 2:
            raise rule("must name an absolute path after file://", _URL_HINT)
        return text
    if parts.scheme not in ("https", "ssh", "http"):
        raise rule(f"has the scheme {shown(parts.scheme)}, which is not allowed", _URL_HINT)
    if (
        parts.password is not None
        or parts.query
        or parts.fragment
        or (parts.scheme != "ssh" and "@" in parts.netloc)
    ):
        raise rule(
            "must not hold credentials, a query or a fragment",
            "put credentials into the files of a folder, and name it as source.credentials",
        )
    if parts.scheme == "http" and not _is_loopback(host):
        raise rule("must not be http: anybody on the way could change the source", "use https or ssh")
    _check_ssh_parts(parts.username or "", f"[{host}]" if ":" in host else host, parts.path.lstrip("/"))
    if port == 0:
        raise rule("names port 0", _URL_HINT)
    return text


def _scp(text: str) -> str:
    match = _SCP.fullmatch(text)
    if match is None:
        raise rule(f"is neither a URL nor an absolute path: {shown(text.rpartition('@')[2])}", _URL_HINT)
    _check_ssh_parts(match["user"] or "", match["host"], match["path"].lstrip("/"))
    return text


def _check_ssh_parts(user: str, host: str, path: str) -> None:
    """Nothing that ssh or the program at the other end could take as an option."""
    if user.startswith("-") or path.startswith("-") or not path or not _HOST.fullmatch(host):
        raise rule("has no sound user, host or path", _URL_HINT)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


_BAD_IN_REF: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")


def branch(text: str) -> str:
    """A branch name by the rules of git-check-ref-format(1) with `--branch`. Raises pydantic's custom
    error."""
    parts = text.split("/")
    if (
        _BAD_IN_REF.search(text)
        or any(part.startswith(".") or part.endswith(".lock") or not part for part in parts)
        or text.endswith(".")
        or text.startswith("-")
        or text in ("@", "HEAD")
    ):
        hint = "write the branch's name alone, like main or release/4.20"
        raise rule(f"must be a branch name, not {shown(text)}", hint)
    return text


_AUTHORITY: Final = re.compile(rf"({_HOST.pattern})(?::([0-9]{{1,5}}))?")


def registry_host(text: str) -> str:
    """`host` or `host:port`."""
    match = _AUTHORITY.fullmatch(text)
    if match is None or not 1 <= int(match[2] or 1) <= 65535:
        raise rule(f"must be host or host:port, not {shown(text)}", "leave out the scheme and the path")
    return text


def address(text: str) -> Address:
    """`host:port`, to listen at."""
    match = _AUTHORITY.fullmatch(text)
    if match is None or match[2] is None or int(match[2]) > 65535:
        raise rule(f"must be host:port, not {shown(text)}", "write it like 127.0.0.1:8080 or [::1]:8080")
    return Address(match[1].strip("[]"), int(match[2]))


def at_once(count: int) -> int:
    """How many builds may run at once."""
    if not 1 <= count <= 64:
        raise rule(f"must be from 1 to 64, not {count}")
    return count


def file_name(text: str) -> str:
    """A path on this machine."""
    if not text or not text.isprintable():
        raise rule(f"must be a path, not {shown(text)}", "leave the field out for none")
    return text


def tag(text: str) -> str:
    """The name of a tag, by the same rules as a branch's."""
    try:
        return branch(text)
    except PydanticCustomError:
        hint = "write the tag's name alone, like v4.20.1"
        raise rule(f"must be the name of a tag, not {shown(text)}", hint) from None


def commit(text: str) -> str:
    """A whole commit id."""
    if not COMMIT.fullmatch(text):
        hint = "write all 40 hex digits: a shortened id can come to mean another commit"
        raise rule(f"must be a commit, not {shown(text)}", hint)
    return text


def message(text: str) -> str:
    """The template of a commit's subject: one line with `$pools` and the like."""
    if not text.strip() or not text.isprintable() or len(text) > 200:
        raise rule(
            "must be one printable line of at most 200 characters", "leave the field out for the usual one"
        )
    known = ", ".join(f"${name}" for name in PLACEHOLDERS)
    template = Template(text)
    unknown = sorted(set(template.get_identifiers()) - set(PLACEHOLDERS))
    if not template.is_valid() or unknown:
        found = f"${unknown[0]}" if unknown else "a single $"
        raise rule(f"mentions {found}, which means nothing here", f"known are {known}; write $$ for a dollar")
    return text


_QUANTITY: Final = re.compile(r"(0|[1-9][0-9]*)(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?")
_LABEL_KEY: Final = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


def quantity(text: str) -> str:
    """An amount of a resource, as Kubernetes writes it."""
    if not _QUANTITY.fullmatch(text):
        raise rule(f"must be a quantity, not {shown(text)}", "write it like 500m, 2 or 4Gi, in quotes")
    return text


def label_key(text: str) -> str:
    """The key of a label, a taint or a resource."""
    if not _LABEL_KEY.fullmatch(text):
        raise rule(f"must be a label's key, not {shown(text)}", "write it like example.com/dedicated")
    return text


def label_value(text: str) -> str:
    """The value of a label or a taint."""
    if not _LABEL_VALUE.fullmatch(text):
        raise rule(f"must be a label's value, not {shown(text)}", "at most 63 letters, digits, '.', '_', '-'")
    return text


def repository(text: str) -> str:
    """`host/path` of images, without tag and digest."""
    try:
        found = ImageRef.parse(f"{text}:x")
    except ValueError:
        found = None
    if found is None or found.repository != text:
        raise rule(
            f"must be a repository, not {shown(text)}", "write it like registry.example.com/os/staging"
        )
    return text


def attempts(count: int) -> int:
    """How many pods one build may use up."""
    if not 1 <= count <= 10:
        raise rule(f"must be from 1 to 10, not {count}")
    return count


def image(text: str) -> str:
    """A full reference of an image to run."""
    try:
        ImageRef.parse(text)
    except ValueError:
        hint = "write host/path:tag or host/path@sha256:…; what a short name means depends on the node"
        raise rule(f"must be a full image reference, not {shown(text)}", hint) from None
    return text


def context(text: str) -> str:
    """The name of a kubeconfig's context."""
    if not text or not text.isprintable():
        raise rule(f"must be the name of a context, not {shown(text)}", "leave it out for the current one")
    return text


_REPOSITORY: Final = re.compile(
    r"(?!\.{1,2}(/|$))[A-Za-z0-9._-]{1,100}(/(?!\.{1,2}(/|$))[A-Za-z0-9._-]{1,100})+"
)
_PATH: Final = re.compile(r"(/[A-Za-z0-9._~-]+)*/?")


def api_url(text: str) -> str:
    """The URL of a forge's API: HTTPS, or HTTP to this machine."""
    hint = "name the URL of its API, such as https://api.github.com or https://gitlab.example.com/api/v4"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise rule("is no URL", hint) from None
    if parts.username is not None or parts.query or parts.fragment:
        raise rule("must not hold credentials, a query or a fragment", hint)
    secure = parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))
    sound = _HOST.fullmatch(f"[{host}]" if ":" in host else host) and _PATH.fullmatch(parts.path)
    if not secure or not sound or port == 0:
        raise rule("must be an HTTPS address", hint)
    return text


def forge_repository(text: str) -> str:
    """A repository's name on a forge."""
    if not _REPOSITORY.fullmatch(text):
        raise rule(f"must be a repository's name, not {shown(text)}", "write it as OWNER/NAME")
    return text


def forge_label(text: str) -> str:
    """A label of pull requests on a forge."""
    if not text.strip() or not text.isprintable() or len(text) > 255:
        raise rule(f"must be the name of a label, not {shown(text)}", "leave it out to preview all")
    return text


def per_author(count: int) -> int:
    """How many previews one account may cause in an hour."""
    if not 1 <= count <= 1000:
        raise rule(f"must be from 1 to 1000, not {count}")
    return count
