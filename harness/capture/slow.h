/* SPDX-License-Identifier: Apache-2.0
 *
 * Which syncs are slow.  Disks have them: a cache that is full, a zone that is collected, another's
 * load.  Who acknowledges after a fixed time, done or not, is right until then.
 *
 * Of each 50 in a row one is, the draw says which, and takes 50 to 150 ms, or one in four of these
 * 150 to 500 ms: so that what they cost in a short run has a bound.
 */
#ifndef POWERCUT_CAPTURE_SLOW_H
#define POWERCUT_CAPTURE_SLOW_H

#include <stdint.h>

/* How long sync `number`, counted from 0, takes; 0: as long as others. */
uint64_t slow_sync_ns(uint64_t seed, uint64_t number);

#endif
