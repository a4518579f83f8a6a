/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC32C (Castagnoli; RFC 3720, appendix B.4): reflected polynomial 0x82f63b78,
 * initial value and final xor 0xffffffff.
 */
#ifndef POWERCUT_CRC32C_H
#define POWERCUT_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Goes on from `crc`, the checksum of what came before (0 at the start).  Uses the
 * processor's instruction where there is one. */
uint32_t pc_crc32c(uint32_t crc, const void *data, size_t length);

/* The same without the instruction: for machines that lack it and for tests. */
uint32_t pc_crc32c_table(uint32_t crc, const void *data, size_t length);

#endif
