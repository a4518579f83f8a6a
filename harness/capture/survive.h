/* SPDX-License-Identifier: Apache-2.0
 *
 * What a power loss leaves of one volatile write.  Everything here is a pure
 * function of seed, request and contract, so that a cut can be computed again:
 *
 *     draw(seed, i)   the output number i (from 0) of SplitMix64 started at `seed`
 *                     (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number
 *                     Generators", OOPSLA 2014)
 *
 * DROP    nothing survives.
 * KEEP    everything that was submitted survives.
 * RANDOM  for a write with request number r, draw(seed, 3r) mod 3 decides:
 *         0 it is lost, 1 it survives, 2 it is torn.  A torn write that touches
 *         n > 1 atomic units keeps the units [a, a + k) of it, a = draw(seed, 3r + 1)
 *         mod n, k = 1 + draw(seed, 3r + 2) mod (n - a); units are aligned on the
 *         disk.  A write that touches one unit cannot tear: it survives if
 *         draw(seed, 3r + 1) is even.  Not on a disk that promises order.
 * PREFIX  of the n volatile writes the first draw(seed, 0) mod (n + 1) survive: those that
 *         completed, in the order of completion, before those in flight, in that of
 *         submission.
 *
 * A write that was in flight at the cut is a volatile write like any other; a flush that was
 * has made nothing durable.
 *
 * Where survivors overlap, the newer submission wins: one of the orders that the
 * device could have produced.
 */
#ifndef POWERCUT_CAPTURE_SURVIVE_H
#define POWERCUT_CAPTURE_SURVIVE_H

#include <stdint.h>

struct byte_range {
    uint64_t offset;
    uint64_t length; /* 0: nothing */
};

uint64_t survive_draw(uint64_t seed, uint64_t index);

/* RANDOM: the part of a write that survives. */
struct byte_range survive_random(uint64_t seed, uint64_t request, struct byte_range write,
                                 uint32_t atomic_unit);

/* PREFIX: how many of `writes` survive. */
uint64_t survive_prefix(uint64_t seed, uint64_t writes);

#endif
