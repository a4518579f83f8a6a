/* SPDX-License-Identifier: Apache-2.0 */
#include "crc32c.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u

static uint32_t table[256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;

        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (POLYNOMIAL & -(crc & 1));
        table[byte] = crc;
    }
}

uint32_t pc_crc32c_table(uint32_t crc, const void *data, size_t length)
{
    const uint8_t *p = data;

    pthread_once(&table_once, fill_table);
    crc = ~crc;
    while (length--)
        crc = (crc >> 8) ^ table[(crc ^ *p++) & 0xff];
    return ~crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2")))
static uint32_t crc32c_sse42(uint32_t crc, const void *data, size_t length)
{
    const uint8_t *p = data;
    uint64_t wide = (uint32_t)~crc;

    for (; length >= 8; length -= 8, p += 8) {
        uint64_t word;

        memcpy(&word, p, 8); /* the only cast-free way to load an unaligned word */
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    while (length--)
        crc = __builtin_ia32_crc32qi(crc, *p++);
    return ~crc;
}
#endif

uint32_t pc_crc32c(uint32_t crc, const void *data, size_t length)
{
#ifdef __x86_64__
    /* qemu64 and other old processor models lack it. */
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_sse42(crc, data, length);
#endif
    return pc_crc32c_table(crc, data, length);
}
