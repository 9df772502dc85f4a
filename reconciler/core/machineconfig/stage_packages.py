"""Package steps of the stage `configs`: extensions and kernel types, installed as upstream's template installs them.

Belongs here: the commands. Does not belong here: which packages are behind a name (`packages`).
Sources: the Machine Config Operator's `Containerfile.on-cluster-build-template` in
`pkg/controller/build/buildrequest/assets` (repository in the extensions image, `rpm-ostree install`, `dnf shell` for
kernels, tmpfiles of usbguard and libreswan); rpm-ostree(1) `override remove --install`; dnf 5, which has no `shell`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from reconciler.core.machineconfig.layer import Layer
from reconciler.core.machineconfig.packages import KERNELS, packages_of
from reconciler.core.machineconfig.stage_shell import quoted, run
from reconciler.core.machineconfig.values import KernelType

_MOUNT: Final = "/tmp/mco-extensions/os-extensions-content"  # noqa: S108  # upstream's place, inside of the build
_REPOSITORY: Final = "/etc/yum.repos.d/coreos-extensions.repo"
_PRELUDE: Final = (
    'has() { command -v "$1" >/dev/null 2>&1; }',
    "refuse() { printf 'machineconfig: %s\\n' \"$1\" >&2; exit 1; }",
)
_TOLD_BY: Final = {
    KernelType.REALTIME: "kernel-rt-core",
    KernelType.PAGES_64K: "kernel-64k-core",
    KernelType.DEFAULT: "kernel",
}
"""The package by which upstream knows a base image's kernel, in the order in which it asks."""
_TMPFILES: Final = (
    "d /var/log/usbguard 0755 root root -",
    "d /var/lib/ipsec 0700 root root -",
    "d /var/lib/ipsec/nss 0700 root root -",
)


def wants_packages(layer: Layer) -> bool:
    """Whether there is a package step at all."""
    return bool(layer.extensions) or layer.kernel_type is not KernelType.DEFAULT


def package_steps(layer: Layer, extensions_image: str | None) -> list[str]:
    """RUN instructions, none if the layer needs none."""
    if not wants_packages(layer):
        return []
    commands = [*_extensions(layer), *_kernel(layer.kernel_type)]
    flags = ""
    if extensions_image:
        flags = (
            f"--mount=type=bind,from={extensions_image},source=/,target={_MOUNT},bind-propagation=rshared,z "
        )
        commands = [*_repository(), *commands, f"rm -f {_REPOSITORY}"]
    # What was the mount's place is an empty folder by then, or gone.
    cleaning = [f"rm -rf {_MOUNT.rpartition('/')[0]}", *_cleaning()]
    return [*run(_PRELUDE, commands, flags=flags), *run(_PRELUDE, cleaning)]


def _repository() -> Iterator[str]:
    lines = (
        "[coreos-extensions]",
        "name=coreos-extensions",
        "enabled=1",
        "metadata_expire=1m",
        f"baseurl=file://{_MOUNT}/usr/share/rpm-ostree/extensions/",
        "gpgcheck=0",
        "skip_if_unavailable=False",
    )
    yield f"mkdir -p {_REPOSITORY.rpartition('/')[0]}"
    yield f"printf '%s\\n' {' '.join(map(quoted, lines))} >{_REPOSITORY}"
    yield f"chmod 644 {_REPOSITORY}"


def _extensions(layer: Layer) -> Iterator[str]:
    if not layer.extensions:
        return
    names = " ".join(packages_of(layer.extensions))
    yield (
        f"if has rpm-ostree; then rpm-ostree install {names};"
        f" elif has dnf; then dnf -y install {names};"
        " else refuse 'the base image has neither rpm-ostree nor dnf, which extensions need'; fi"
    )
    if "usbguard" in layer.extensions:
        yield "rm -f /usr/lib/tmpfiles.d/usbguard.conf"
    if {"usbguard", "ipsec"} & set(layer.extensions):
        yield "mkdir -p /usr/lib/tmpfiles.d"
        yield f"printf '%s\\n' {' '.join(map(quoted, _TMPFILES))} >/usr/lib/tmpfiles.d/usbguard_ipsec.conf"


def _kernel(wanted: KernelType) -> Iterator[str]:
    if wanted is KernelType.DEFAULT:
        return
    others = [kind for kind in _TOLD_BY if kind is not wanted]
    # When the base has the kernel already, nothing is swapped.
    told = "".join(
        f"elif rpm -q {_TOLD_BY[kind]} >/dev/null 2>&1; then old='{' '.join(KERNELS[kind])}'; "
        for kind in others
    )
    yield (
        f"if rpm -q {_TOLD_BY[wanted]} >/dev/null 2>&1; then old=''; {told}"
        f"else refuse 'the base image has no kernel package that could be swapped for {wanted}'; fi"
    )
    yield "gone=''"
    yield 'for name in $old; do if rpm -q "$name" >/dev/null 2>&1; then gone="$gone $name"; fi; done'
    names = KERNELS[wanted]
    yield (
        'if [ -z "$gone" ]; then :; '
        "elif has dnf && dnf shell --help >/dev/null 2>&1; then"
        f" printf '%s\\n' \"remove$gone\" 'install {' '.join(names)}' run | dnf -y shell;"
        " elif has rpm-ostree; then"
        f" rpm-ostree override remove $gone {' '.join(f'--install {name}' for name in names)};"
        f" else refuse 'the base image has no program that can swap its kernel for {wanted}'; fi"
    )
    # dnf's shell may fail and say nothing by its status.
    yield (
        f"if ! rpm -q {_TOLD_BY[wanted]} >/dev/null 2>&1; then"
        f" refuse 'the kernel of the base image was not swapped for {wanted}'; fi"
    )


def _cleaning() -> Iterator[str]:
    """Packages leave caches and state in /var, which no node reads from an image."""
    # Under CoreOS `dnf` may be rpm-ostree, which does not know all of dnf's words.
    yield "if has dnf; then dnf clean all || :; fi"
    yield "if has ostree; then ostree container commit; fi"
