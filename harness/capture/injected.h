/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors that a disk is told to make: which requests fail, and what becomes of their bytes.
 *
 * They begin when the disk is armed (the control command `inject`), so that a guest boots, makes
 * its file system and sets its workload up on a disk without errors.  Requests count from then on,
 * in the order of their submission.  A request meets one error at most, the first in the list that
 * is for it; those behind it do not see it.
 *
 *     nth N        the N-th request that the error is for, and those after it while it lasts
 *     at NS        the first such request NS nanoseconds after arming, and those after it
 *     rate PPM     each such request with a probability of PPM in a million: draw(seed, n) for
 *                  the n-th of them, counted from 0 (survive.h)
 *
 * An error lasts for `times` requests, or for ever.  What failed is told as a failure and logged as
 * one (PCLOG_FAILED and PCLOG_INJECTED): it has not completed, and nothing that it carries is
 * durable.  Whether its bytes have reached the medium all the same is `kept`: such a write is
 * there at once, and the log says so (DESTAGE); another is lost, and reads find what was there.
 * A request that hangs is submitted and never answered; a cut ends it.
 */
#ifndef POWERCUT_CAPTURE_INJECTED_H
#define POWERCUT_CAPTURE_INJECTED_H

#include <stdbool.h>
#include <stdint.h>

enum { INJECTIONS_MAX = 16 };

enum injected_on { ON_WRITE, ON_FUA, ON_DISCARD, ON_FLUSH, ON_READ };
enum injected_when { WHEN_NTH, WHEN_AT, WHEN_RATE };

struct injection {
    enum injected_on on;      /* ON_WRITE: with FUA or without; zeroes, too */
    enum injected_when when;
    uint64_t value;           /* of `when` */
    int error;                /* errno; 0: it hangs */
    uint64_t times;           /* 0: for ever */
    bool kept;
    uint64_t sector, sectors; /* only requests that touch these; 0 sectors: all.  A flush touches
                               * its disk, one of several that are parts of the whole */
    uint64_t seen, made;      /* since arming */
};

/* What a request is, for the choice among the injections. */
struct injected_request {
    bool write, fua, discard, flush, read;
    uint64_t sector, sectors;
};

struct injections {
    struct injection list[INJECTIONS_MAX];
    unsigned count;
    bool armed;
    uint64_t armed_ns;
    uint64_t seed;
};

/* ON:WHEN:VALUE:ERROR:TIMES:THEN[:SECTOR:SECTORS]; false if `text` is not that, or one too many. */
bool injection_parse(const char *text, struct injections *injections);

/* Which injection this request meets, counting it; NULL for none. */
const struct injection *injection_of(struct injections *injections,
                                     const struct injected_request *request, uint64_t now_ns);

#endif
