"""Reads kubeconfigs, with the kubernetes package's own loader, and runs the programs that they name.

Belongs here: which file, context and user; credentials from exec plugins (client.authentication.k8s.io).
Does not belong here: making clients (`connect`).

The package runs plugins without a limit and only logs when they fail: so they are run here, and what they answer is put
where the loader finds it. `auth-provider`, which Kubernetes has given up, would ask servers without a limit.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from kubernetes.client import Configuration
from kubernetes.config import ConfigException
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from reconciler import process
from reconciler.adapters.cluster.login import Login
from reconciler.adapters.cluster.problems import printable
from reconciler.errors import ClusterError, ClusterUnavailable, Timeout, ToolMissing
from reconciler.redaction import Redactor

_PLUGIN_SECONDS: Final = 30.0
_SECRETS: Final = ("token", "password", "client-key-data")
_FILES: Final = ("tokenFile", "client-certificate", "client-key")


def usual(environ: Mapping[str, str]) -> str:
    """Where kubectl looks: KUBECONFIG (several files with colons between them), else below HOME."""
    return environ.get("KUBECONFIG", "") or str(Path(environ.get("HOME", "/")) / ".kube" / "config")


def login(paths: str, context: str, environ: Mapping[str, str], redactor: Redactor) -> Login:
    """The login of a context ('' for the current one) of kubeconfigs.

    Raises ClusterError; ClusterUnavailable when a plugin fails.
    """
    try:
        merged = KubeConfigMerger(paths)
        if merged.config is None:
            raise ClusterError(
                f"there is no kubeconfig {paths}", hint="set cluster.kubeconfig, or the variable KUBECONFIG"
            )
        _keep_secret(merged.config, redactor)
        name = context or merged.config["current-context"]
        chosen = merged.config["contexts"].get_with_name(name)["context"]
        user = _user(merged.config, chosen)
        expires = _authenticate(user, merged.config, chosen, environ, redactor)
        configuration = Configuration()
        # Without a base path of its own it takes that of the file in which it finds something.
        loader = KubeConfigLoader(config_dict=merged.config, active_context=name, config_base_path=None)
        loader.load_and_set(configuration)
    except ClusterError:
        raise
    except Exception as error:
        # The package answers odd files with whatever comes up, and names whole users with their tokens in it.
        said = (
            printable(redactor.clean(str(error)))
            if isinstance(error, ConfigException)
            else type(error).__name__
        )
        raise ClusterError(
            f"kubeconfig {paths} cannot be used: {said}", hint="try it with kubectl --kubeconfig"
        ) from None
    named = [configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file]
    files = [*merged.paths, *named, *_named_files(user)]
    return Login(
        configuration, chosen.value.get("namespace") or "", tuple(Path(f) for f in files if f), expires
    )


def _user(config: Any, context: Any) -> Any:
    """The node of the context's user; None when it has none."""
    name = context.safe_get("user")
    entry = config["users"].get_with_name(name, safe=True) if name and config.safe_get("users") else None
    return entry["user"] if entry is not None and entry.safe_get("user") else None


def _keep_secret(config: Any, redactor: Redactor) -> None:
    for entry in config.value.get("users") or []:
        found = entry.value if hasattr(entry, "value") else entry
        user = found.get("user") if isinstance(found, Mapping) else None
        for key in _SECRETS:
            # An entry that is not as it should be may have them in the wrong place.
            for place in (user, found):
                secret = place.get(key) if isinstance(place, Mapping) else None
                if isinstance(secret, str):
                    redactor.add(secret)
                    with suppress(ValueError):
                        redactor.add(base64.b64decode(secret, validate=True).decode("utf-8", "replace"))


def _named_files(user: Any) -> list[Path]:
    if user is None:
        return []
    base = Path(user.path).absolute().parent
    return [base / user.value[key] for key in _FILES if isinstance(user.value.get(key), str)]


def _authenticate(
    user: Any, config: Any, context: Any, environ: Mapping[str, str], redactor: Redactor
) -> float:
    """Put what a plugin says in place of the plugin; returns when that ends, in epoch seconds."""
    if user is None:
        return math.inf
    if "auth-provider" in user:
        raise ClusterError(
            f"the kubeconfig's user {context['user']} has an auth-provider, which is not supported",
            hint="use a token, a client certificate, or an exec plugin",
        )
    if "exec" not in user or "token" in user or "tokenFile" in user:
        return math.inf
    cluster = config["clusters"].get_with_name(context["cluster"])["cluster"]
    status = _plugin(user["exec"].value, Path(user.path).absolute().parent, cluster.value, environ, redactor)
    del user.value["exec"]
    token, certificate, key = (
        status.get(name, "") for name in ("token", "clientCertificateData", "clientKeyData")
    )
    redactor.add(token, key)
    if token:
        user.value["token"] = token
    if certificate and key:
        user.value["client-certificate-data"] = base64.b64encode(certificate.encode()).decode()
        user.value["client-key-data"] = base64.b64encode(key.encode()).decode()
    if not token and not (certificate and key):
        raise ClusterUnavailable(
            "the kubeconfig's plugin gave neither a token nor a certificate with its key"
        )
    return _moment(status.get("expirationTimestamp", ""))


def _plugin(
    plugin: Mapping[str, Any],
    folder: Path,
    cluster: Mapping[str, Any],
    environ: Mapping[str, str],
    redactor: Redactor,
) -> dict[str, str]:
    """What an exec plugin says. Raises ClusterError, ClusterUnavailable."""
    command, version = plugin["command"], plugin["apiVersion"]
    spec: dict[str, Any] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = _cluster(cluster)
    asked = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    own = {item["name"]: item["value"] for item in plugin.get("env") or []}
    # As kubectl does: a path counts from the kubeconfig's folder, a bare name is looked for on PATH.
    program = str(folder / command) if "/" in command else command
    env = {**environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
    try:
        done = process.run(
            [program, *(plugin.get("args") or [])], env=env, timeout=_PLUGIN_SECONDS, cwd=folder
        )
    except ToolMissing as error:
        hint = plugin.get("installHint") or f"install {command}"
        raise ClusterError(f"the kubeconfig's plugin {command} is not here", hint=hint) from error
    except Timeout as error:
        raise ClusterUnavailable(f"the kubeconfig's plugin {error.message}") from error
    except OSError as error:
        raise ClusterError(f"the kubeconfig's plugin {command} cannot be run: {error.strerror}") from error
    if done.status:
        said = redactor.clean(printable(done.complaint))
        raise ClusterUnavailable(f"the kubeconfig's plugin {command} failed with {done.status}: {said}")
    try:
        status = json.loads(done.stdout)["status"]
        return {key: value for key, value in status.items() if isinstance(value, str)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ClusterUnavailable(
            f"the kubeconfig's plugin {command} did not print an ExecCredential"
        ) from None


def _cluster(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """A kubeconfig's cluster as plugins are told of it."""
    known = (
        "server",
        "tls-server-name",
        "insecure-skip-tls-verify",
        "certificate-authority-data",
        "proxy-url",
    )
    told = {key: cluster[key] for key in known if key in cluster}
    for extension in cluster.get("extensions") or []:
        if extension["name"] == "client.authentication.k8s.io/exec":
            told["config"] = extension["extension"]
    return told


def _moment(text: str) -> float:
    """RFC 3339 in epoch seconds; a time that cannot be read is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return math.inf
