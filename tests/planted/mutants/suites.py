# SPDX-License-Identifier: Apache-2.0
"""The stated tests for each part: the fastest that see it, in the order in which they run."""

from __future__ import annotations

from mutants.mutant import Suite, make, pytest

JUDGE = Suite("judge", (), (pytest("tests/unit/trial", "tests/unit/checkers"),))
RECOVERY = Suite("recovery", (), (pytest("tests/unit/rig", "tests/unit/model/test_failure.py"),))
CHANNEL = Suite("channel", (), (pytest("tests/unit/channel", "tests/conformance/channel"),))
DISK_LOG = Suite("disk log", (), (pytest("tests/unit/disk/test_pclog.py", "tests/unit/trial"),))
CONTROLS = Suite(
    "controls",
    (),
    (
        pytest(
            "tests/unit/trial/test_controls.py",
            "tests/unit/trial/test_controls_of_disks.py",
            "tests/extras/certify/test_confirmed.py",
        ),
    ),
)
SHELF = Suite(
    "engines that are lent",
    (),
    (pytest("tests/unit/recover/test_engine_shelf.py", "tests/unit/recover/test_uml_follows.py"),),
)
BOOTS = Suite(
    "another boot",
    (make("guests/uml", "{build}/bin/uml-init"),),
    (pytest("tests/conformance/recover/test_uml_boots.py"),),
)
MACHINE = Suite(
    "one machine",
    (make("harness/guard"),),
    (
        pytest(
            "tests/unit/model/test_machine_identity.py",
            "tests/unit/recover/test_folder_check.py",
            "tests/planted/capture/test_folder_machine.py",
            "tests/planted/capture/test_folder_elsewhere.py",
        ),
    ),
)
DIFFERENCE = Suite("image difference", (), (pytest("tests/unit/rig/test_image_difference.py"),))
SAID = Suite("lines without end", (), (pytest("tests/unit/campaign/test_lines_without_end.py"),))
CERTIFY = Suite(
    "certify",
    (),
    (
        pytest(
            "tests/extras/certify/test_certify_follows.py",
            "tests/unit/trial/test_controls.py",
            "tests/extras/certify/test_certify_words.py",
        ),
    ),
)
LOGS = Suite("logs of others", (), (pytest("tests/vm/recording/test_logs_checked.py"),))
DEFINED = Suite(
    "definitions",
    (),
    (pytest("tests/extras/libvirt", "tests/extras/certify/test_certificate_definition.py"),),
)
PROGRAMS = Suite(
    "programs",
    (make("guests/uml", "{build}/lib/uml-stamp.so"),),
    (
        pytest("tests/unit/workload"),
        pytest("tests/property/test_program_lines.py"),
        pytest("tests/unit/workloads/test_files_oracle.py"),
        pytest("tests/unit/trial/test_contract.py"),
        pytest("tests/unit/channel/test_lines_received.py"),
        pytest("tests/unit/trial/test_judge_lines.py"),
        pytest("tests/unit/verdict"),
        pytest("tests/planted/capture/test_folder_planted.py"),
    ),
)
NATIVE = Suite("check on the host", (), (pytest("tests/unit/recover/test_native.py"),))
ENVIRONMENT = Suite(
    "environment",
    (),
    (pytest("tests/unit/rig/test_environment.py", "tests/unit/verdict/test_untested.py"),),
)
LOOP = Suite("loop machine", (), (pytest("tests/unit/rig/test_loop_guest.py"),))
CAUSES = Suite("causes", (), (pytest("tests/unit/witness/test_later_step.py"),))
CLUSTER = Suite("cluster", (), (pytest("tests/extras/cluster/test_cluster.py"),))
LISTENED = Suite("what was heard", (), (pytest("tests/extras/elsewhere/test_listened.py"),))
VIEW_OF = Suite("shown", (), (pytest("tests/unit/recording/test_recording_view.py"),))
CLOCKS = Suite("clocks", (), (pytest("tests/property/test_clock_bounds.py"),))
POSITIVE = Suite("positive control", (), (pytest("tests/unit/trial/test_judge_lines.py"),))
PROGRAMS_VERDICT = Suite("what is not tested", (), (pytest("tests/unit/verdict"),))
PRESSER = Suite("presser", (), (pytest("tests/unit/machine/guest/test_press.py"),))
NEIGHBOUR = Suite(
    "neighbour that commits",
    (make("guests/uml"),),
    (pytest("tests/vm/workload/test_neighbour.py"),),
)
SLOW_FOLDER = Suite(
    "slow syncs of folders",
    (make("harness/capture"),),
    (pytest("tests/planted/capture/test_folder_lucky.py", "-k", "does_not_wait"),),
)
READS = Suite(
    "what checks read",
    (),
    (
        pytest(
            "tests/unit/model/test_check_reads.py",
            "tests/unit/model/test_creation.py",
            "tests/unit/trial/test_preparation.py",
            "tests/unit/trial/test_noted_reads.py",
            "tests/unit/rig/test_reads_in_guests.py",
            "tests/unit/trial/test_judge_lines.py",
        ),
    ),
)
OUTSIDE = Suite(
    "values outside of DIR",
    (),
    (
        pytest(
            "tests/unit/model/test_outside.py",
            "tests/unit/sandbox/test_left.py",
            "tests/unit/trial/test_judge_lines.py",
            "tests/unit/verdict/test_folder_verdict.py",
        ),
    ),
)
STATES = Suite(
    "states", (), (pytest("tests/property/test_state_images_by_definition.py", "tests/unit/crash"),)
)
ORDER = Suite(
    "order of states",
    (),
    (
        pytest(
            "tests/unit/model/test_odds_by_hand.py",
            "tests/unit/crash/test_crash_order.py",
            "tests/unit/crash/test_crash_representatives.py",
        ),
    ),
)
AGAIN = Suite(
    "a second look",
    (),
    (
        pytest("tests/unit/trial/test_counted_again.py"),
        pytest(
            "tests/unit/explore/test_explore_raw.py", "tests/unit/explore/test_explored_trial.py"
        ),
    ),
)
FOLDERS = Suite(
    "captured folders",
    (),
    (
        pytest(
            "tests/unit/crash/test_folder_states.py",
            "tests/unit/crash/test_folder_ranges.py",
            "tests/unit/crash/test_folder_instants.py",
        ),
        pytest("tests/unit/explore/test_folder_explorer.py", "tests/unit/disk/test_folder_log.py"),
    ),
)
EDGES = Suite(
    "edges",
    (),
    (
        pytest("tests/unit/crash/test_folder_instants.py"),
        pytest("tests/property/test_program_lines.py"),
        pytest(
            "tests/unit/workload/test_operations.py",
            "tests/unit/workload/test_program_positive.py",
            "tests/extras/elsewhere/test_listened_verdict.py",
        ),
        pytest("tests/unit/explore/test_folder_explorer.py"),
    ),
)
WHOSE = Suite(
    "whose answer it is",
    (),
    (pytest("tests/unit/explore/test_second_look.py", "tests/unit/explore/test_who_convicts.py"),),
)
RECORDS = Suite("a recovery on record", (), (pytest("tests/unit/explore/test_recovery_log.py"),))
EARLY = Suite("early acks", (), (pytest("tests/planted/test_early_acks.py"),))
STAMPED = Suite(
    "stamped lines",
    (),
    (
        pytest(
            "tests/unit/workload/test_guest_clock.py", "tests/unit/channel/test_stamped_lines.py"
        ),
    ),
)
REACHED = Suite(
    "how far a run comes",
    (),
    (
        pytest("tests/unit/recording/test_reached.py", "tests/unit/model/test_reached_words.py"),
        pytest("tests/planted/capture/test_far_faults.py"),
    ),
)
HONEST = Suite(
    "honest programs",
    (make("harness/capture"), make("harness/guard", "{build}/bin/check-guard")),
    (pytest("tests/planted/capture/test_folder_honest.py"),),
)
NOTED = Suite("reads noted on the host", (), (pytest("tests/unit/rig/test_noted_on_host.py"),))
INODES = Suite("inode numbers", (), (pytest("tests/unit/rig/test_kept_inodes.py"),))
LONGER = Suite(
    "runs with too few acks",
    (),
    (pytest("tests/planted/capture/test_folder_planted.py", "-k", "too_few"),),
)
TRIED = Suite(
    "files of a run",
    (),
    (
        pytest("tests/unit/store/test_files_tried.py"),
        pytest("tests/vm/workload/test_try_program.py", "-k", "saves_is_safe or cannot_be_judged"),
    ),
)
CONTRACT = Suite("contract", (), (pytest("tests/unit/trial/test_contract.py"),))
RECORDER = Suite(
    "recorder of folders",
    (make("harness/capture"),),
    (
        pytest(
            "tests/planted/capture/test_folder_mapped.py",
            "tests/planted/capture/test_folder_attributes.py",
            "tests/planted/capture/test_synced_ranges.py",
        ),
    ),
)
AFTER = Suite(
    "life after recovery",
    (),
    (pytest("tests/unit/explore/test_after.py", "tests/unit/recover/test_uml_answer.py"),),
)
LEVELS = Suite(
    "levels of evidence",
    (),
    (
        pytest(
            "tests/unit/trial/test_live_only.py",
            "tests/extras/certify/test_run_live_only.py",
            "tests/extras/certify",
        ),
    ),
)
UNDECIDED = Suite(
    "undecided trials",
    (),
    (
        pytest(
            "tests/unit/trial/test_controls.py",
            "tests/unit/explore/test_explored_trial.py",
            "tests/unit/campaign",
        ),
    ),
)
SECOND_LOOK = Suite(
    "explorer",
    (),
    (
        pytest(
            "tests/unit/explore",
            "tests/unit/checkers",
            "tests/unit/crash/test_whole.py",
            "tests/unit/trial/test_who_convicts_on_disks.py",
        ),
        pytest("tests/planted/capture/test_folder_planted.py"),
    ),
)
LAYERS = Suite(
    "layers",
    (),
    (
        pytest(
            "tests/unit/scenario/test_scenario_layers.py",
            "tests/unit/recover/test_uml_layers.py",
            "tests/unit/trial/test_controls.py",
        ),
    ),
)
EXPLORE_COMMAND = Suite(
    "explore command", (), (pytest("tests/unit/explore/test_explore_command.py"),)
)
CAPTURE = Suite(
    "capture disk",
    (make("harness/capture"), make("harness/capture", "core_test.plain")),
    (
        ("{build}/capture/core_test.plain",),
        pytest("tests/conformance/disk/test_capture_disk.py", "tests/unit/disk/test_disk_parts.py"),
    ),
)
_FAST = ("CFLAGS=-O0", "TEST_CFLAGS=-std=gnu17 -D_GNU_SOURCE -MMD -MP")
"""Without the sanitizers, which cost minutes a campaign."""

