"""ReconcilerConfigs that are accepted, and ones that are refused."""

from __future__ import annotations

from tests.unit.documents.cases import Bad, Good, changed

SETTINGS = """\
apiVersion: reconciler.machineos.dev/v1alpha1
kind: ReconcilerConfig
source:
  url: https://git.example.com/acme/machine-os.git
  branch: main
  path: clusters/east
  interval: 60s
instance: default
writeBack: {branch: status}
registry: {insecure: ["127.0.0.1:5000"], authFile: auth.json, caFile: /etc/ca.pem}
builder: {type: local, concurrency: 2, storageDriver: vfs, timeout: 2h}
cluster: {mode: none}
architectures: [amd64, arm64]
deliver: [commit]
web: {listen: "127.0.0.1:8080"}
"""

DAEMON = """\
apiVersion: reconciler.machineos.dev/v1alpha1
kind: ReconcilerConfig
source:
  url: https://git.example.com/acme/machine-os.git
  tag: v4.20.1
  interval: 5s
  resync: 1h
  deadline: 5m
  credentials: /etc/secrets/read
  verify: {mode: all, keys: keys, since: "1111111111111111111111111111111111111111"}
writeBack:
  branch: status
  credentials: /etc/secrets/push
  message: "Bump $pools ($count) for $$1"
web:
  listen: "127.0.0.1:8080"
  webhooks:
  - {type: github, secretFiles: [/etc/hooks/new, /etc/hooks/old]}
  - {type: generic, secretFiles: [hook]}
"""

CLUSTER = """\
apiVersion: reconciler.machineos.dev/v1alpha1
kind: ReconcilerConfig
source: {url: "https://git.example.com/acme/machine-os.git"}
builder:
  type: job
  job:
    image: quay.io/buildah/stable:v1.41.0
    serviceAccount: builder
    privilege: root
    tolerations:
    - {key: dedicated, value: builds, effect: NoSchedule}
    - {operator: Exists}
    nodeSelector: {example.com/builds: "yes"}
    resources: {requests: {cpu: "2"}, limits: {memory: 8Gi}}
    runtimeClass: kata
    priorityClass: low
    attempts: 3
    ttl: 7d
    staging: registry.example.com/os/staging
    trustBundle: ca
cluster: {mode: kubeconfig, kubeconfig: kube/config, context: east, namespace: machine-os, vanished: drop}
deliver: [commit, pool-annotation, machine-config]
writeBack: {manifests: manifests/east}
"""

REQUESTS = """\
apiVersion: reconciler.machineos.dev/v1alpha1
kind: ReconcilerConfig
source: {url: "https://git.example.com/acme/machine-os.git", path: clusters/east}
writeBack: {branch: status, pullRequest: {branch: bot/images}}
forge: {type: gitlab, url: "https://gitlab.example.com/api/v4", repository: os/east/machine-os, tokenFile: token}
"""

PREVIEW = """\
apiVersion: reconciler.machineos.dev/v1alpha1
kind: ReconcilerConfig
source: {url: "https://git.example.com/acme/machine-os.git", branch: stable}
forge: {type: github, url: "https://api.github.com", repository: acme/machine-os, tokenFile: token}
preview: {interval: 30s, forks: true, label: show it, perAuthor: 5}
"""

_URL = "https://git.example.com/acme/machine-os.git"


def _settings(name: str, old: str, new: str) -> Good:
    return Good(name, changed(SETTINGS, old, new))


GOOD_URLS = (
    "https://git.example.com:8443/a/b.git",
    "https://[::1]:8443/a",
    "http://127.0.0.1:8080/a.git",
    "http://localhost/a",
    "http://[::1]:1/a",
    "ssh://git@git.example.com:22/a/b.git",
    "ssh://git.example.com/~user/a",
    "git@git.example.com:acme/machine-os.git",
    "git.example.com:/srv/git/a",
    "file:///srv/git/a.git",
    "file://localhost/srv/a",
    "/srv/git/a.git",
)
BAD_URLS = (
    "",
    "-uexec",
    "--upload-pack=touch x",
    "ext::sh -c x",
    "ext::x",
    "host::path",
    "git://git.example.com/a",
    "ftp://git.example.com/a",
    "http://git.example.com/a",
    "http://127.0.0.1.example.com/a",
    "https://user:secret@git.example.com/a",
    "https://secret@git.example.com/a",
    "https://git.example.com/a?token=secret",
    "https://git.example.com/a#secret",
    "https://git.example.com",
    "https:///a",
    "ssh://user:secret@git.example.com/a",
    "ssh://-oProxyCommand=x/a",
    "ssh://-x@git.example.com/a",
    "ssh://git.example.com/-a",
    "-x@git.example.com:a",
    "git@-oProxyCommand=x:a",
    "git@git.example.com:-a",
    "git@git.example.com:",
    "relative/path",
    "../up",
    "file://remote/a",
    "file://relative",
    "https://git.example.com/a b",
    "/srv/a\\nb",
)
GOOD_BRANCHES = (
    "main",
    "release/4.20",
    "a",
    "a-b_c.d",
    "@a",
    "feature/é",
    "a@b",
    "headless",
    "lock",
    "a.lockx",
)
BAD_BRANCHES = (
    "",
    ".a",
    "a/.b",
    "a.lock",
    "a.lock/b",
    "a..b",
    "a b",
    "a~b",
    "a^b",
    "a:b",
    "a?b",
    "a*b",
    "a[b",
    "a\\\\b",
    "/a",
    "a/",
    "a//b",
    "a.",
    "a@{b",
    "@",
    "-a",
    "HEAD",
    "a\\x7fb",
    "a\\tb",
)

