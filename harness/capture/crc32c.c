/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32C.  The instruction of SSE 4.2 takes three cycles but starts one each
 * cycle, so three lanes run at once; a lane's CRC is then advanced over the
 * bytes of the lanes behind it by multiplication in GF(2), from tables.
 */
#include "crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define HAVE_INSTRUCTION 1
#else
#define HAVE_INSTRUCTION 0
#endif

/* Three lanes are 4080 bytes: as much of a page as a multiple of 24 can be. */
enum { LANE = 1360 };

static uint32_t byte_table[8][256];
static uint32_t lane_table[4][256]; /* advances a CRC over LANE zero bytes */
static bool have_instruction;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t advance_by_zeroes(uint32_t crc, size_t count)
{
    while (count--)
        crc = byte_table[0][crc & 0xff] ^ (crc >> 8);
    return crc;
}

static void make_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0);
        byte_table[0][byte] = crc;
    }
    for (int slice = 1; slice < 8; slice++)
        for (uint32_t byte = 0; byte < 256; byte++)
            byte_table[slice][byte] = advance_by_zeroes(byte_table[slice - 1][byte], 1);
    for (int position = 0; position < 4; position++)
        for (uint32_t byte = 0; byte < 256; byte++)
            lane_table[position][byte] = advance_by_zeroes(byte << (8 * position), LANE);
#if HAVE_INSTRUCTION
    have_instruction = __builtin_cpu_supports("sse4.2");
#endif
}

uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t length)
{
    pthread_once(&once, make_tables);
    const uint8_t *at = bytes;
    crc = ~crc;
    for (; length >= 8; length -= 8, at += 8) {
        uint64_t word = 0;
        for (int i = 7; i >= 0; i--)
            word = (word << 8) | at[i];
        word ^= crc;
        crc = 0;
        for (int i = 0; i < 8; i++)
            crc ^= byte_table[7 - i][(word >> (8 * i)) & 0xff];
    }
    for (; length; length--, at++)
        crc = byte_table[0][(crc ^ *at) & 0xff] ^ (crc >> 8);
    return ~crc;
}

#if HAVE_INSTRUCTION
static uint64_t load(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static uint32_t over_one_lane(uint32_t crc)
{
    return lane_table[0][crc & 0xff] ^ lane_table[1][(crc >> 8) & 0xff] ^
           lane_table[2][(crc >> 16) & 0xff] ^ lane_table[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t with_instruction(uint32_t crc, const void *bytes,
                                                                   size_t length)
{
    const uint8_t *at = bytes;
    uint64_t first = (uint32_t)~crc;
    for (; length >= 3 * LANE; length -= 3 * LANE, at += 3 * LANE) {
        uint64_t second = 0, third = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            first = _mm_crc32_u64(first, load(at + i));
            second = _mm_crc32_u64(second, load(at + LANE + i));
            third = _mm_crc32_u64(third, load(at + 2 * LANE + i));
        }
        uint32_t joined = over_one_lane((uint32_t)first) ^ (uint32_t)second;
        first = over_one_lane(joined) ^ (uint32_t)third;
    }
    for (; length >= 8; length -= 8, at += 8)
        first = _mm_crc32_u64(first, load(at));
    for (; length; length--, at++)
        first = _mm_crc32_u8((uint32_t)first, *at);
    return ~(uint32_t)first;
}
#endif

uint32_t crc32c(uint32_t crc, const void *bytes, size_t length)
{
    pthread_once(&once, make_tables);
#if HAVE_INSTRUCTION
    if (have_instruction)
        return with_instruction(crc, bytes, length);
#endif
    return crc32c_portable(crc, bytes, length);
}
