"""From MachineConfigs to a layer: merged, laid out as a tree, with what no image can carry named in warnings.

Belongs here: what each kind of statement becomes. Does not belong here: who is asked (`selector`), who wins
(`merge`), rules between entries (`tree`).
Sources: coreos/ignition `internal/exec/util/file.go` and `internal/exec/stages/files/filesystemEntries.go` (defaults,
owners, what `overwrite` removes); the Machine Config Operator's `pkg/daemon/file_writers.go` (files are always
overwritten, 0644 and root by default), `pkg/daemon/update.go` (SSH keys go to /home/core, password hashes to the
node's /etc/shadow; fips and 64k-pages) and `pkg/controller/common/helpers.go` (kernel-devel); its Containerfile
template applies Ignition with `--ignore-unsupported`, so that there, too, no user enters the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reconciler.core.machineconfig import content, kargs, paths, units
from reconciler.core.machineconfig.layer import Entry, Kind, Layer
from reconciler.core.machineconfig.merge import Merged, merge
from reconciler.core.machineconfig.tree import Tree
from reconciler.core.machineconfig.values import (
    DirectoryNode,
    FileNode,
    KernelType,
    LinkNode,
    MachineConfig,
    Node,
    Owner,
    User,
)
from reconciler.core.model import Arch
from reconciler.core.yaml import MAX_FAULTS, shown
from reconciler.errors import InvalidInput

_FILE_MODE: Final = 0o644
_ROOT: Final = "0"


def render(configs: Sequence[MachineConfig], arch: Arch) -> Layer:
    """The layer of MachineConfigs that were selected for one pool and architecture, in the order of `select`.

    Raises InvalidInput with all that is wrong because they are together.
    """
    merged, faults = merge(configs)
    tree = Tree()
    tree.faults += faults
    _check_kernel(merged, arch, tree)
    removals: list[str] = []
    for node in merged.ignition.nodes:
        removals += _plant(node, tree)
    work = units.plant(merged.ignition.units, tree)
    arguments = _arguments(merged)
    if arguments:
        at = merged.places["kernelArguments" if merged.kernel_arguments else "config"]
        tree.add(Entry(kargs.PATH, Kind.FILE, _FILE_MODE, content=kargs.toml(arguments)), at)
    for user in merged.ignition.users:
        _leave(user, tree)
    if merged.fips:
        tree.warnings.append(
            merged.places["fips"].fault("fips is left to the node: it is decided when a node is installed")
        )
    entries = tree.finished()
    if tree.faults:
        raise InvalidInput(sorted(set(tree.faults))[:MAX_FAULTS])
    return Layer(
        entries=entries,
        removals=tuple(sorted({*removals, *work.removals})),
        unmasked=tuple(sorted(work.unmasked)),
        enabled=tuple(sorted(work.enabled)),
        disabled=tuple(sorted(work.disabled)),
        kernel_arguments=arguments,
        extensions=merged.extensions,
        kernel_type=merged.kernel_type,
        os_image=merged.os_image,
        extensions_image=merged.extensions_image,
        fips=merged.fips,
        warnings=tuple(sorted(set(tree.warnings))),
    )


def _arguments(merged: Merged) -> tuple[str, ...]:
    """MCO's, then those of Ignition that are not there yet, as Ignition adds them."""
    found = kargs.arguments(merged.kernel_arguments)
    more = kargs.arguments(merged.ignition.arguments)
    return (*found, *(text for text in dict.fromkeys(more) if text not in found))


def _check_kernel(merged: Merged, arch: Arch, tree: Tree) -> None:
    if merged.kernel_type is KernelType.DEFAULT:
        return
    at = merged.places["kernelType"]
    if merged.kernel_type is KernelType.PAGES_64K and arch is not Arch.ARM64:
        message = f"kernelType 64k-pages is for arm64 only, and this applies to {arch} too"
        tree.faults.append(at.fault(message, "narrow it with the label reconciler.machineos.dev/arch: arm64"))
    if "kernel-devel" in merged.extensions:
        message = f"kernelType {merged.kernel_type} does not go with the extension kernel-devel"
        tree.faults.append(at.fault(message, "leave one of the two out; upstream refuses both together"))


def _plant(node: Node, tree: Tree) -> list[str]:
    """Adds what the node makes to the tree; returns what has to go from the base image first."""
    path = paths.settled(node.path)
    if not tree.admits(path, node.at):
        return []
    user, group = _owner(node.user, "user", node, tree), _owner(node.group, "group", node, tree)
    match node:
        case FileNode():
            entry = Entry(path, Kind.FILE, _mode(node), user or _ROOT, group or _ROOT, _bytes(node, tree))
        case DirectoryNode():
            entry = Entry(path, Kind.DIRECTORY, node.mode, user, group)
        case LinkNode():
            entry = _link(node, path, user or _ROOT, group or _ROOT, tree)
    tree.add(entry, node.at)
    # A file takes the place of whatever is there; a folder keeps what is in it, and a link cannot replace one.
    return [path] if node.overwrite and not isinstance(node, FileNode) else []


def _mode(node: FileNode) -> int:
    return _FILE_MODE if node.mode is None else node.mode


def _owner(owner: Owner, what: str, node: Node, tree: Tree) -> str | None:
    if owner.number is not None and owner.name:
        message = f"{what} of {paths.named(node.path)} has an id in one MachineConfig and a name in another"
        tree.faults.append(node.at.fault(message, "keep one of the two"))
    if owner.number is not None:
        return str(owner.number)
    return _ROOT if owner.name == "root" else owner.name or None


def _bytes(node: FileNode, tree: Tree) -> bytes:
    """Contents and what is appended to them. No contents at all are an empty file, as MCO has it."""
    given = node.contents
    if given.data is None:
        if node.append:
            message = f"{paths.named(node.path)} is appended to, but no MachineConfig gives it contents"
            hint = "give contents too, or use a drop-in file: what the base image has is not known here"
            tree.faults.append(node.at.fault(message, hint))
        elif node.overwrite is False:
            message = f"{paths.named(node.path)} keeps the base image's contents, which only a step of the build can do"
            tree.faults.append(node.at.fault(message, "RUN chmod or chown in the Containerfile"))
        return b""
    if given.checksum and not content.agrees(given.data, given.checksum):
        message = (
            f"{paths.named(node.path)} has an earlier MachineConfig's checksum, which is not its own now"
        )
        tree.faults.append(node.at.fault(message, "give verification.hash here too"))
    return b"".join((given.data, *node.append))


def _link(node: LinkNode, path: str, user: str, group: str, tree: Tree) -> Entry:
    target = node.target or ""
    if not target or not target.isprintable() or target.count("/") >= paths.MAX_PARTS:
        message = f"link {paths.named(node.path)} has no target that a file system takes: {shown(target)}"
        tree.faults.append(node.at.fault(message, "give target"))
    if not node.hard:
        return Entry(path, Kind.SYMLINK, None, user, group, target=target)
    wrong = paths.fault_of(target)
    if wrong:
        tree.faults.append(node.at.fault(f"target of the hard link {paths.named(node.path)} {wrong}"))
    return Entry(path, Kind.HARDLINK, None, _ROOT, _ROOT, target=paths.settled(target))


def _leave(user: User, tree: Tree) -> None:
    if user.keys:
        message = f"SSH keys of user {user.name} are left to the node: they go to /home/{user.name}/.ssh"
        tree.warnings.append(user.at.fault(message))
    if user.password:
        message = f"the password of user {user.name} is left to the node: it goes to its own /etc/shadow"
        tree.warnings.append(user.at.fault(message))