GOOD_SETTINGS = (
    Good("a cluster", CLUSTER),
    Good("as is", SETTINGS),
    Good("pull requests", REQUESTS),
    Good("pull requests from the usual branch", changed(REQUESTS, "branch: bot/images", "")),
    Good("previews", PREVIEW),
    Good("usual previews", changed(PREVIEW, "interval: 30s, forks: true, label: show it, perAuthor: 5", "")),
    Good("a forge alone", changed(REQUESTS, ", pullRequest: {branch: bot/images}", "")),
    *(
        Good(f"forge at {url}", changed(REQUESTS, "https://gitlab.example.com/api/v4", url))
        for url in ("https://api.github.com", "http://127.0.0.1:3000/api/v1/", "https://[::1]:3000/api/v1")
    ),
    Good("all that a daemon may be told", DAEMON),
    Good("commit", changed(DAEMON, "tag: v4.20.1", f"commit: {'a' * 40}")),
    Good("verification is off", changed(DAEMON, "mode: all, keys: keys, ", 'mode: "off", ')),
    Good("smallest", SETTINGS[: SETTINGS.index("  branch")]),
    *(_settings(f"url {url}", _URL, f'"{url}"') for url in GOOD_URLS),
    *(_settings(f"branch {name}", "branch: main", f'branch: "{name}"') for name in GOOD_BRANCHES),
    *(_settings(f"interval {text}", "60s", text) for text in ("1s", "5m", "1h", "999999999d")),
    _settings("empty sections", "{branch: status}", "{}"),
    _settings("overlay", "vfs", "overlay"),
    _settings("insecure name", '"127.0.0.1:5000"', 'registry, registry.local, "[::1]:5000"'),
    _settings("listen on IPv6", '"127.0.0.1:8080"', '"[::1]:0"'),
    _settings("listen on a name", '"127.0.0.1:8080"', "localhost:65535"),
)


def _bad_settings(name: str, old: str, new: str, line: int, message: str, *, schema: bool = True) -> Bad:
    return Bad(name, changed(SETTINGS, old, new), line, message, schema)


