"""`metadata` of Kubernetes objects: what an API server accepts in ObjectMeta, whichever kind it belongs
to."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator

from reconciler.core.documents.shape import Strict, rule
from reconciler.core.documents.values import DnsSubdomain, dns_subdomain
from reconciler.core.yaml import shown

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")


def _qualified_name(text: str) -> str:
    """A label's or annotation's key: `[prefix/]name`."""
    prefix, slash, name = text.rpartition("/")
    if slash:
        dns_subdomain(prefix)
    if len(name) > 63 or not _NAME.fullmatch(name):
        hint = "write [prefix/]name; a name has at most 63 letters, digits, '-', '_' and '.'"
        raise rule(f"has a key that Kubernetes does not take: {shown(text)}", hint)
    return text


def _annotation_key(text: str) -> str:
    """Kubernetes folds the case of annotation keys before it looks at them, but not of labels' keys."""
    _qualified_name(text.lower())
    return text


def _label_value(text: str) -> str:
    if text and (len(text) > 63 or not _NAME.fullmatch(text)):
        hint = "at most 63 letters, digits, '-', '_' and '.', alphanumeric at both ends; or use an annotation"
        raise rule(f"has a value that no label can have: {shown(text)}", hint)
    return text


class ObjectMeta(Strict):
    """All fields of `k8s.io/apimachinery/pkg/apis/meta/v1.ObjectMeta`; only the first three mean something
    in Git.

    A null is what exports write for `creationTimestamp`, and to an API server the same as no field.
    """

    name: DnsSubdomain
    labels: (
        dict[Annotated[str, AfterValidator(_qualified_name)], Annotated[str, AfterValidator(_label_value)]]
        | None
    ) = None
    annotations: dict[Annotated[str, AfterValidator(_annotation_key)], str] | None = None
    namespace: str | None = None
    generate_name: str | None = None
    self_link: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None
    owner_references: list[dict[str, Any]] | None = None
    managed_fields: list[dict[str, Any]] | None = None
