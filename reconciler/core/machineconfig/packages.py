"""Packages behind the names in a MachineConfig: its extensions and kernel types.

Source: the Machine Config Operator's `pkg/controller/common/helpers.go`, SupportedExtensions and
GetPackagesForSupportedKernelType. Its Containerfile template installs the extensions' packages from the extensions
image, and swaps kernels in one transaction: what the base has of the other kernels out, the wanted one in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from reconciler.core.machineconfig.values import KernelType

EXTENSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "ipsec": ("NetworkManager-libreswan", "libreswan", "openvswitch3.5-ipsec"),
    "kerberos": ("krb5-workstation", "libkadm5"),
    "kernel-devel": ("kernel-devel", "kernel-headers"),
    "sandboxed-containers": ("kata-containers",),
    "sysstat": ("sysstat",),
    "two-node-ha": ("pacemaker", "pcs", "fence-agents-all"),
    "usbguard": ("usbguard",),
}
"""In upstream's words; an extension that it does not know is refused."""

KERNELS: Final[Mapping[KernelType, tuple[str, ...]]] = {
    KernelType.DEFAULT: (
        "kernel",
        "kernel-core",
        "kernel-modules",
        "kernel-modules-core",
        "kernel-modules-extra",
    ),
    KernelType.REALTIME: ("kernel-rt-core", "kernel-rt-modules", "kernel-rt-modules-extra", "kernel-rt-kvm"),
    KernelType.PAGES_64K: (
        "kernel-64k-core",
        "kernel-64k-modules",
        "kernel-64k-modules-core",
        "kernel-64k-modules-extra",
    ),
}


def packages_of(extensions: Iterable[str]) -> tuple[str, ...]:
    """All packages of these extensions, each once, in a stable order. Raises KeyError for one that is not known."""
    return tuple(sorted({package for name in extensions for package in EXTENSIONS[name]}))
