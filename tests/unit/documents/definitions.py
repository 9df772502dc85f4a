"""MachineOSConfigs that are accepted, and ones that are refused."""

from __future__ import annotations

from tests.unit.documents.cases import Bad, Good, changed

DEFINITION = """\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineOSConfig
metadata:
  name: worker
  labels: {team: os}
  annotations:
    reconciler.machineos.dev/architectures: amd64, arm64
    example.com/owner: os
spec:
  machineConfigPool:
    name: worker
  imageBuilder:
    imageBuilderType: Job
  baseImagePullSecret: {name: pull}
  renderedImagePushSecret:
    name: push
  renderedImagePushSpec: registry.example.com/os/worker:latest
  containerFile:
  - containerfileArch: NoArch
    content: |
      FROM configs AS final
      RUN true
  - containerfileArch: ARM64
    content: FROM configs AS final
"""

_NO_ARCH = "containerfileArch: NoArch"
_ARM = "  - containerfileArch: ARM64\n    content: FROM configs AS final\n"
_PUSH = "registry.example.com/os/worker:latest"
_ARCHS = "reconciler.machineos.dev/architectures: amd64, arm64"
_LONGEST = "a" * 63 + "." + "b" * 63 + "." + "c" * 63 + "." + "d" * 61


def _definition(name: str, old: str, new: str) -> Good:
    return Good(name, changed(DEFINITION, old, new))


def _items(*archs: str) -> str:
    head = DEFINITION[: DEFINITION.index("  - containerfileArch: NoArch")]
    return head + "".join(f"  - containerfileArch: {arch}\n    content: FROM x\n" for arch in archs)


def _wish(line: str) -> str:
    return changed(DEFINITION, _ARCHS, line)


GOOD_DEFINITIONS = (
    Good("as is", DEFINITION),
    Good("longest name", DEFINITION.replace("name: worker", f"name: {_LONGEST}")),
    Good("no containerfiles", DEFINITION[: DEFINITION.index("  containerFile:")]),
    Good("null containerfiles", DEFINITION[: DEFINITION.index("  containerFile:")] + "  containerFile:\n"),
    Good("four architectures", _items("AMD64", "ARM64", "PPC64LE", "S390X")),
    _definition("default architecture", "- containerfileArch: NoArch\n    content", "- content"),
    _definition("null architecture", _NO_ARCH, "containerfileArch: null"),
    _definition("no pull secret", "  baseImagePullSecret: {name: pull}\n", ""),
    _definition("null pull secret", "baseImagePullSecret: {name: pull}", "baseImagePullSecret:"),
    _definition("empty content", "content: FROM configs AS final", 'content: ""'),
    _definition("4096 characters of more bytes", "content: FROM configs AS final", "content: " + "é" * 4096),
    _definition("port", _PUSH, "127.0.0.1:5000/a/b:c"),
    _definition("service", _PUSH, "registry.os.svc:5000/a/b:c"),
    _definition("deep namespace", _PUSH, "quay.io/a/b/c/d:v1.2_3-4"),
    _definition("status", "spec:\n", "status: {conditions: []}\nspec:\n"),
    _definition(
        "exported metadata",
        "  name: worker\n  labels",
        "  name: worker\n  creationTimestamp: null\n  uid: x\n  labels",
    ),
    _definition(
        "cleared by the server", "  name: worker\n  labels", "  name: worker\n  namespace: x\n  labels"
    ),
    _definition("null labels", "labels: {team: os}", "labels:"),
    _definition("label with a prefix", "{team: os}", '{example.com/team: "", a.b/c_d: v1}'),
    _definition("annotation key of mixed case", "example.com/owner", "Example.COM/Owner"),
    Good("other spellings", _wish('reconciler.machineos.dev/architectures: " X86_64 aarch64,,S390X "')),
    Good("refresh", _wish('reconciler.machineos.dev/refresh: "1"')),
    Good("requested", _wish("reconciler.machineos.dev/requestedAt: now")),
    Good("locked", _wish("reconciler.machineos.dev/bases: locked")),
    Good("suspended", _wish('reconciler.machineos.dev/suspend: "true"')),
    Good("rebuild", _wish('machineconfiguration.openshift.io/rebuild: ""')),
    Good("another group", _wish("machineos.dev/bases: whatever")),
)


