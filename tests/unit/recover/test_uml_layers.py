# SPDX-License-Identifier: Apache-2.0
"""What PID 1 is told of layers, which modules they take, and what a refusal of theirs means."""

import errno

import pytest

from powercut.model.errors import HostError, UsageError
from powercut.model.failure import Failure, failure_of_layer
from powercut.model.observation import Observation
from powercut.recover.plan import HostRoot, PlanLayers, RecoveryPlan
from powercut.recover.uml.answer import Trouble, borne_out, observe
from powercut.recover.uml.engine import plan_text
from powercut.recover.uml.kernel import MODULE_FILES, UmlKernel
from powercut.recover.uml.share import STEPS, After, Answer, Step

LINE = "layer0.0 2048 crypt aes-xts-plain64 00 0 @disk0 0"


@pytest.fixture
def kernel(tmp_path):
    """One whose modules are names alone."""
    folder = tmp_path / "modules" / "6.1"
    for name in MODULE_FILES:
        (folder / "kernel" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "kernel" / name).touch()
    (folder / "modules.dep").write_text(
        "kernel/md/dm-crypt.ko: kernel/md/dm-mod.ko kernel/security/keys.ko\n"
        "kernel/md/dm-mod.ko:\nkernel/security/keys.ko:\nkernel/crypto/xts.ko:\n"
    )
    (folder / "modules.builtin").write_text("kernel/crypto/ecb.ko\nkernel/md/dm-built.ko\n")
    return UmlKernel("test", tmp_path / "linux", tmp_path / "modules")


def layers(modules=("dm-crypt",), helpers=(), lines=(LINE,)):
    return PlanLayers(modules, helpers, lines)


def test_a_module_comes_after_those_that_it_needs_and_helpers_first(kernel):
    wanted = layers(("dm-crypt", "dm-built"), ("ecb", "xts", "gone"))
    assert kernel.files_of(wanted) == (
        "crypto/xts.ko", "security/keys.ko", "md/dm-mod.ko", "md/dm-crypt.ko",
    )  # fmt: skip
    with pytest.raises(HostError, match="has no module dm-none"):
        kernel.files_of(layers(("dm-none",)))


def words_of(plan, kernel):
    return plan_text(plan, kernel).split(b"\0")


def plan(**more):
    return RecoveryPlan.of("ext4", "", "/mnt", ("/bin/wal",), **more)


def test_the_plan_ends_with_disks_layers_who_examines_and_the_nodes(kernel):
    assert words_of(plan(layers=layers()), kernel)[-9:] == [
        b"", b"+keys", b"+dm-mod", b"+dm-crypt", LINE.encode(), b"", b"", b"", b"",
    ]  # fmt: skip
    assert words_of(plan(), kernel)[-6:] == [b"0", b"", b"", b"", b"", b""]
    examined = plan().examined(("/sbin/e2fsck", "-fn"))
    assert words_of(examined, kernel)[-8:] == [
        b"", b"", b"/sbin/e2fsck", b"-fn", b"/tmp/disk", b"", b"", b"",
    ]  # fmt: skip
    cluster = plan(host=HostRoot("/", (), nodes=("a", "b")))
    assert words_of(cluster, kernel)[-4:] == [b"a", b"b", b"", b""]


def test_nobody_examines_a_disk_on_which_a_workload_goes_on(kernel):
    both = plan().going_on(("/bin/wal",), 3).examined(("/sbin/e2fsck", "-fn"))
    words_of(both, kernel)  # the last of the steps
    with pytest.raises(UsageError, match="steps of which the recovery kernel knows nothing"):
        words_of(plan().examined(("/sbin/e2fsck",)).going_on(("/bin/wal",), 3), kernel)


def test_pid_1_takes_so_many_lines(kernel):
    with pytest.raises(UsageError, match="more than the recovery kernel takes"):
        plan_text(plan(layers=layers(lines=(LINE,) * 61)), kernel)


def answer(step, error):
    return Answer(step, error, 0, 0, 0, 0, 0, 0, 0, 0, After.NOT, (0,) * STEPS, "activate layer0.0")


@pytest.mark.parametrize("error", [errno.EINVAL, errno.EIO, errno.EILSEQ, errno.EBADMSG])
def test_a_layer_that_the_state_is_to_blame_for(error):
    seen = observe(None, answer(Step.ACTIVATE, error), "device-mapper: integrity: Invalid mac")
    assert (seen.recovered, seen.cause) == (False, Failure.LAYER_REFUSED)
    assert seen.failure.startswith("activate layer0.0: ")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (errno.ENOMEM, Failure.MOUNT_NO_MEMORY),
        (errno.EBUSY, Failure.MOUNT_BUSY),
        (errno.ENODEV, Failure.MOUNT_UNSUPPORTED),
        (errno.EFAULT, Failure.MOUNT_UNKNOWN),
    ],
)
def test_a_layer_that_the_kernel_is_to_blame_for(error, cause):
    assert failure_of_layer(error) is cause
    with pytest.raises(Trouble) as trouble:
        observe(None, answer(Step.ACTIVATE, error), "")
    assert trouble.value.cause is cause


def test_a_sector_that_fails_its_check_is_no_trouble_of_the_disk():
    seen = observe(None, answer(Step.MOUNT, errno.EILSEQ), "integrity: Checksum failed")
    assert seen.cause is Failure.LAYER_REFUSED


def test_a_layer_must_be_refused_twice():
    refused = Observation.failed(Failure.LAYER_REFUSED, "activate layer0.0: Invalid argument")
    assert borne_out(refused, refused).cause is Failure.LAYER_REFUSED
    for again in (Observation(()), Observation.failed(Failure.MOUNT_REFUSED, "mount")):
        assert borne_out(refused, again).cause is Failure.NOT_REPEATED
    mount = Observation.failed(Failure.MOUNT_REFUSED, "mount")
    assert borne_out(mount, refused) is refused
