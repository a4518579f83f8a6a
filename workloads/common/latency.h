/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POWERCUT_LATENCY_H
#define POWERCUT_LATENCY_H

#include <stdint.h>

#include "wire.h"

/* The bucket of wire.h that a latency lands in. */
static inline unsigned pc_latency_bucket(uint64_t ns)
{
    if (ns < 8)
        return (unsigned)ns;
    unsigned exponent = 63 - (unsigned)__builtin_clzll(ns);

    return (exponent - 2) * 8 + ((ns >> (exponent - 3)) & 7);
}

static inline void pc_latency_add(struct pc_latency *latency, uint64_t ns)
{
    latency->count++;
    latency->sum_ns += ns;
    if (ns > latency->max_ns)
        latency->max_ns = ns;
    latency->bucket[pc_latency_bucket(ns)]++;
}

#endif
