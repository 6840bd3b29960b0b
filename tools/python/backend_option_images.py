# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reads a native library, an ELF, PE or Mach-O file: its sections, functions, and pointers."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple


class Section(NamedTuple):
    """A part of the file that is mapped into memory."""

    address: int
    data: bytes
    code: bool


class Image(NamedTuple):
    """A native library: its sections, where its functions start, and the pointers that its loader fills in."""

    sections: list[Section]
    functions: list[int]
    pointers: list[tuple[int, int]]
    x86_64: bool

    def at(self, address: int, size: int) -> bytes:
        """The bytes at an address, fewer or none where the file holds fewer."""
        for section in self.sections:
            if section.address <= address < section.address + len(section.data):
                return section.data[address - section.address : address - section.address + size]
        return b""


def load(path: Path) -> Image:
    """Read a 64-bit little-endian ELF, PE or Mach-O library.

    :raises ValueError: when the file is none.
    """
    data = path.read_bytes()
    if data[:6] == b"\x7fELF\x02\x01":
        return _load_elf(data)
    if data[:2] == b"MZ":
        return _load_pe(data)
    if data[:4] == b"\xcf\xfa\xed\xfe":
        return _load_macho(data)
    raise ValueError(f"{path.name} is no 64-bit little-endian ELF, PE or Mach-O file for one CPU")


def _load_elf(data: bytes) -> Image:
    machine = struct.unpack_from("<H", data, 18)[0]
    table = struct.unpack_from("<Q", data, 40)[0]
    width, count = struct.unpack_from("<HH", data, 58)
    sections, functions, pointers = [], [], []
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + index * width) for index in range(count)]
    names_at = headers[struct.unpack_from("<H", data, 62)[0]][4]
    for name_at, kind, flags, address, offset, size, *_ in headers:
        if kind == 1 and flags & 2:  # PROGBITS, mapped
            sections.append(Section(address, data[offset : offset + size], bool(flags & 4)))
        elif kind == 4:  # RELA; the type is R_X86_64_RELATIVE or R_AARCH64_RELATIVE
            for where, info, target in struct.iter_unpack("<QQq", data[offset : offset + size]):
                if info & 0xFFFFFFFF in (8, 1027):
                    pointers.append((where, target))
        if data.startswith(b".eh_frame_hdr\0", names_at + name_at) and data[offset + 3] == 0x3B:
            many = struct.unpack_from("<I", data, offset + 8)[0]
            pairs = struct.iter_unpack("<ii", data[offset + 12 : offset + 12 + many * 8])
            functions = [address + start for start, _ in pairs]
    return Image(sections, functions, sorted(pointers), machine == 62)


def _load_pe(data: bytes) -> Image:
    header = struct.unpack_from("<I", data, 60)[0]
    machine, count = struct.unpack_from("<HH", data, header + 4)
    table = header + 24 + struct.unpack_from("<H", data, header + 20)[0]
    sections, functions = [], []
    for at in range(table, table + 40 * count, 40):
        name, _, address, size, offset = struct.unpack_from("<8sIIII", data, at)
        flags = struct.unpack_from("<I", data, at + 36)[0]
        sections.append(Section(address, data[offset : offset + size], bool(flags & 0x20000000)))
        if name == b".pdata\0\0" and machine == 0x8664:
            functions = sorted(
                start for start, _, _ in struct.iter_unpack("<III", data[offset : offset + size // 12 * 12])
            )
    return Image(sections, functions, [], machine == 0x8664)


def _load_macho(data: bytes) -> Image:
    """Read the sections; where functions start and pointers lead is not looked for."""
    machine, _, _, count = struct.unpack_from("<4I", data, 4)
    sections, at = [], 32
    for _ in range(count):
        kind, size = struct.unpack_from("<II", data, at)
        if kind == 0x19:  # LC_SEGMENT_64
            for entry in range(at + 72, at + size, 80):
                address, length, offset, _, _, _, flags = struct.unpack_from("<QQIIIII", data, entry + 32)
                if offset and flags & 0xFF != 1:  # S_ZEROFILL is in no file
                    sections.append(Section(address, data[offset : offset + length], bool(flags & 0x80000400)))
        at += size
    return Image(sections, [], [], machine == 0x1000007)
