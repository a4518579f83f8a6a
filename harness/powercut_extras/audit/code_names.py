# SPDX-License-Identifier: Apache-2.0
"""Names for places in programs: by their symbols, and addr2line's where binutils are installed.

addr2line names the symbol before an address however far it is, which is wrong in a library whose
own functions have none.  So its word counts where it knows the line, or where a symbol of the file
has the address within its size (System V ABI, symbol table).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from powercut.model.errors import PowercutError
from powercut.sandbox.confined import find_tool, run_confined

_TOOL: Final = "addr2line"
_TIMEOUT_S: Final = 60.0
_NO_NAME: Final = "??"
_ELF64: Final = b"\x7fELF\x02\x01"
_SECTIONS: Final = struct.Struct("<40xQ10xHHH")  # e_shoff, e_shentsize, e_shnum, e_shstrndx
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_SYMBOL_TABLES: Final = (2, 11)  # SHT_SYMTAB, SHT_DYNSYM
_FUNCTIONS: Final = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
_FILE_MAX: Final = 1 << 30
_FUNCTIONS_MAX: Final = 10_000_000

Place = tuple[str, int]
"""A file, and an address as its symbols have it."""


def name_places(places: Iterable[Place]) -> dict[Place, str]:
    """`function (file:line)` or `function` for each place of which symbols know something.

    The address after a call names the call.  Nothing is raised where there are no symbols, no
    addr2line, no sandbox for it, or where a file is no program.
    """
    by_module: dict[str, list[int]] = {}
    for module, address in dict.fromkeys(places):
        by_module.setdefault(module, []).append(address)
    return {
        (module, address): name
        for module, addresses in by_module.items()
        for address, name in zip(addresses, _names(Path(module), addresses), strict=True)
        if name
    }


def _names(module: Path, addresses: list[int]) -> list[str]:
    """A name for each address, empty where there is none."""
    calls = [max(address - 1, 0) for address in addresses]
    known = _by_symbols(module, calls)
    told = _ask(module, calls) or [("", "")] * len(calls)
    names = []
    for symbol, (function, line) in zip(known, told, strict=True):
        if line:
            names.append(f"{function} ({line})")
        else:
            names.append((function or symbol) if symbol else "")
    return names


def _ask(module: Path, addresses: list[int]) -> list[tuple[str, str]]:
    """What addr2line says: function and line, empty where it does not know."""
    if not module.is_file() or find_tool(_TOOL) is None:
        return []
    argv = [_TOOL, "-f", "-C", "-s", "-e", str(module), *(f"{one:#x}" for one in addresses)]
    try:
        done = run_confined(argv, timeout_s=_TIMEOUT_S, reads=[module])
    except PowercutError:
        return []
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != 2 * len(addresses):
        return []
    return [
        ("" if function == _NO_NAME else function, "" if "?" in place else place.split(" (")[0])
        for function, place in zip(lines[::2], lines[1::2], strict=True)
    ]


def _by_symbols(module: Path, addresses: list[int]) -> list[str]:
    """The functions in which the addresses lie, by size; empty where in none."""
    names = [""] * len(addresses)
    try:
        if not module.is_file() or module.stat().st_size > _FILE_MAX:
            return names
        data = module.read_bytes()
        for name, begin, size in islice(_functions(data), _FUNCTIONS_MAX):
            for at, address in enumerate(addresses):
                if begin <= address < begin + size:
                    names[at] = names[at] or name
    except (OSError, struct.error, ValueError, OverflowError):
        return names  # no program, or a damaged one
    return names


def _functions(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Name, address and size of each function in the symbol tables."""
    if not data.startswith(_ELF64):
        return
    offset, entry, count, _ = _SECTIONS.unpack_from(data)
    if entry != _SECTION.size:
        return
    sections = [_SECTION.unpack_from(data, offset + at * entry) for at in range(count)]
    for _, kind, _, _, begin, size, link, *_ in sections:
        if kind not in _SYMBOL_TABLES or link >= count:
            continue
        strings = sections[link][4]
        table = data[begin : begin + size - size % _SYMBOL.size]
        for name, info, _, _, value, length in _SYMBOL.iter_unpack(table):
            if info & 15 in _FUNCTIONS and length:
                end = data.index(b"\0", strings + name)
                yield data[strings + name : end].decode(errors="replace"), value, length
