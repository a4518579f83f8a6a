# SPDX-License-Identifier: Apache-2.0
"""Files that are read as arrays, without a copy.

A mapping of a hole costs memory on tmpfs: the kernel makes a page when one is *read*, and where
that file system is full it ends the process (SIGBUS), without a word.  read(2) makes none.  So what
is no hole is mapped, over memory that reads as zeroes.

The file must have its final contents: what is written to a hole later is not seen here.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

_MAP_FIXED: Final = 0x10  # of the kernel's mman.h: Python has no name for it
_PIECES_MAX: Final = 4096  # a process may have 65,530 mappings (vm.max_map_count)
_FAILED: Final = ctypes.c_void_p(-1).value

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_NUMBERS: Final = (ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
_LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *_NUMBERS)


def mapped(path: Path, *, writable: bool = False) -> npt.NDArray[np.uint8]:
    """The bytes of a file.  If they are `writable`, the file stays as it is nevertheless.

    Raises OSError.
    """
    rights = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)  # which a block device has, too
        if not size:
            return np.empty(0, dtype=np.uint8)
        memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, rights)
        content = np.frombuffer(memory, dtype=np.uint8)
        for number, (begin, end) in enumerate(stretches(file.fileno(), size)):
            last = number == _PIECES_MAX
            _lay(content.ctypes.data, file.fileno(), begin, size if last else end, rights)
            if last:
                break
    return content


def stretches(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Where the file is no hole: first byte and the one behind the last, rising."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(fd, end, os.SEEK_DATA)
            end = os.lseek(fd, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:  # a device, which has no holes
                yield end, size
            return
        yield begin, end


def _lay(memory: int, fd: int, begin: int, end: int, rights: int) -> None:
    """Maps a part of a file over the memory at that address, with which it goes (munmap(2))."""
    begin -= begin % mmap.PAGESIZE
    flags = mmap.MAP_PRIVATE | _MAP_FIXED
    if _LIBC.mmap(memory + begin, end - begin, rights, flags, fd, begin) == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
