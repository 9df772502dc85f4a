"""Who we are to which API server, and for how long that is good.

Belongs here: making clients from a login, making them anew in time, and the namespace that is ours.
Does not belong here: sending anything (`wire`), and what a kubeconfig says (`kubeconfig`).

A certificate authority is read once per client, tokens expire, and mounted files are replaced while we run: so a client
is given up when its files change, when its login ends, when it is refused, and after an hour whatever happens.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final

from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader

from reconciler.adapters.cluster import kubeconfig
from reconciler.adapters.cluster.login import Login
from reconciler.errors import ClusterError
from reconciler.redaction import Redactor
from reconciler.settings import ClusterMode, ClusterSettings

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts a pod's token, its namespace, and the certificate authority."""
_LIFE: Final = 3600.0
_SKEW: Final = 60.0
"""Seconds before a login ends at which another is made."""
_AGAIN: Final = 10.0
"""Seconds between two logins, whatever happens."""
_AGENT: Final = "machine-os-reconciler"


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """A client of one API server, and the headers that every request of its needs. `born` by the monotonic clock."""

    rest: Any
    host: str
    headers: Mapping[str, str]
    namespace: str
    files: tuple[tuple[Path, object], ...]
    born: float
    expires: float


class Connection:
    """Gives out the session that is good now. For any thread.

    `log_in` is called each time a session is made. `now` is the time of day, `monotonic` one that nobody changes.
    """

    def __init__(
        self,
        log_in: Callable[[], Login],
        redactor: Redactor,
        *,
        namespace: str = "",
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log_in = log_in
        self._redactor = redactor
        self._wanted = namespace
        self._now = now
        self._monotonic = monotonic
        self._lock = Lock()
        self._session: Session | None = None
        self._rejected = False
        self._tried = float("-inf")
        self._failure: ClusterError | None = None

    @property
    def namespace(self) -> str:
        """Where what is ours in the cluster is. Raises ClusterError when nobody says it."""
        found = self._wanted or self.session().namespace
        if not found:
            raise ClusterError(
                "no namespace is configured, and the kubeconfig's context names none",
                hint="set cluster.namespace",
            )
        return found

    @property
    def server(self) -> str:
        """The URL of the API server, for people; '' before the first session."""
        session = self._session
        return session.host if session is not None else ""

    def session(self) -> Session:
        """A session that is good as far as can be told. Raises ClusterError, ClusterUnavailable."""
        with self._lock:
            session = self._session
            if session is not None and not self._rejected and not self._is_over(session):
                return session
            if self._monotonic() - self._tried < _AGAIN:
                if session is not None:
                    return session
                if self._failure is not None:
                    raise type(self._failure)(self._failure.message, hint=self._failure.hint)
            return self._made()

    def renew(self, session: Session) -> bool:
        """A session was refused: make no more use of it. Says whether another one is worth a try now."""
        with self._lock:
            if session is not self._session:
                return True
            self._rejected = True
            return self._monotonic() - self._tried >= _AGAIN

    def close(self) -> None:
        """Close its connections."""
        with self._lock:
            if self._session is not None:
                self._session.rest.close()

    def _is_over(self, session: Session) -> bool:
        return (
            self._monotonic() - session.born > _LIFE
            or self._now() > session.expires - _SKEW
            or any(_stamp(path) != stamp for path, stamp in session.files)
        )

    def _made(self) -> Session:
        """Log in; while the old session is good as far as can be told, it outlives a login that fails."""
        self._tried = self._monotonic()
        old = self._session
        try:
            session = self._opened(self._log_in())
        except ClusterError as error:
            self._failure = error
            if old is None or self._rejected:
                raise
            return old
        self._session, self._rejected, self._failure = session, False, None
        if old is not None:
            old.rest.close()
        return session

    def _opened(self, login: Login) -> Session:
        # Stamps first: a file that is replaced from here on makes the session old.
        files = tuple((path, _stamp(path)) for path in login.files)
        made = login.configuration
        made.retries = False
        made.keep_alive = True
        # Renewal is ours; the package's own would run programs and ask servers without any limit.
        made.refresh_api_key_hook = None
        headers = {"User-Agent": _AGENT}
        if authorization := made.api_key.get("BearerToken", "").strip():
            secret = authorization.partition(" ")[2]
            self._redactor.add(secret)
            if not secret.isascii() or not secret.isprintable() or " " in secret:
                raise ClusterError("the token for the API server has characters that no token has")
            headers["Authorization"] = authorization
        try:
            rest = RESTClientObject(made)
        except Exception as error:  # whatever urllib3 thinks of a proxy's URL, or of files
            message = self._redactor.clean(f"no connection can be made to {made.host}: {error}")
            raise ClusterError(message) from error
        return Session(
            rest, made.host.rstrip("/"), headers, login.namespace, files, self._monotonic(), login.expires
        )


def connect(settings: ClusterSettings, environ: Mapping[str, str], redactor: Redactor) -> Connection:
    """A connection to the cluster that is configured; nothing is read or sent yet. `environ` is what programs that a
    kubeconfig names are run with; KUBECONFIG, HOME and the pod's KUBERNETES_SERVICE_* variables count.

    Raises ClusterError when no cluster is configured.
    """
    match settings.mode:
        case ClusterMode.IN_CLUSTER:
            log_in = partial(in_cluster, environ)
        case ClusterMode.KUBECONFIG:
            paths = settings.kubeconfig or kubeconfig.usual(environ)
            log_in = partial(kubeconfig.login, paths, settings.context, environ, redactor)
        case _:
            raise ClusterError("no cluster is configured", hint="set cluster.mode")
    return Connection(log_in, redactor, namespace=settings.namespace)


def in_cluster(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Login:
    """The login of the pod that this runs in. Raises ClusterError when it runs in none."""
    token, authority = folder / "token", folder / "ca.crt"
    configuration = Configuration()
    try:
        InClusterConfigLoader(
            token_filename=str(token), cert_filename=str(authority), try_refresh_token=False, environ=environ
        ).load_and_set(configuration)
        namespace = _text(folder / "namespace")
    except (ConfigException, OSError, UnicodeDecodeError) as error:
        raise ClusterError(
            f"this does not run in a pod with a service account: {error}",
            hint="set cluster.mode to kubeconfig, or let the pod have a service account token",
        ) from error
    return Login(configuration, namespace, (token, authority))


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def _stamp(path: Path) -> object:
    """Something that changes when a file is replaced or written."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
