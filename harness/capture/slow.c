/* SPDX-License-Identifier: Apache-2.0 */
#include "slow.h"

#include "survive.h"

static const uint64_t ONE_IN = 50, MS = 1000000;

/* Other draws than those that say what survives, which begin at the seed itself. */
static const uint64_t SALT = 0x736c6f7773796e63;

uint64_t slow_sync_ns(uint64_t seed, uint64_t number)
{
    uint64_t draws = 3 * (number / ONE_IN);

    seed ^= SALT;
    if (number % ONE_IN != survive_draw(seed, draws) % ONE_IN)
        return 0;
    uint64_t part = survive_draw(seed, draws + 2);
    if (survive_draw(seed, draws + 1) % 4)
        return 50 * MS + part % (100 * MS);
    return 150 * MS + part % (350 * MS);
}
