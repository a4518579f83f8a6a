# SPDX-License-Identifier: Apache-2.0
"""Finding the kernel's packages, and the order in which its modules load."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from powercut.machine.guest import kernel_package
from powercut.machine.guest.kernel_package import (
    exact_packages,
    find_packages,
    load_order,
    module_file,
    module_name,
    parse_dependencies,
)
from powercut.machine.tool import run_tool
from powercut.model.errors import DeadlineExceeded, HostError

# As `apt-cache depends` prints it.
DEBIAN = """linux-image-cloud-amd64
  Depends: linux-image-6.1.0-56-cloud-amd64
  Conflicts: <linux-image-cloud-amd64-old>
"""
UBUNTU = """linux-image-6.8.0-88-generic
  Depends: kmod
 |Depends: linux-base
  Depends: linux-modules-6.8.0-88-generic
  Recommends: grub-pc
  Suggests: linux-modules-extra-6.8.0-88-generic
"""  # Since Linux 7, in sid.
SPLIT = """linux-image-7.2.13+deb14-cloud-amd64
  PreDepends: linux-base
  Depends: linux-base-7.2.13+deb14-cloud-amd64
  Depends: linux-binary-7.2.13+deb14-cloud-amd64
  Depends: linux-modules-7.2.13+deb14-cloud-amd64
"""

# As depmod writes it: the first one is what must be loaded last before the module.
MODULES_DEP = """\
kernel/lib/libcrc32c.ko.xz:
kernel/fs/xfs/xfs.ko.xz: kernel/lib/libcrc32c.ko.xz
kernel/drivers/virtio/virtio.ko: kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/virtio/virtio_ring.ko:
kernel/block/virtio_blk.ko: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
kernel/arch/x86/crypto/crc32c-intel.ko:
"""


def test_exact_package_names() -> None:
    assert exact_packages(DEBIAN) == ("linux-image-6.1.0-56-cloud-amd64",)
    assert exact_packages(UBUNTU) == ("linux-modules-6.8.0-88-generic",)
    assert exact_packages(SPLIT) == tuple(
        f"linux-{part}-7.2.13+deb14-cloud-amd64" for part in ("base", "binary", "modules")
    )


def test_modules_come_after_what_they_need() -> None:
    dependencies = parse_dependencies(MODULES_DEP)
    assert dependencies["crc32c_intel"] == ()
    order = load_order(("virtio_blk", "ext4", "xfs", "crc32c_intel"), dependencies)
    # ext4 is built in: it is in no modules.dep.
    assert order == ("virtio_ring", "virtio", "virtio_blk", "libcrc32c", "xfs", "crc32c_intel")


def test_module_names() -> None:
    assert module_name("kernel/arch/x86/crypto/crc32c-intel.ko.zst") == "crc32c_intel"
    assert module_file(Path("a/crc32c-intel.ko.zst")) == "crc32c-intel.ko"


def test_unknown_flavour_names_the_known_ones() -> None:
    with pytest.raises(HostError, match="no kernel flavour 'huge': there are cloud, full"):
        find_packages("huge", deadline=time.monotonic() + 60)


def test_tools_that_fail_are_quoted() -> None:
    deadline = time.monotonic() + 60
    with pytest.raises(
        HostError, match=r"'sh -c echo oops >&2; exit 7' failed with status 7: oops"
    ):
        run_tool(["sh", "-c", "echo oops >&2; exit 7"], deadline=deadline)
    with pytest.raises(HostError, match="there is no no-such-tool on this host"):
        run_tool(["no-such-tool"], deadline=deadline)
    with pytest.raises(DeadlineExceeded, match="'sleep 60' did not end within"):
        run_tool(["sleep", "60"], deadline=time.monotonic())


def test_a_package_does_not_bring_in_files_of_the_host(tmp_path):
    root = tmp_path / "root"
    (root / "boot").mkdir(parents=True)
    (tmp_path / "victim").write_text("precious")
    (root / "boot/vmlinuz-1").symlink_to(tmp_path / "victim")
    (root / "boot/inner").write_text("kernel")
    (root / "boot/vmlinuz-2").symlink_to("inner")
    for path in (root / "boot/vmlinuz-1", root / "../victim"):
        with pytest.raises(HostError, match="leads out of the kernel's package"):
            kernel_package._inside(root, path)
    assert kernel_package._inside(root, root / "boot/vmlinuz-2").read_text() == "kernel"