READER = Suite(
    "log reader",
    (make("workloads/wal"),),
    (
        make("workloads/tests", *_FAST, "test"),
        pytest(
            "tests/unit/workloads/test_wal_reader.py", "tests/unit/workloads/test_wal_run_keys.py"
        ),
    ),
)
VIEW = Suite(
    "view of User-Mode Linux",
    (make("guests/uml"),),
    (
        pytest(
            "tests/unit/recover",
            "tests/conformance/recover/test_uml_engine.py",
            "tests/conformance/recover/test_uml_after.py",
        ),
    ),
)
CHECKS = Suite(
    "sandbox of checks",
    (make("harness/guard", "{build}/bin/check-guard"),),
    (
        pytest(
            "tests/unit/recover/test_folder_check.py",
            "tests/unit/recover/test_folder_sandbox.py",
            "tests/unit/recover/test_hostile_check.py",
        ),
    ),
)
HOSTILE = Suite(
    "programs in User-Mode Linux",
    (make("guests/uml", "{build}/bin/uml-init", "{build}/bin/uml-guard"),),
    (pytest("tests/conformance/recover/test_uml_hostile_program.py"),),
)
TOOLS = Suite(
    "sandbox of image tools",
    (make("harness/guard", "{build}/bin/check-guard"),),
    (pytest("tests/unit/sandbox/test_sandbox_confined.py"),),
)
ARCHIVES = Suite("reader of archives", (), (pytest("tests/unit/sandbox/test_archive.py"),))
KERNELS = Suite("sandbox of kernels", (), (pytest("tests/unit/sandbox/test_kernel_confined.py"),))
OWN = Suite(
    "recordings of one's own",
    (),
    (
        pytest("tests/unit/store/test_own_recordings.py"),
        pytest(
            "tests/unit/recording/test_recordings_bundle.py"
            "::test_a_recording_from_elsewhere_runs_no_program_of_the_host"
        ),
    ),
)
