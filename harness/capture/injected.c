/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "injected.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "survive.h"

static const uint64_t PER_MILLION = 1000000;

static bool find_word(const char *text, const char *const words[], size_t count, unsigned *index)
{
    for (*index = 0; *index < count; ++*index)
        if (!strcmp(text, words[*index]))
            return true;
    return false;
}

static bool words_of(struct injection *one, const char *on, const char *when, const char *error,
                     const char *then)
{
    static const char *const kinds[] = {"write", "fua", "discard", "flush", "read"};
    static const char *const moments[] = {"nth", "at", "rate"};
    static const char *const errors[] = {"hang", "EIO", "ENOSPC"};
    static const int numbers[] = {0, EIO, ENOSPC};
    static const char *const fates[] = {"lost", "kept"};
    unsigned kind, moment, number, fate;
    if (!find_word(on, kinds, 5, &kind) || !find_word(when, moments, 3, &moment) ||
        !find_word(error, errors, 3, &number) || !find_word(then, fates, 2, &fate))
        return false;
    one->on = (enum injected_on)kind;
    one->when = (enum injected_when)moment;
    one->error = numbers[number];
    one->kept = fate == 1;
    return true;
}

static bool makes_sense(const struct injection *one)
{
    bool no_bytes = one->on == ON_FLUSH || one->on == ON_READ || one->error == 0;
    return !(no_bytes && one->kept) &&
           !(one->when == WHEN_NTH && !one->value) &&
           !(one->when == WHEN_RATE && one->value > PER_MILLION);
}

bool injection_parse(const char *text, struct injections *injections)
{
    struct injection one = {0};
    char on[8], when[5], error[8], then[5];
    int end = 0;
    if (injections->count == INJECTIONS_MAX ||
        sscanf(text, "%7[a-z]:%4[a-z]:%" SCNu64 ":%7[a-zA-Z]:%" SCNu64 ":%4[a-z]%n", on, when,
               &one.value, error, &one.times, then, &end) != 6 ||
        !words_of(&one, on, when, error, then))
        return false;
    if (text[end]) {
        int more = 0;
        if (sscanf(text + end, ":%" SCNu64 ":%" SCNu64 "%n", &one.sector, &one.sectors, &more) !=
                2 ||
            !one.sectors || text[end + more])
            return false;
    }
    if (!makes_sense(&one))
        return false;
    injections->list[injections->count++] = one;
    return true;
}

static bool is_for(const struct injection *one, const struct injected_request *request)
{
    const bool kinds[] = {
        [ON_WRITE] = request->write, [ON_FUA] = request->fua,   [ON_DISCARD] = request->discard,
        [ON_FLUSH] = request->flush, [ON_READ] = request->read,
    };
    bool there = !one->sectors || (request->sector < one->sector + one->sectors &&
                                   one->sector < request->sector + request->sectors);
    return kinds[one->on] && there;
}

static bool is_due(const struct injection *one, const struct injections *all, uint64_t now_ns)
{
    switch (one->when) {
    case WHEN_NTH:
        return one->seen >= one->value; /* counted already */
    case WHEN_AT:
        return now_ns - all->armed_ns >= one->value;
    case WHEN_RATE:
        return survive_draw(all->seed + (uint64_t)(one - all->list), one->seen - 1) % PER_MILLION <
               one->value;
    }
    return false;
}

const struct injection *injection_of(struct injections *injections,
                                     const struct injected_request *request, uint64_t now_ns)
{
    if (!injections->armed)
        return NULL;
    for (unsigned i = 0; i < injections->count; i++) {
        struct injection *one = &injections->list[i];
        if (!is_for(one, request))
            continue;
        one->seen++;
        if ((!one->times || one->made < one->times) && is_due(one, injections, now_ns)) {
            one->made++;
            return one;
        }
    }
    return NULL;
}
