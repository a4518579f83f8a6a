# SPDX-License-Identifier: Apache-2.0
"""Where flushes end, against stacks of layers that are simulated request by request.

Each layer turns one sequence of requests into the next, honestly or with one known lie.  What
is left uncovered at the disk follows from the sequence that arrives there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import example, given
from hypothesis import strategies as st

from powercut_extras.certify.measure.wire import Layers, flush_ends_at
from powercut_extras.certify.measurement import BioCounts, RequestCounts

# A request is (flush before, data, FUA).
FLUSH, WRITE, FUA, JOURNAL = (1, 0, 0), (0, 1, 0), (0, 1, 1), (1, 1, 1)
COMMITS = {
    "raw": [WRITE, FLUSH],
    "raw o_dsync": [FUA, FLUSH],
    "overwrite with FUA": [FUA],
    "XFS": [WRITE, JOURNAL],
    "ext4": [WRITE, WRITE, JOURNAL],
    "btrfs": [WRITE, WRITE, FLUSH, FUA],
}
LIES = ["", "file system", "guest block layer", "unsafe", "fua dropped", "flush", "fua", "both"]
NAME = {
    "unsafe": "hypervisor",
    "fua dropped": "hypervisor",
    "write-through forgotten": "hypervisor",
}


@dataclass(frozen=True)
class Stack:
    commit: str
    commits: int
    lie: str = ""
    knows_fua: bool = False
    write_through: bool = False
    passes_fua: bool = True  # or makes it a flush of its own
    leaves_out: bool = False  # flushes with nothing written since the last
    traced: bool = True
    forgets: bool = False  # that it promised to write through


def ask(stack: Stack) -> list[tuple[int, int, int]]:
    bios = COMMITS[stack.commit] * stack.commits
    if stack.lie != "file system":
        return bios
    return [WRITE for _, data, _ in bios if data]


def issue(stack: Stack, bios: list[tuple[int, int, int]]) -> str:
    sent = ""
    quiet = stack.write_through or stack.lie == "guest block layer"
    for flush, data, fua in bios:
        sent += "F" * (flush and not quiet)
        sent += ("U" if fua and stack.knows_fua and not quiet else "W") * data
        sent += "F" * (fua and not stack.knows_fua and not quiet)
    return sent


def pass_on(stack: Stack, sent: str) -> str:
    if stack.lie == "unsafe":
        return sent.replace("F", "").replace("U", "W")
    if stack.lie == "fua dropped":
        return sent.replace("U", "W")
    if stack.write_through:
        return sent if stack.forgets else sent.replace("W", "U")
    if not stack.passes_fua:
        sent = sent.replace("U", "WF")
    while stack.leaves_out and "FF" in sent:
        sent = sent.replace("FF", "F")
    return sent


def counts(sent: str) -> RequestCounts:
    writes, fua = sent.count("W") + sent.count("U"), sent.count("U")
    return RequestCounts(
        writes=writes, fua_writes=fua, flushes=sent.count("F"), written_bytes=4096 * writes
    )


def uncovered(seen: str, *, flush: bool = True, fua: bool = True) -> int:
    tail = seen[seen.rfind("F") + 1 :] if flush else seen
    return tail.count("W") + (0 if fua else tail.count("U"))


def judged(stack: Stack) -> tuple[str, Layers]:
    bios = ask(stack)
    sent = issue(stack, bios)
    seen = pass_on(stack, sent)
    asked = BioCounts(flushes=sum(b[0] for b in bios), fua_writes=sum(b[2] for b in bios))
    keeps_flush, keeps_fua = stack.lie not in ("flush", "both"), stack.lie not in ("fua", "both")
    layers = Layers(
        commits=stack.commits,
        syncs=stack.commits,
        committed_bytes=512 * stack.commits,
        asked=asked if stack.traced else None,
        guest=counts(sent) if stack.traced else None,
        hypervisor=replace_fua(counts(sent)),
        disk=counts(seen),
        uncovered=uncovered(seen),
        not_durable=uncovered(seen, flush=keeps_flush, fua=keeps_fua),
        write_through=stack.write_through or stack.lie == "guest block layer",
        told=stack.lie != "guest block layer",
    )
    return flush_ends_at(layers)[0], layers


def replace_fua(seen: RequestCounts) -> RequestCounts:
    return seen.model_copy(update={"fua_writes": None})


stacks = st.builds(
    Stack,
    commit=st.sampled_from(sorted(COMMITS)),
    commits=st.integers(1, 40),
    knows_fua=st.booleans(),
    write_through=st.booleans(),
    passes_fua=st.booleans(),
    leaves_out=st.booleans(),
)


@given(stacks, st.booleans())
def test_an_honest_stack_is_silent(stack: Stack, traced: bool) -> None:
    named, layers = judged(replace(stack, traced=traced))
    assert layers.uncovered == layers.not_durable == 0, "the simulation is honest"
    assert named == ""


@given(stacks, st.sampled_from(LIES[1:]))
@example(Stack("XFS", 20, knows_fua=True), "fua dropped")  # NVMe of QEMU 7.2
@example(Stack("raw o_dsync", 20, knows_fua=True), "fua dropped")  # where it does no harm
@example(Stack("XFS", 20, write_through=True), "file system")  # nor does this
def test_a_lie_that_leaves_something_uncovered_is_named(stack: Stack, lie: str) -> None:
    named, layers = judged(replace(stack, lie=lie))
    at_disk = lie in ("flush", "fua", "both")
    bites = layers.not_durable > 0 if at_disk else layers.uncovered > 0
    expected = "disk" if at_disk else NAME.get(lie, lie)
    assert named == (expected if bites else "")


@given(stacks)
def test_a_machine_that_forgets_to_write_through_is_named(stack: Stack) -> None:
    named, layers = judged(replace(stack, write_through=True, forgets=True))
    assert layers.uncovered > 0
    assert named == "hypervisor"


@given(stacks, st.integers(0, 39))
def test_a_workload_that_does_not_ask_is_named_before_all_others(stack: Stack, asks: int) -> None:
    _, layers = judged(stack)
    fewer = replace(layers, syncs=min(asks, layers.commits - 1))
    assert flush_ends_at(fewer)[0] == "workload"


@given(stacks)
def test_bytes_that_never_arrive_are_held_against_whoever_was_asked(stack: Stack) -> None:
    # Memory that the hypervisor maps: nothing is issued, and nothing reaches the disk.
    _, layers = judged(replace(stack, write_through=False))
    nothing = RequestCounts(writes=0, fua_writes=0, flushes=0, written_bytes=0)
    memory = replace(layers, guest=None, hypervisor=None, disk=nothing, uncovered=0, not_durable=0)
    assert flush_ends_at(memory)[0] == "hypervisor"