def _bad(name: str, old: str, new: str, line: int, message: str, *, schema: bool = True) -> Bad:
    return Bad(name, changed(DEFINITION, old, new), line, message, schema)


BAD_DEFINITIONS = (
    _bad(
        "old version",
        "io/v1\n",
        "io/v1alpha1\n",
        1,
        "apiVersion must be machineconfiguration.openshift.io/v1",
    ),
    _bad("no metadata name", "  name: worker\n  labels", "  labels", 3, "metadata.name is missing"),
    Bad(
        "not the pool's name",
        DEFINITION.replace("  name: worker\n  l", "  name: other\n  l"),
        4,
        "metadata.name is 'other', but spec.machineConfigPool.name is 'worker'",
        schema=False,
    ),
    Bad(
        "upper-case name",
        DEFINITION.replace("name: worker", "name: Worker"),
        4,
        "must be a DNS subdomain name",
    ),
    Bad(
        "name too long",
        DEFINITION.replace("name: worker", f"name: {_LONGEST}d"),
        4,
        "must be a DNS subdomain name",
    ),
    Bad(
        "name of underscores",
        DEFINITION.replace("name: worker", "name: a_b"),
        4,
        "must be a DNS subdomain name",
    ),
    Bad(
        "name ends in a dot",
        DEFINITION.replace("name: worker", "name: worker."),
        4,
        "must be a DNS subdomain name",
    ),
    _bad("unknown metadata", "labels: {", "label: {", 5, "metadata.label is an unknown field"),
    _bad(
        "label not text", "{team: os}", "{team: 1}", 5, "metadata.labels.team must be text, not the number 1"
    ),
    _bad("label value", "{team: os}", "{team: a b}", 5, "has a value that no label can have"),
    _bad("label key", "{team: os}", "{-team: os}", 5, "has a key that Kubernetes does not take"),
    _bad("label key prefix", "{team: os}", "{A.b/team: os}", 5, "must be a DNS subdomain name"),
    _bad("annotation not text", "owner: os", "owner: true", 8, "must be text, not true"),
    _bad("annotation null", "owner: os", "owner:", 8, "must be text, not empty (null)"),
    _bad(
        "annotations a list",
        "annotations:\n    " + _ARCHS + "\n    example.com/owner: os",
        "annotations: []",
        6,
        "metadata.annotations must be a mapping, not a list",
    ),
    _bad("no spec", DEFINITION[DEFINITION.index("spec:") :], "", 1, "spec is missing"),
    _bad("no pool", "  machineConfigPool:\n    name: worker\n", "", 9, "spec.machineConfigPool is missing"),
    _bad("no builder", "  imageBuilder:\n    imageBuilderType: Job\n", "", 9, "spec.imageBuilder is missing"),
    _bad("other builder", "Job", "PodImageBuilder", 13, "must be Job, not 'PodImageBuilder'"),
    _bad(
        "no push secret",
        "  renderedImagePushSecret:\n    name: push\n",
        "",
        9,
        "renderedImagePushSecret is missing",
    ),
    _bad("empty secret", "name: push", 'name: ""', 16, "must be a DNS subdomain name"),
    _bad("null secret name", "name: push", "name:", 16, "must be text, not empty (null)"),
    _bad("secret as text", "{name: pull}", "pull", 14, "must be a mapping, not the text 'pull'"),
    _bad("no push spec", f"  renderedImagePushSpec: {_PUSH}\n", "", 9, "renderedImagePushSpec is missing"),
    _bad("empty push spec", _PUSH, '""', 17, "must have 1 to 447 characters, not 0"),
    _bad("push spec too long", _PUSH, f"a.io/{'a' * 61}/{'b' * 380}:x", 17, "must have 1 to 447 characters"),
    _bad("push spec without tag", _PUSH, "registry.example.com/os/worker", 17, "is no push spec"),
    _bad("push spec by digest", _PUSH, f"a.io/b:c@sha256:{'0' * 64}", 17, "is no push spec"),
    _bad("host without dot", _PUSH, "localhost:5000/a:b", 17, "is no push spec"),
    _bad("dot in a namespace", _PUSH, "a.io/b.c/d:e", 17, "is no push spec"),
    _bad("push spec with scheme", _PUSH, "https://a.io/b:c", 17, "is no push spec"),
    _bad("upper-case repository", _PUSH, "a.io/B:c", 17, "names a repository that no registry takes"),
    _bad("service without port", _PUSH, "registry.os.svc/a/b~:c", 17, "is no push spec"),
    _bad(
        "containerfiles a mapping",
        DEFINITION[DEFINITION.index("  - contain") :],
        "    a: 1\n",
        18,
        "must be a list",
    ),
    Bad(
        "five items",
        _items("AMD64", "ARM64", "PPC64LE", "S390X", "NoArch"),
        18,
        "has 5 items; upstream allows 4",
    ),
    Bad("twice", _items("ARM64", "ARM64"), 21, "is a second entry for 'ARM64' (the first is on line 19)"),
    Bad("default twice", _items("NoArch", "null"), 21, "is a second entry for 'NoArch'"),
    _bad(
        "lower case",
        _NO_ARCH,
        "containerfileArch: noarch",
        19,
        "must be one of AMD64, ARM64, NoArch, PPC64LE, S390X",
    ),
    _bad("our spelling", _NO_ARCH, "containerfileArch: amd64", 19, "must be one of AMD64"),
    _bad("unknown architecture", _NO_ARCH, "containerfileArch: RISCV64", 19, "must be one of AMD64"),
    _bad("no content", "ARM64\n    content: FROM configs AS final", "ARM64", 23, "content is missing"),
    _bad(
        "content not text",
        "content: FROM configs AS final",
        "content: 1",
        24,
        "must be text, not the number 1",
    ),
    _bad(
        "content too long",
        "content: FROM configs AS final",
        "content: " + "x" * 4097,
        24,
        "has 4097 characters",
    ),
    _bad(
        "unknown in an item",
        "content: FROM configs AS final",
        "content: x\n    arch: x",
        25,
        "arch is an unknown field",
    ),
    _bad(
        "unknown in spec",
        "  imageBuilder:",
        "  buildInputs: {}\n  imageBuilder:",
        12,
        "buildInputs is an unknown field",
    ),
    _bad("unknown at the top", "spec:\n", "data: 1\nspec:\n", 9, "data is an unknown field"),
    _bad("status as text", "spec:\n", "status: x\nspec:\n", 9, "status must be a mapping"),
    Bad("no architectures", _wish('reconciler.machineos.dev/architectures: ", "'), 7, "must not be empty"),
    Bad(
        "unknown in the annotation",
        _wish("reconciler.machineos.dev/architectures: amd64 riscv64"),
        7,
        "must be an architecture, not 'riscv64'",
    ),
    Bad(
        "twice in the annotation",
        _wish("reconciler.machineos.dev/architectures: amd64 x86_64"),
        7,
        "names 'amd64' twice",
        schema=False,
    ),
    Bad(
        "other policy",
        _wish("reconciler.machineos.dev/bases: lock"),
        7,
        "must be follow or locked, not 'lock'",
    ),
    Bad(
        "other flag", _wish('reconciler.machineos.dev/suspend: "yes"'), 7, "must be true or false, not 'yes'"
    ),
    Bad("bare flag", _wish("reconciler.machineos.dev/suspend: true"), 7, "must be text, not true"),
    Bad("unknown wish", _wish("reconciler.machineos.dev/arch: amd64"), 7, "is an unknown field"),
)
