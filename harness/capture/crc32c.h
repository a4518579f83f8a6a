/* SPDX-License-Identifier: Apache-2.0
 * CRC-32C (Castagnoli; reflected polynomial 0x82f63b78), as in RFC 3720, appendix B.4. */
#ifndef POWERCUT_CAPTURE_CRC32C_H
#define POWERCUT_CAPTURE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of `length` bytes; `crc` is that of the bytes before them, 0 at the start. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t length);

/* The same without the CPU's instruction; tests compare the two. */
uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t length);

#endif