BAD_SETTINGS = (
    *(_bad_settings(f"url {url}", _URL, f'"{url}"', 4, "source.url ") for url in BAD_URLS),
    *(
        _bad_settings(f"branch {n}", "branch: main", f'branch: "{n}"', 5, "must be a branch name")
        for n in BAD_BRANCHES
    ),
    *(
        _bad_settings(f"interval {text}", "60s", f'"{text}"', 7, "must be a duration")
        for text in ("", "0s", "1", "1.5h", "-1s", "1 s", "1w", "500ms", "1h30m", "1H", "1000000000s")
    ),
    _bad_settings(
        "url with a bad port", _URL, "https://git.example.com:99999/a", 4, "is no URL", schema=False
    ),
    _bad_settings("url with port 0", _URL, "https://git.example.com:0/a", 4, "names port 0", schema=False),
    _bad_settings(
        "no source",
        SETTINGS[SETTINGS.index("source") : SETTINGS.index("instance")],
        "",
        1,
        "source is missing",
    ),
    _bad_settings("no url", f"  url: {_URL}\n", "", 3, "source.url is missing"),
    _bad_settings("number for interval", "60s", "60", 7, "must be text, not the number 60"),
    _bad_settings("path going up", "clusters/east", "../x", 6, "must be a relative folder"),
    _bad_settings("instance", "instance: default", "instance: My_Instance", 8, "must be a DNS label"),
    _bad_settings("long instance", "instance: default", f"instance: {'a' * 64}", 8, "must be a DNS label"),
    _bad_settings("null section", "{branch: status}", "", 9, "writeBack must be a mapping, not empty (null)"),
    _bad_settings("insecure url", '"127.0.0.1:5000"', '"http://a"', 10, "must be host or host:port"),
    _bad_settings(
        "insecure port", '"127.0.0.1:5000"', '"a:70000"', 10, "must be host or host:port", schema=False
    ),
    _bad_settings("insecure as text", '["127.0.0.1:5000"]', "a", 10, "must be a list"),
    _bad_settings("empty file", "auth.json", "''", 10, "must be a path"),
    _bad_settings(
        "unknown builder", "type: local", "type: loca", 11, "must be local or job or openshift, not 'loca'"
    ),
    _bad_settings("no builds at once", "concurrency: 2", "concurrency: 0", 11, "must be from 1 to 64, not 0"),
    _bad_settings("concurrency as text", "concurrency: 2", "concurrency: '2'", 11, "must be a whole number"),
    _bad_settings(
        "concurrency as flag", "concurrency: 2", "concurrency: true", 11, "must be a whole number, not true"
    ),
    _bad_settings(
        "concurrency as fraction", "concurrency: 2", "concurrency: 2.5", 11, "must be a whole number"
    ),
    _bad_settings("unknown driver", "vfs", "btrfs", 11, "must be vfs or overlay, not 'btrfs'"),
    _bad_settings(
        "unknown cluster", "mode: none", "mode: yes", 12, "must be none or in-cluster or kubeconfig"
    ),
    _bad_settings(
        "jobs without a cluster", "type: local", "type: job", 11, "builder.type needs a cluster", schema=False
    ),
    _bad_settings(
        "annotations without a cluster",
        "[commit]",
        "[pool-annotation]",
        14,
        "deliver needs a cluster",
        schema=False,
    ),
    _bad_settings(
        "MachineConfigs without a cluster",
        "[commit]",
        "[commit, machine-config]",
        14,
        "deliver needs a cluster",
        schema=False,
    ),
    *(
        Bad(name, changed(PREVIEW, old, new), line, message, schema)
        for name, old, new, line, message, schema in (
            (
                "preview without a forge",
                "forge" + PREVIEW.partition("forge")[2].partition("preview")[0],
                "",
                4,
                "needs a forge",
                False,
            ),
            (
                "preview of a tag",
                "branch: stable}",
                "tag: v1}\nwriteBack: {branch: b}",
                6,
                "has no meaning beside source.tag",
                False,
            ),
            ("preview with an unknown key", "forks", "fork", 5, "preview.fork is an unknown field", True),
            ("forks as text", "true", '"true"', 5, "must be true or false", True),
            ("label of blanks", "show it", '" "', 5, "must be the name of a label", True),
            ("no previews for anybody", "perAuthor: 5", "perAuthor: 0", 5, "must be from 1 to 1000", True),
            ("a million previews", "perAuthor: 5", "perAuthor: 1000000", 5, "must be from 1 to", True),
            ("no interval", "30s", "0s", 5, "preview.interval", True),
        )
    ),
    *(
        Bad(name, changed(REQUESTS, old, new), line, message, schema)
        for name, old, new, line, message, schema in (
            ("request without a forge", REQUESTS[REQUESTS.index("forge") :], "", 4, "needs a forge", False),
            ("request from its target", "bot/images", "status", 4, "to be merged into", False),
            ("request from the source", "bot/images", "main", 4, "to be merged into", False),
            ("request from no branch", "bot/images", "a..b", 4, "must be a branch name", True),
            (
                "unknown forge",
                "type: gitlab",
                "type: sourcehut",
                5,
                "must be github or gitlab or gitea",
                True,
            ),
            ("forge over HTTP", "https://gitlab", "http://gitlab", 5, "must be an HTTPS address", True),
            ("forge with a password", "//gitlab", "//me:secret@gitlab", 5, "must not hold credentials", True),
            ("forge with a query", "/v4", "/v4?a=b", 5, "must not hold credentials", True),
            ("forge at port 0", "gitlab.example.com", "gitlab.example.com:0", 5, "must be an HTTPS", False),
            ("repository without owner", "os/east/machine-os", "machine-os", 5, "must be a repository", True),
            ("repository going up", "os/east/", "os/../", 5, "must be a repository", True),
            ("forge without a token", ", tokenFile: token", "", 5, "forge.tokenFile is missing", True),
        )
    ),
    *(
        Bad(name, changed(CLUSTER, old, new), line, message, schema)
        for name, old, new, line, message, schema in (
            (
                "unknown kind of builder",
                "type: job",
                "type: tekton",
                5,
                "must be local or job or openshift",
                True,
            ),
            (
                "short image",
                "quay.io/buildah/stable:v1.41.0",
                "buildah",
                7,
                "must be a full image reference",
                True,
            ),
            (
                "bad account",
                "serviceAccount: builder",
                "serviceAccount: A_b",
                8,
                "must be a DNS subdomain",
                True,
            ),
            ("unknown privilege", "privilege: root", "privilege: all", 9, "must be rootless or", True),
            ("unknown effect", "NoSchedule", "Never", 11, "must be NoSchedule or", True),
            ("toleration of nothing", "{operator: Exists}", "{value: x}", 12, "names no key", False),
            ("bad taint", "key: dedicated", "key: 'a b'", 11, "must be a label's key", True),
            ("bad label", "example.com/builds:", "'/x':", 13, "must be a label's key", True),
            ("bad label value", '"yes"', '"a b"', 13, "must be a label's value", True),
            ("bad quantity", '"2"', '"two"', 14, "must be a quantity", True),
            ("number as quantity", '"2"', "2", 14, "must be text", True),
            ("no attempts", "attempts: 3", "attempts: 0", 17, "must be from 1 to 10, not 0", True),
            ("tagged staging", "os/staging", "os/staging:x", 19, "must be a repository", True),
            (
                "context elsewhere",
                "mode: kubeconfig, kubeconfig: kube/config",
                "mode: in-cluster",
                21,
                "no meaning",
                False,
            ),
            (
                "file elsewhere",
                "kubeconfig, kubeconfig: kube/config, context: east",
                "in-cluster, kubeconfig: a",
                21,
                "no meaning",
                False,
            ),
            ("manifests above", "manifests/east", "../east", 23, "must be a relative folder", True),
            ("empty context", "context: east", "context: ''", 21, "must be the name of a context", True),
            ("bad namespace", "namespace: machine-os", "namespace: a.b", 21, "must be a DNS label", True),
            ("unknown policy", "vanished: drop", "vanished: forget", 21, "must be keep or drop", True),
        )
    ),
    _bad_settings("no architectures", "[amd64, arm64]", "[]", 13, "must not be empty"),
    _bad_settings("no delivery", "[commit]", "[]", 14, "must not be empty"),
    _bad_settings("delivery twice", "[commit]", "[commit, commit]", 14, "names 'commit' twice"),
    _bad_settings("delivery of a later release", "[commit]", "[nodepool]", 14, "must be commit or pool-ann"),
    _bad_settings("listen without host", '"127.0.0.1:8080"', '":8080"', 15, "must be host:port"),
    _bad_settings("listen without port", '"127.0.0.1:8080"', "localhost", 15, "must be host:port"),
    _bad_settings(
        "listen on no port", '"127.0.0.1:8080"', '"a:65536"', 15, "must be host:port", schema=False
    ),
    _bad_settings("web without address", '{listen: "127.0.0.1:8080"}', "{}", 15, "web.listen is missing"),
    _bad_settings("unknown section", "web:", "wab:", 15, "wab is an unknown field"),
    _bad_settings(
        "unknown field", "storageDriver", "storagedriver", 11, "builder.storagedriver is an unknown field"
    ),
    *(
        Bad(name, changed(DAEMON, old, new), line, message, schema)
        for name, old, new, line, message, schema in (
            ("branch beside tag", "tag:", "branch: main\n  tag:", 6, "tag cannot stand beside branch", True),
            ("tag with blank", "v4.20.1", "v4 20", 5, "must be the name of a tag", True),
            ("tag without branch", "  branch: status\n", "", 5, "needs a branch to write to", False),
            ("short commit", "tag: v4.20.1", "commit: abcdef1", 5, "must be a commit", True),
            ("verification without keys", "keys: keys, ", "", 10, "has a mode and no keys", True),
            ("unknown mode", "mode: all", "mode: strict", 10, "must be off or head or all", True),
            ("short since", f'"{"1" * 40}"', "abc", 10, "must be a commit", True),
            ("no deadline", "5m", "0s", 8, "must be a duration", True),
            ("unknown placeholder", "$pools", "$pool", 14, "mentions $pool, which means", False),
            ("single dollar", "$$1", "$1", 14, "mentions a single $", False),
            ("message of two lines", "for $$1", "\\nfor", 14, "must be one printable line", True),
            (
                "empty message",
                '"Bump $pools ($count) for $$1"',
                '" "',
                14,
                "must be one printable line",
                True,
            ),
            ("unknown sender", "type: github", "type: bitbucket", 18, "must be github or gitlab", True),
            ("no secret", "[hook]", "[]", 19, "must not be empty", True),
            ("sender twice", "type: generic", "type: github", 19, "is the second of type github", False),
            ("no sender", "type: generic, ", "", 19, "type is missing", True),
        )
    ),
)
