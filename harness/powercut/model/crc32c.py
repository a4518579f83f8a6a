# SPDX-License-Identifier: Apache-2.0
"""CRC-32C over arrays: of a few bytes, or of many rows at once."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt


@functools.cache
def _crc_table() -> npt.NDArray[np.uint32]:
    """CRC32C (Castagnoli, RFC 3720 appendix B.4), reflected polynomial 0x82f63b78."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        odd = (table & np.uint32(1)).astype(bool)
        table = np.where(
            odd, (table >> np.uint32(1)) ^ np.uint32(0x82F63B78), table >> np.uint32(1)
        )
    return table


def crc32c(data: bytes | npt.NDArray[np.uint8]) -> int:
    """CRC32C of a few bytes; for many rows of equal length take `crc32c_rows`."""
    rows = np.frombuffer(data, dtype=np.uint8) if isinstance(data, bytes) else data
    table = _crc_table().tolist()
    crc = 0xFFFFFFFF
    for byte in rows.tolist():
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@functools.cache
def _row_tables(length: int) -> tuple[npt.NDArray[np.uint32], np.uint32]:
    """What each value of each pair of bytes changes in the CRC of a row, and CRC(zeroes)."""
    table = _crc_table()
    tables = np.empty((length, 256), dtype=np.uint32)
    tables[length - 1] = table
    for position in range(length - 2, -1, -1):
        after = tables[position + 1]
        tables[position] = table[after & np.uint32(0xFF)] ^ (after >> np.uint32(8))
    pairs = tables[0::2, None, :] ^ tables[1::2, :, None]  # the second byte is the high one
    return pairs.reshape(length // 2, 1 << 16), np.uint32(crc32c(bytes(length)))


def crc32c_rows(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """CRC32C of each row of an even number of bytes.

    A CRC is linear, so each pair of bytes adds its share independently.
    """
    pairs = np.ascontiguousarray(rows).view("<u2")
    tables, crc_of_zeroes = _row_tables(rows.shape[1])
    crc = np.full(len(rows), crc_of_zeroes, dtype=np.uint32)
    for at, table in enumerate(tables):
        column = pairs[:, at]
        # Most fields of a header are the same in all records of a batch.
        if len(column) and bool((column == column[0]).all()):
            column = column[:1]
        crc ^= table[column]
    return crc
