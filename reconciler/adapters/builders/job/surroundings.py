"""What a cluster tells its builds: proxies, and certificates to trust.

Belongs here: reading the Machine Config Operator's ControllerConfig. Does not belong here: what pods make of it.
Facts: openshift/api, machineconfiguration/v1/types.go, ControllerConfigSpec.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from reconciler.adapters.builders.job.names import CONTROLLER_CONFIG, mapping
from reconciler.ports.cluster import Api

_PROXIES: Final = {"httpProxy": "HTTP_PROXY", "httpsProxy": "HTTPS_PROXY", "noProxy": "NO_PROXY"}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`proxies` are environment variables; `bundle` are certificates as PEM, b'' for none."""

    proxies: Mapping[str, str] = field(default_factory=dict)
    bundle: bytes = b""


def look(api: Api, proxies: Mapping[str, str]) -> Surroundings:
    """What the cluster says; `proxies` where it does not say. Other clusters than OpenShift say nothing.

    Raises ClusterUnavailable, ClusterError.
    """
    found = api.get(CONTROLLER_CONFIG, "cluster") or {}
    wanted = mapping(found, "spec", "proxy")
    named = {name: str(wanted[key]) for key, name in _PROXIES.items() if wanted.get(key)}
    # Programs differ in which spelling they read.
    both = {spelling: value for name, value in named.items() for spelling in (name, name.lower())}
    try:
        bundle = base64.b64decode(
            str(mapping(found, "spec").get("additionalTrustBundle") or ""), validate=True
        )
    except (binascii.Error, ValueError):
        bundle = b""
    return Surroundings({**proxies, **both}, bundle)
