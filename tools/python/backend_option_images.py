# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reads a native library, an ELF, PE or Mach-O file: its sections, functions, and pointers."""

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
            offset = address - section.address
            if 0 <= offset < len(section.data):
                return section.data[offset : offset + size]
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


def _number(form: str, data: bytes, at: int) -> int:
    return struct.unpack_from(form, data, at)[0]


def _load_elf(data: bytes) -> Image:
    machine = _number("<H", data, 18)
    table = _number("<Q", data, 40)
    width, count = struct.unpack_from("<HH", data, 58)
    section_of_names = _number("<H", data, 62)
    names_at = _number("<Q", data, table + section_of_names * width + 24)
    sections = []
    functions = []
    pointers = []
    for at in range(table, table + count * width, width):
        name_at, kind, flags, address, offset, size = struct.unpack_from("<IIQQQQ", data, at)
        content = data[offset : offset + size]
        if kind == 1 and flags & 2:  # PROGBITS, mapped
            sections.append(Section(address, content, bool(flags & 4)))
        elif kind == 4:  # RELA; the type is R_X86_64_RELATIVE or R_AARCH64_RELATIVE
            for where, info, target in struct.iter_unpack("<QQq", content):
                if info & 0xFFFFFFFF in (8, 1027):
                    pointers.append((where, target))
        if data.startswith(b".eh_frame_hdr\0", names_at + name_at) and content[3] == 0x3B:
            many = _number("<I", content, 8)
            for start, _ in struct.iter_unpack("<ii", content[12 : 12 + many * 8]):
                functions.append(address + start)
    return Image(sections, functions, sorted(pointers), machine == 62)


def _load_pe(data: bytes) -> Image:
    header = _number("<I", data, 60)
    machine, count = struct.unpack_from("<HH", data, header + 4)
    table = header + 24 + _number("<H", data, header + 20)
    sections = []
    functions = []
    for at in range(table, table + 40 * count, 40):
        name, _, address, size, offset = struct.unpack_from("<8sIIII", data, at)
        flags = _number("<I", data, at + 36)
        content = data[offset : offset + size]
        sections.append(Section(address, content, bool(flags & 0x20000000)))
        if name == b".pdata\0\0" and machine == 0x8664:
            whole = size // 12 * 12
            for start, _, _ in struct.iter_unpack("<III", content[:whole]):
                functions.append(start)
    return Image(sections, sorted(functions), [], machine == 0x8664)


def _load_macho(data: bytes) -> Image:
    """Read the sections; where functions start and pointers lead is not looked for."""
    machine, _, _, count = struct.unpack_from("<4I", data, 4)
    sections = []
    at = 32
    for _ in range(count):
        kind, size = struct.unpack_from("<II", data, at)
        if kind == 0x19:  # LC_SEGMENT_64
            for entry in range(at + 72, at + size, 80):
                address, length, offset, _, _, _, flags = struct.unpack_from("<QQIIIII", data, entry + 32)
                if offset and flags & 0xFF != 1:  # S_ZEROFILL is in no file
                    content = data[offset : offset + length]
                    sections.append(Section(address, content, bool(flags & 0x80000400)))
        at += size
    return Image(sections, [], [], machine == 0x1000007)
