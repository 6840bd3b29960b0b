# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Read names out of a native library: the texts it holds as data, and those its compiler turned into machine code.

A C++ compiler does not keep every literal whole. A literal of up to 15 characters often becomes a few stores of
immediate values. A longer literal is copied or compared in pieces of 16, 8, 4, 2 or 1 bytes, which can overlap. This
module finds the pieces and puts them together by the address that they are stored to or compared with. It understands
the code of x86-64; of other CPUs it reads the data only. ``backend_option_images.py`` reads the files.
"""

import heapq
import itertools
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from backend_option_images import Image, Section

NAME = rb"[A-Za-z][A-Za-z0-9_.]{2,79}"
_PIECE = rb"[A-Za-z0-9_.]"
_EIGHT = re.compile(_PIECE + rb"{8}")
_TEXT = re.compile(_PIECE + rb"+\0*")
_BETWEEN_NULS = re.compile(rb"(?<![^\0])(" + NAME + rb")\0")
# Pieces of one text stand close together in the code, and so do a constant and the store of it.
_REACH = 320


class Use(NamedTuple):
    """A text in the place where it is used.

    :param whole: whether its end is certain; otherwise it may be a piece of a longer text.
    """

    text: str
    whole: bool


def is_glued(text: str, names: Iterable[str]) -> bool:
    """Return whether a text consists of pieces of other names.

    A compiler keeps pieces of 16 and 8 bytes next to each other, without an end. The code that composes several names
    may use one address for all. So every 8 characters must be such a piece, the last ones the beginning of one.
    """
    if len(text) <= 8 or text in names:
        return False
    known: set[str] = set()
    for name in names:
        for at in range(0, len(name), 8):
            known.add(name[at : at + 8])
        # A name's last piece may overlap the one before, to be as long as that.
        known.add(name[-8:])
        if len(name) >= 16:
            known.add(name[-16:-8])
    last = (len(text) - 1) // 8 * 8
    for at in range(0, last, 8):
        if text[at : at + 8] not in known:
            return False
    return any(piece.startswith(text[last:]) for piece in known)


def data_texts(image: Image) -> set[str]:
    """The texts of data that stand between NULs and look like a name."""
    found = set()
    for section in image.sections:
        if not section.code:
            for match in _BETWEEN_NULS.finditer(section.data):
                found.add(match[1].decode())
    return found


def uses(image: Image) -> list[list[Use]]:
    """The texts that look like names, in order, by the function or the table of pointers that they are used in.

    The names of one parser are used in one function, or are listed in one table. So a name that is used together with
    known options is likely an option.
    """
    by_place: dict[object, list[tuple[int, Use]]] = defaultdict(list)
    previous = place = 0
    for where, target in image.pointers:
        # An array of records may hold other things between its pointers.
        if where - previous > 64:
            place = where
        previous = where
        text = _c_string(image, target)
        if text:
            by_place["table", place].append((where, Use(text, True)))
    for section in image.sections:
        if image.x86_64 and section.code:
            for position, use in _code_uses(image, section):
                address = section.address + position
                function = bisect_right(image.functions, address)
                by_place["function", function].append((address, use))
    in_order = []
    for found in by_place.values():
        found.sort()
        in_order.append([use for _, use in found])
    return in_order


def _c_string(image: Image, address: int) -> str:
    """The text at an address, or the one that ends there: code may hold a pointer to either."""
    match = re.match(rb"(" + NAME + rb")\0", image.at(address, 96))
    if match is None and image.at(address, 1) == b"\0":
        match = re.search(rb"\0(" + NAME + rb")\Z", image.at(address - 96, 96))
    if match is None:
        return ""
    return match[1].decode()


def _beginning(first: bytes, rest: bytes) -> list[re.Pattern[bytes]]:
    """Return a pattern for each first byte: a search for a set of bytes is ten times slower than one for a byte."""
    return [re.compile(re.escape(bytes((byte,))) + rest, re.DOTALL) for byte in first]


_RELATIVE = rb"[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](....)"
_LEA = _beginning(b"\x48\x4c", rb"\x8d" + _RELATIVE)
# The forms of a piece of a text: eight or four bytes for a register, three or four for a store or a comparison, or a
# load of sixteen or eight bytes of data.
_SEEDS = (
    _beginning(b"\x48\x49", rb"[\xb8-\xbf]" + _PIECE + rb"{8}")
    + _beginning(b"\xc7\x81", rb".{1,6}?" + _PIECE + rb"{3}[A-Za-z0-9_.\0]")
    + _beginning(bytes(range(0xB8, 0xC0)), _PIECE + rb"{4}")
    + _beginning(b"\x0f", rb"[\x6f\x28\x10\x74\xef\x7e]" + _RELATIVE)
    + _beginning(bytes(range(0x48, 0x50)), rb"\x8b" + _RELATIVE)
)


def _signed(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _code_uses(image: Image, section: Section) -> Iterator[tuple[int, Use]]:
    known: dict[int, str] = {}
    for pattern in _LEA:
        for match in pattern.finditer(section.data):
            target = section.address + match.end() + _signed(match[1])
            if target not in known:
                known[target] = _c_string(image, target)
            if known[target]:
                yield match.start(), Use(known[target], True)
    for low, high in _windows(image, section):
        yield from _assemble(_Stretch(image, section, low, high).pieces())


def _windows(image: Image, section: Section) -> Iterator[tuple[int, int]]:
    """The stretches of code in which a text may be put together."""
    low = high = 0
    found = [pattern.finditer(section.data) for pattern in _SEEDS]
    for match in heapq.merge(*found, key=re.Match.start):
        if match.re.groups:
            target = section.address + match.end() + _signed(match[1])
            if not _EIGHT.fullmatch(image.at(target, 8)):
                continue
        if match.start() - _REACH > high:
            if high:
                yield low, high
            low = max(match.start() - _REACH, 0)
        high = max(high, match.end() + _REACH)
    if high:
        yield low, high


# --- Pieces: constants, followed through registers to memory ---


class _Memory(NamedTuple):
    """An operand in memory: the registers that it is relative to, and the offset."""

    base: object
    offset: int


class _Piece(NamedTuple):
    """Bytes that are stored to memory or compared with it; with ``length``, a text's length instead.

    A piece without bytes is a call.
    """

    position: int
    memory: _Memory
    data: bytes = b""
    length: int = 0


# The beginnings of the instructions that :class:`_Stretch` reads: the prefixes, REX, and the operation. The byte after
# an operation limits it to a text, to an operand in memory, or to mov and cmp.
_INSTRUCTION = re.compile(
    rb"([\x66\xf2\xf3]*)([\x40-\x4f]?)(?:"
    rb"[\xb8-\xbf](?=" + _PIECE + rb")|"
    rb"[\xc6\xc7](?=[\x00-\x07\x40-\x47\x80-\x87])|"
    rb"[\x80\x81](?=[\x38-\x3f\x78-\x7f\xb8-\xbf])|"
    rb"[\x88\x38\x39\x33\x3b](?=[\x00-\xbf])|[\x89\x8b\xe8]|"
    rb"\x0f(?:[\xb6\xb7]|[\x6f\x28\x10\x7e\x11\x29\x7f\xd6\x74\xef](?=[\x00-\xbf])))",
    re.DOTALL,
)
# Second byte of the loads of one or two bytes.
_NARROW = {0xB6: 1, 0xB7: 2}
# Second byte of the instructions between memory and vector registers.
_VECTOR = dict.fromkeys((0x6F, 0x28, 0x10, 0x7E), "load")
_VECTOR |= dict.fromkeys((0x11, 0x29, 0x7F, 0xD6), "store") | dict.fromkeys((0x74, 0xEF), "compare")


class _Stretch:
    """A stretch of code, read from its beginning, with what its registers contain.

    Every byte is taken for the beginning of an instruction; one that is none rarely fits the few forms looked for.
    """

    def __init__(self, image: Image, section: Section, low: int, high: int) -> None:
        self.image = image
        self.section = section
        self.code = section.data
        self.low = low
        self.high = min(high, len(self.code) - 24)
        self.held: dict[object, tuple[int, bytes]] = {}  # register to the constant in it
        self.origin: dict[int, _Memory] = {}  # vector register to the memory that it was loaded from
        # The instruction that is read: its place, prefix, REX, and the bytes of its operands.
        self.here = low
        self.prefix = b""
        self.rex = 0
        self.wide = 4
        self.next = low  # where the search goes on

    def pieces(self) -> Iterator[_Piece]:
        """Find the pieces, in order."""
        while True:
            match = _INSTRUCTION.search(self.code, self.next, self.high + 24)
            if match is None or match.start() >= self.high:
                return
            self.here = match.start()
            self.next = self.here + 1
            self.prefix = match[1][-1:]
            self.rex = int.from_bytes(match[2], "little")
            self.wide = 4
            if self.rex & 8:
                self.wide = 8
            elif self.prefix == b"\x66":
                self.wide = 2
            operation = match.end(2)
            piece = _READERS[self.code[operation]](self, operation)
            if piece is not None:
                yield piece

    def constant(self, register: object, size: int) -> bytes:
        """Return the text that a register contains, if it was put there a short way before."""
        position, value = self.held.get(register, (self.low, b""))
        value = value[:size]
        if self.here - position <= _REACH and _is_text(value):
            return value
        return b""

    def place(self, memory: _Memory, end: int) -> _Memory:
        if memory.base != "rip":
            return memory
        return _Memory("rip", self.section.address + end + memory.offset)

    def stored(self, memory: object, end: int, size: int) -> bytes:
        """Return data of the image."""
        if type(memory) is not _Memory or memory.base != "rip":
            return b""
        return self.image.at(self.section.address + end + memory.offset, size)

    def register_of_value(self, at: int) -> None:
        """Read a mov of a value to a register."""
        end = at + 1 + self.wide
        value = self.code[at + 1 : end]
        # Other values are not noted: many of them would be bytes in the middle of an instruction.
        if _is_text(value):
            self.held[self.code[at] & 7 | (self.rex & 1) << 3] = self.here, value
            self.next = end

    def memory_and_value(self, at: int) -> _Piece | None:
        """Read a mov of a value to memory, or their comparison."""
        opcode = self.code[at]
        _, memory, end = _operand(self.code, at + 1, self.rex)
        size = min(self.wide, 4)
        if opcode in (0xC6, 0x80):
            size = 1
        value = self.code[end : end + size]
        if type(memory) is not _Memory:
            return None
        memory = self.place(memory, end + size)
        if opcode == 0xC7 and self.wide == 8 and value < b"\x80" and value[1:] == b"\0\0\0":
            return _Piece(self.here, memory, length=value[0])
        if _is_text(value) or (opcode == 0xC6 and value == b"\0"):
            self.next = end + size
            return _Piece(self.here, memory, value)
        return None

    def memory_and_register(self, at: int) -> _Piece | None:
        """Read a mov, cmp or xor of a register and memory."""
        opcode = self.code[at]
        register, memory, end = _operand(self.code, at + 1, self.rex)
        size = 1
        if opcode & 1:
            size = self.wide
        value = self.constant(register, size)
        if type(memory) is _Memory and value:
            return _Piece(self.here, self.place(memory, end), value)
        if opcode == 0x89 and type(memory) is not _Memory:
            self.held.pop(memory, None)
        return None

    def call(self, at: int) -> _Piece | None:
        target = at + 5 + _signed(self.code[at + 1 : at + 5])
        if -0x10000 < target < len(self.code):  # the linker's stubs stand before the code
            return _Piece(self.here, _Memory(None, 0))
        return None

    def load(self, at: int) -> None:
        register, memory, end = _operand(self.code, at + 1, self.rex)
        self.held[register] = self.here, self.stored(memory, end, self.wide)

    def narrow_or_vector(self, at: int) -> _Piece | None:
        """Read a load of a part of a register, or an instruction between memory and a vector register."""
        second = self.code[at + 1]
        register, memory, end = _operand(self.code, at + 2, self.rex)
        if second in _NARROW:
            self.held[register] = self.here, self.stored(memory, end, _NARROW[second])
            return None
        if type(memory) is not _Memory:
            return None
        size = 16
        if second == 0xD6 or (second == 0x7E and self.prefix == b"\xf3"):
            size = 8
        return self.vector(_VECTOR[second], register, memory, end, size)

    def vector(self, role: str, register: int, memory: _Memory, end: int, size: int) -> _Piece | None:
        if role == "store":
            value = self.constant(("vector", register), size)
            return _Piece(self.here, self.place(memory, end), value) if value else None
        value = self.stored(memory, end, size)
        if role == "load":
            self.held["vector", register] = self.here, value
            self.origin[register] = memory
        elif register in self.origin and _is_text(value):
            return _Piece(self.here, self.origin[register], value)
        return None


# By the first byte of the operation, all those of _INSTRUCTION.
_READERS: dict[int, Callable[[_Stretch, int], _Piece | None]] = {
    0x0F: _Stretch.narrow_or_vector,
    0x8B: _Stretch.load,
    0xE8: _Stretch.call,
    **dict.fromkeys(range(0xB8, 0xC0), _Stretch.register_of_value),
    **dict.fromkeys((0xC7, 0xC6, 0x81, 0x80), _Stretch.memory_and_value),
    **dict.fromkeys((0x89, 0x88, 0x39, 0x38, 0x33, 0x3B), _Stretch.memory_and_register),
}


def _operand(code: bytes, at: int, rex: int) -> tuple[int, int | _Memory, int]:
    """Read a ModRM byte and what belongs to it.

    :return: the register operand, the other operand (a register or memory), and where the instruction goes on.
    """
    mode = code[at] >> 6
    register = (code[at] >> 3 & 7) | (rex & 4) << 1
    other = code[at] & 7
    base: object = other | (rex & 1) << 3
    at += 1
    if mode == 3:
        return register, base, at
    if other == 4:
        scaled = code[at]
        base = (scaled & 7) | (rex & 1) << 3
        at += 1
        if scaled >> 3 & 7 != 4 or rex & 2:
            base = (base, scaled >> 3, rex & 2)
        if scaled & 7 == 5 and mode == 0:
            mode = 2
            base = ("none", base)
    elif other == 5 and mode == 0:
        mode = 2
        base = "rip"
    end = at + (0, 1, 4)[mode]
    return register, _Memory(base, _signed(code[at:end])), end


def _is_text(value: bytes) -> bool:
    return _TEXT.fullmatch(value) is not None


# --- Texts: pieces put together ---


class _Chain(NamedTuple):
    """Pieces that were put together."""

    position: int
    memory: _Memory
    data: bytes


# The registers that a call does not keep.
_VOLATILE = frozenset({0, 1, 2, 6, 7, 8, 9, 10, 11})


def _assemble(pieces: Iterator[_Piece]) -> Iterator[tuple[int, Use]]:
    """Put pieces together that touch or overlap in memory and agree where they overlap.

    A chain that grew stays open, because comparisons with several names share pieces; only what did not grow further
    counts as a text.
    """
    chains: list[_Chain] = []
    grown: set[_Chain] = set()
    lengths: dict[_Memory, int] = {}
    for piece in pieces:
        gone = _take(chains, lambda chain, now=piece.position: now - chain.position > _REACH)
        if piece.memory.base is None:
            gone += _take(chains, lambda chain: chain.memory.base in _VOLATILE)
        yield from _texts(gone, grown, lengths)
        if piece.length:
            lengths[piece.memory] = piece.length
        if not piece.data:
            continue
        joined = _Chain(piece.position, piece.memory, piece.data)
        for longer in (0, 1):  # with the adjacent piece, then with the piece on the other side
            fits = []
            for chain in chains:
                fit = _join(chain, joined, grown)
                if fit and len(fit.result.data) >= len(joined.data) + longer:
                    fits.append(fit)
            if not fits:
                break
            best = max(fits, key=lambda fit: fit.rank)
            joined = best.result
            if len(joined.data) > len(best.chain.data):
                grown.add(best.chain)
        chains.append(joined)
    yield from _texts(chains, grown, lengths)


def _take(chains: list[_Chain], which: Callable[[_Chain], bool]) -> list[_Chain]:
    taken = list(filter(which, chains))
    chains[:] = itertools.filterfalse(which, chains)
    return taken


class _Fit(NamedTuple):
    """How a chain fits another one: the result, and what makes one fit better than another one."""

    chain: _Chain
    result: _Chain
    rank: tuple[int, bool, int]


def _join(chain: _Chain, new: _Chain, grown: set[_Chain]) -> _Fit | None:
    """Join two chains, if they fit."""
    if chain.memory.base != new.memory.base:
        return None
    first, second = sorted((chain, new), key=lambda chain: chain.memory.offset)
    ahead = second.memory.offset - first.memory.offset
    shared = first.data[ahead : ahead + len(second.data)]
    if ahead > len(first.data) or shared != second.data[: len(shared)]:
        return None
    data = first.data[:ahead] + second.data + first.data[ahead + len(second.data) :]
    result = _Chain(new.position, first.memory, data)
    return _Fit(chain, result, (len(shared), chain not in grown, chain.position))


def _texts(chains: list[_Chain], grown: set[_Chain], lengths: dict[_Memory, int]) -> Iterator[tuple[int, Use]]:
    for chain in chains:
        if chain in grown:
            continue
        # A short std::string holds its length in the eight bytes before its characters.
        length = lengths.get(_Memory(chain.memory.base, chain.memory.offset - 8), 0)
        for text in chain.data.split(b"\0"):
            if re.fullmatch(NAME, text):
                yield chain.position, Use(text.decode(), length == len(text) <= 15)
