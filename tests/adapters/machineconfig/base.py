"""The base image under the golden folders of MachineConfigs: what of it they meet.

Its programs are real but for those that install packages, which would need a distribution: rpm, rpm-ostree, dnf and
ostree are scripts that keep a list of packages, and write down what they are told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tests.adapters.machineconfig.images import Node

_WANTS: Final = "/etc/systemd/system/multi-user.target.wants"
_UNIT: Final = b"[Service]\nExecStart=/x\n[Install]\nWantedBy=multi-user.target\n"


def folder(mode: int = 0o755, owner: str = "0:0") -> Node:
    return Node("d", mode, owner)


def file(text: str = "of the base\n", mode: int = 0o644) -> Node:
    return Node("-", mode, "0:0", text.encode())


def link(target: str) -> Node:
    return Node("l", 0o777, "0:0", target=target)


PACKAGES: Final = "/usr/share/packages"
"""One installed package a line."""
TOLD: Final = "/usr/share/told"
"""One call a line, with what of the extensions image could be seen."""

_HEAD: Final = f"""#!/bin/sh
set -eu
tell() {{ echo "$*" >>{TOLD}; }}
add() {{ for name in "$@"; do
    echo "$name" >>{PACKAGES}
    case "$name" in usbguard)
        echo "usbguard:x:77:77::/:" >>/etc/passwd
        echo "of the package" >/etc/usbguard.conf
        mkdir -p /usr/lib/systemd/system
        printf '[Install]\\nWantedBy=basic.target\\n' >/usr/lib/systemd/system/usbguard.service ;;
    esac
done; }}
drop() {{ for name in "$@"; do
    grep -qx "$name" {PACKAGES} || {{ echo "not installed: $name" >&2; exit 1; }}
    sed -i "/^$name$/d" {PACKAGES}
done; }}
seen() {{
    file=/etc/yum.repos.d/coreos-extensions.repo
    [ ! -e "$file" ] || tell "  sees $(cat "$(sed -n 's|^baseurl=file://||p' "$file")/list")"
}}
"""
RPM: Final = f'#!/bin/sh\n[ "$1" = -q ] && grep -qx "$2" {PACKAGES}\n'
RPM_OSTREE: Final = f"""{_HEAD}tell "rpm-ostree $*"
seen
case "$1" in
install) shift; add "$@" ;;
override)
    shift 2
    while [ "${{1:---install}}" != --install ]; do drop "$1"; shift; done
    while [ $# -gt 0 ]; do add "$2"; shift 2; done ;;
*) exit 1 ;;
esac
"""
DNF: Final = f"""{_HEAD}tell "dnf $*"
case "$*" in
"-y install "*) seen; shift 2; add "$@" ;;
"shell --help" | "clean all") ;;
"-y shell")
    seen
    while read -r verb names; do
        tell "  $verb $names"
        case "$verb" in
        remove) drop $names ;;
        install) add $names ;;
        esac
    done ;;
*) exit 1 ;;
esac
"""
DNF5: Final = DNF.replace('"shell --help" | ', "").replace('"-y shell")', '"-y no-such-command")')
"""As Fedora has it: without `shell`."""
OSTREE: Final = f'{_HEAD}tell "ostree $*"\n'


def packaged(packages: str, programs: Mapping[str, str]) -> Iterator[tuple[str, Node]]:
    """A list of packages, rpm, and other programs by name."""
    yield PACKAGES, file("".join(f"{name}\n" for name in packages.split()))
    yield TOLD, file("")
    for name, text in {"rpm": RPM, **programs}.items():
        yield f"/usr/bin/{name}", file(text, 0o755)


TREE: Final[tuple[tuple[str, Node], ...]] = (
    ("/usr", folder()),
    ("/bin", link("usr/bin")),
    ("/lib", link("usr/lib")),
    ("/lib64", link("usr/lib64")),
    ("/sbin", link("usr/sbin")),
    ("/usr/sbin", folder()),
    ("/var", folder()),
    ("/tmp", folder(0o1777)),  # noqa: S108  # of an image
    # CoreOS: nothing is behind it.
    ("/opt", link("var/opt")),
    ("/usr/local", link("../var/usrlocal")),
    ("/etc", folder()),
    ("/etc/hosts", file("")),
    ("/etc/passwd", file("root:x:0:0::/root:/bin/sh\ncore:x:1000:1000::/home/core:/bin/sh\nchrony:x:992:991::/:/\n")),
    ("/etc/group", file("root:x:0:\ncore:x:1000:\nchrony:x:991:\n")),
    # What files, folders and links come upon.
    ("/etc/x", link("kept-by-the-base")),
    ("/etc/kept-by-the-base", file()),
    ("/etc/contents", folder()),
    ("/etc/contents/inside", file()),
    ("/etc/mode", file(mode=0o755)),
    ("/etc/localtime", link("../usr/share/zoneinfo/UTC")),
    ("/etc/chain", link("absolute")),
    ("/etc/emptied.d", folder(0o700)),
    ("/etc/emptied.d/gone", file()),
    ("/etc/own.d", folder(0o2755)),
    ("/etc/own.d/stays", file()),
    ("/etc/plain.d", folder(0o711, "5:6")),
    ("/etc/plain.d/stays", file()),
    # Packages as CoreOS has them.
    *packaged("kernel kernel-core kernel-modules", {"rpm-ostree": RPM_OSTREE, "dnf": DNF, "ostree": OSTREE}),
    # What units come upon.
    ("/etc/systemd", folder()),
    ("/etc/systemd/system", folder()),
    ("/etc/systemd/system/back.service", link("/dev/null")),
    ("/etc/systemd/system/gone.service", file("[Service]\n")),
    ("/etc/systemd/system/kubelet.service.d", folder()),
    ("/etc/systemd/system/kubelet.service.d/20-gone.conf", file("[Service]\n")),
    (_WANTS, folder()),
    (f"{_WANTS}/of-the-base-too.service", link("/usr/lib/systemd/system/of-the-base-too.service")),
    ("/usr/lib/systemd", folder()),
    ("/usr/lib/systemd/system", folder()),
    *(
        (f"/usr/lib/systemd/system/{name}", Node("-", 0o644, "0:0", _UNIT))
        for name in ("back.service", "base@.timer", "kubelet.service", "of-the-base.service", "of-the-base-too.service")
    ),
)  # fmt: skip
