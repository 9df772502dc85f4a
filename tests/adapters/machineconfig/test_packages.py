"""Extensions and kernel types, on base images with one and another program that installs packages.

Those programs are stand-ins, which write down what they are told (`base`): real ones need a distribution and its
repositories. buildah, the shell and the mount of the extensions image are real.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from reconciler.core.machineconfig import Entry, KernelType, Kind, Layer
from reconciler.core.machineconfig.packages import KERNELS
from reconciler.core.machineconfig.stage import stage
from tests.adapters.machineconfig.base import (
    DNF,
    DNF5,
    OSTREE,
    PACKAGES,
    RPM_OSTREE,
    TOLD,
    file,
    folder,
    link,
    packaged,
)
from tests.adapters.machineconfig.images import PROGRAMS, TOOLS, Images, Node

pytestmark = pytest.mark.tools

BASES: dict[str, Mapping[str, str]] = {
    "coreos": {"rpm-ostree": RPM_OSTREE, "dnf": DNF, "ostree": OSTREE},
    "fedora": {"rpm-ostree": RPM_OSTREE, "dnf": DNF5},
    "dnf": {"dnf": DNF},
    "dnf5": {"dnf": DNF5},
    "silent": {"dnf": "#!/bin/sh\ncat >/dev/null\n"},
    "bare": {},
}
STANDARD = "kernel kernel-core kernel-modules"
REALTIME = " ".join(KERNELS[KernelType.REALTIME])
EXTENSIONS = Layer(extensions=("sysstat", "usbguard"))
KERNEL = Layer(kernel_type=KernelType.REALTIME)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    found = Images(tmp_path_factory.mktemp("images"))
    for name, programs in BASES.items():
        found.base(name, tree(STANDARD, programs), PROGRAMS if name == "dnf" else TOOLS)
    found.base("realtime", tree(f"{REALTIME} kernel-tools", BASES["dnf"]), TOOLS)
    seen = "/usr/share/rpm-ostree/extensions/list"
    above = [seen[:at] for at, letter in enumerate(seen) if letter == "/" and at]
    found.base("extensions", [*((path, folder()) for path in above), (seen, file("these\n"))], ())
    return found


def tree(packages: str, programs: Mapping[str, str]) -> Iterator[tuple[str, Node]]:
    yield "/usr", folder()
    for name in ("bin", "lib", "lib64"):
        yield f"/{name}", link(f"usr/{name}")
    yield "/tmp", folder(0o1777)  # noqa: S108  # of an image
    yield "/etc", folder()
    yield "/etc/passwd", file("root:x:0:0::/:/bin/sh\n")
    yield from packaged(packages, programs)


def built(images: Images, layer: Layer, base: str, extensions: str | None = None) -> dict[str, Node]:
    done = images.stage(stage(layer, f"localhost/{base}", extensions))
    assert done.status == 0, done.complaint
    return images.built()


def lines(found: Mapping[str, Node], path: str) -> list[str]:
    return found[path].content.decode().splitlines()


INSTALLED = ["rpm-ostree install sysstat usbguard"]
BY_DNF = ["dnf -y install sysstat usbguard", "dnf clean all"]
SWAPPED = ["dnf shell --help", "dnf -y shell", f"  remove {STANDARD}", f"  install {REALTIME}", "  run "]
OVERRIDDEN = [
    f"rpm-ostree override remove {STANDARD} {' '.join(f'--install {name}' for name in REALTIME.split())}"
]
CASES = [
    ("coreos", EXTENSIONS, [*INSTALLED, "dnf clean all", "ostree container commit"]),
    ("fedora", EXTENSIONS, [*INSTALLED, "dnf clean all"]),
    ("dnf5", EXTENSIONS, BY_DNF),
    ("coreos", KERNEL, [*SWAPPED, "dnf clean all", "ostree container commit"]),
    ("fedora", KERNEL, ["dnf shell --help", *OVERRIDDEN, "dnf clean all"]),
    ("realtime", KERNEL, ["dnf clean all"]),
]


@pytest.mark.parametrize(
    ("base", "layer", "told"), CASES, ids=[f"{base}-{i}" for i, (base, _, _) in enumerate(CASES)]
)
def test_what_is_told_to_whom(base: str, layer: Layer, told: list[str], images: Images) -> None:
    found = built(images, layer, base)
    assert lines(found, TOLD) == told
    packages = lines(found, PACKAGES)
    assert layer is not KERNEL or (set(REALTIME.split()) <= set(packages) and "kernel-core" not in packages)
    assert layer is not EXTENSIONS or packages == [*STANDARD.split(), "sysstat", "usbguard"]


@pytest.mark.parametrize(
    ("base", "layer", "why"),
    [
        ("bare", EXTENSIONS, "the base image has neither rpm-ostree nor dnf, which extensions need"),
        ("dnf5", KERNEL, "the base image has no program that can swap its kernel for realtime"),
        ("bare", KERNEL, "the base image has no program that can swap its kernel for realtime"),
        ("silent", KERNEL, "the kernel of the base image was not swapped for realtime"),
        ("extensions", KERNEL, ""),
    ],
)
def test_what_cannot_be_done_ends_the_build(base: str, layer: Layer, why: str, images: Images) -> None:
    done = images.stage(stage(layer, f"localhost/{base}", None))
    assert done.status != 0
    assert f"machineconfig: {why}" in done.complaint or not why


def test_the_extensions_image_is_seen_and_leaves_nothing(images: Images) -> None:
    layer = Layer(extensions=("sysstat",), kernel_type=KernelType.REALTIME)
    found = built(images, layer, "coreos", "localhost/extensions")
    assert lines(found, TOLD) == [
        "rpm-ostree install sysstat",
        "  sees these",
        "dnf shell --help",
        "dnf -y shell",
        "  sees these",
        *SWAPPED[2:],
        "dnf clean all",
        "ostree container commit",
    ]
    assert [path for path in found if path.startswith(("/tmp/", "/etc/yum.repos.d/"))] == []  # noqa: S108


def test_what_the_layer_says_stays_after_packages(images: Images) -> None:
    mine = Entry("/etc/usbguard.conf", Kind.FILE, 0o600, user="usbguard", content=b"of the layer\n")
    found = built(images, Layer((mine,), extensions=("usbguard",), enabled=("usbguard.service",)), "dnf")
    assert found[mine.path] == Node("-", 0o600, "77:0", b"of the layer\n")
    assert "/etc/systemd/system/basic.target.wants/usbguard.service" in found
    assert lines(found, "/usr/lib/tmpfiles.d/usbguard_ipsec.conf")


def test_no_step_without_packages() -> None:
    layer = Layer((Entry("/etc/x", Kind.FILE, 0o644),))
    assert stage(layer, "base", "extensions").text == "FROM base AS configs\nADD .machineconfig/files.tar /\n"
