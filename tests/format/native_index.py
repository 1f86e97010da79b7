# SPDX-License-Identifier: Apache-2.0
"""Reads what cairn adds to PyTorch's files, without cairn: docs/format.md, "Byte by byte".

`read_index` reads a `.metadata` with an index of version 2, and the commit record if there is one;
`read_footer` reads the footer of a data file. They verify every checksum of what they read, and
raise `Damaged`. The payloads and their checksums are left to whoever has the data files.
"""
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TypeVar

BLOCK = 64 * 1024
MAX_ELEMENTS = 2**58
MAX_DIMS = 64
MAX_STEPS = 256
DTYPES = (
    "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz "
    "float8_e8m0fnu int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool "
    "complex128 complex64 complex32 float4_e2m1fn_x2").split()

T = TypeVar("T")
Shape = tuple[int, ...]
Path = tuple[str | int, ...]


class Damaged(ValueError):
    """The bytes are not what docs/format.md describes."""


def expect(condition: bool, what: str) -> None:
    if not condition:
        raise Damaged(what)


# What the files say -------------------------------------------------------------------------------
@dataclass(frozen=True)
class Layout:
    """Where the payload is, from the item's beginning. Strides are in elements."""
    offset: int
    length: int
    payload_crc: int
    item_crc: int
    strides: Shape


@dataclass(frozen=True)
class Location:
    """An item in a file. Without a layout, it has to be parsed."""
    file: int
    offset: int
    length: int
    layout: Layout | None
    transforms: tuple[str, ...] | None


@dataclass(frozen=True)
class Chunk:
    """A box of a tensor, and where it is stored."""
    offsets: Shape
    lengths: Shape
    location: Location


@dataclass(frozen=True)
class Entry:
    """A value has a location; a tensor has all the rest."""
    key: str
    location: Location | None = None
    requires_grad: bool = False
    dtype: str = ""
    shape: Shape = ()
    chunks: tuple[Chunk, ...] = ()

    def locations(self) -> list[Location]:
        if self.location is not None:
            return [self.location]
        return [chunk.location for chunk in self.chunks]


@dataclass(frozen=True)
class File:
    name: str
    size: int | None


@dataclass(frozen=True)
class Root:
    """All of the index but its content. `length` is that of the whole index."""
    save_id: str
    files: list[File]
    block_crcs: list[int]
    content_length: int
    before_crc: int
    length: int


@dataclass(frozen=True)
class Commit:
    sequence: int
    milliseconds: int
    step: int
    save_id: str
    metrics: dict[str, float]


@dataclass(frozen=True)
class Index:
    root: Root
    entries: list[Entry]
    paths: dict[str, Path]
    commit: Commit | None
    pickle_length: int


@dataclass(frozen=True)
class FooterItem:
    offset: int
    length: int
    payload_offset: int
    payload_length: int
    block_crcs: list[int]


@dataclass(frozen=True)
class Footer:
    save_id: str
    items: list[FooterItem]
    length: int


# Numbers, strings and lists -----------------------------------------------------------------------
class Reader:
    """Takes one thing after the other from the front."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        left = len(self._data) - self._at
        expect(count <= left, f"{count} bytes are wanted where {left} are left")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "little")

    def byte(self) -> int:
        return self.number(1)

    def u32(self) -> int:
        return self.number(4)

    def f64(self) -> float:
        return struct.unpack("<d", self.take(8))[0]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 64, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        expect(byte < 0x80 and value < 2**64, "a varint has more than 64 bits")
        return value

    def signed(self) -> int:
        zigzag = self.varint()
        return -(zigzag // 2) - 1 if zigzag % 2 else zigzag // 2

    def string(self) -> str:
        data = self.take(self.varint())
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise Damaged(f"a string is not UTF-8: {error}") from None

    def list_of(self, element: Callable[["Reader"], T]) -> list[T]:
        return [element(self) for _ in range(self.varint())]

    def numbers(self) -> Shape:
        return tuple(self.list_of(Reader.signed))

    def end(self, what: str) -> None:
        left = len(self._data) - self._at
        expect(left == 0, f"{what}: {left} bytes are left over")


def block_crcs(data: bytes) -> list[int]:
    """The checksums of the 64 KiB blocks, of which the last may be shorter."""
    return [zlib.crc32(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK)]


def before_length_and_magic(data: bytes, magic: bytes) -> bytes | None:
    """What ends in its length and a magic, without these two; None if the magic is not there."""
    if len(data) < 16 or not data.endswith(magic):
        return None
    length = int.from_bytes(data[-16:-8], "little")
    expect(16 <= length <= len(data), f"{magic.decode()}: a length of {length} cannot be")
    return data[-length:-16]


def before_crc(data: bytes, what: str) -> bytes:
    """What is before a checksum of it that ends `data`."""
    expect(len(data) >= 4, f"{what}: too short")
    crc = int.from_bytes(data[-4:], "little")
    expect(zlib.crc32(data[:-4]) == crc, f"{what}: the checksum differs")
    return data[:-4]


# Entries ------------------------------------------------------------------------------------------
def read_layout(r: Reader) -> Layout:
    return Layout(r.varint(), r.varint(), r.u32(), r.u32(), r.numbers())


def read_location(r: Reader, file: int) -> Location:
    offset, length, flags = r.varint(), r.varint(), r.byte()
    expect(flags < 4, f"a location has flags {flags}")
    transforms = tuple(r.list_of(Reader.string)) if flags & 2 else None
    return Location(file, offset, length, read_layout(r) if flags & 1 else None, transforms)


def row_major(lengths: Shape) -> Shape:
    """As PyTorch has them: a 0 counts as 1."""
    return tuple(prod(max(n, 1) for n in lengths[i + 1 :]) for i in range(len(lengths)))


@dataclass(frozen=True)
class Row:
    """A row of the chunks of a tensor: its columns, and two checksums."""
    columns: list[int]
    payload_crc: int
    item_crc: int

    def chunk(self, r: Reader) -> Chunk:
        """The chunk, read from what follows the rows if it is not in the row."""
        *box, file, offset, length, payload_offset, payload_length, flags = self.columns
        expect(flags < 4, f"a chunk has flags {flags}")
        if flags & 2:
            return Chunk(r.numbers(), r.numbers(), read_location(r, file))
        offsets, lengths = tuple(box[: len(box) // 2]), tuple(box[len(box) // 2 :])
        layout = Layout(payload_offset, payload_length, self.payload_crc, self.item_crc,
                        row_major(lengths)) if flags & 1 else None
        return Chunk(offsets, lengths, Location(file, offset, length, layout, None))


def read_row(r: Reader, columns: list[tuple[int, int]], padding: int) -> Row:
    numbers = [(r.number(width) + base) % 2**64 for width, base in columns]
    row = Row(numbers, r.u32(), r.u32())
    expect(not any(r.take(padding)), "a row is not padded with zeros")
    return row


def read_chunks(r: Reader, dims: int) -> tuple[Chunk, ...]:
    count = r.varint()
    if count == 0:
        return ()
    columns = [(r.byte(), r.varint()) for _ in range(2 * dims + 6)]
    expect(all(width <= 8 for width, _ in columns), "a column has more than 8 bytes")
    padding = max(0, 2 * max(2, dims) - sum(width for width, _ in columns))
    rows = [read_row(r, columns, padding) for _ in range(count)]
    return tuple([row.chunk(r) for row in rows])


def read_entry(r: Reader) -> Entry:
    key, kind = r.string(), r.byte()
    expect(kind < 3, f"{key}: kind {kind}")
    if kind == 0:
        return Entry(key, read_location(r, r.varint()))
    dtype, shape = r.byte(), r.numbers()
    expect(dtype < len(DTYPES), f"{key}: dtype {dtype}")
    expect(len(shape) <= MAX_DIMS, f"{key}: {len(shape)} dimensions")
    expect(all(n >= 0 for n in shape) and prod(max(n, 1) for n in shape) <= MAX_ELEMENTS,
           f"{key}: a shape of {shape}")
    return Entry(key, None, kind == 2, DTYPES[dtype], shape, read_chunks(r, len(shape)))


def read_step(r: Reader) -> str | int:
    kind = r.byte()
    expect(kind < 2, f"a path has a step of kind {kind}")
    return r.signed() if kind else r.string()


def read_path(r: Reader) -> tuple[str, Path]:
    key, steps = r.string(), tuple(r.list_of(read_step))
    expect(len(steps) <= MAX_STEPS, f"{key}: a path of {len(steps)} steps")
    return key, steps


# What must hold although the checksums are right --------------------------------------------------
def check_box(chunk: Chunk, tensor: Entry) -> None:
    where = f"{tensor.key}: the chunk at {chunk.offsets}"
    expect(len(chunk.offsets) == len(chunk.lengths) == len(tensor.shape), f"{where}: dimensions")
    for offset, length, size in zip(chunk.offsets, chunk.lengths, tensor.shape):
        expect(offset >= 0 and length >= 0 and offset + length <= size,
               f"{where} is not within its tensor")


def check_entry(entry: Entry, files: list[File]) -> None:
    for location in entry.locations():
        expect(location.file < len(files), f"{entry.key}: there is no file {location.file}")
        if (layout := location.layout) is not None:
            expect(layout.offset + layout.length <= location.length,
                   f"{entry.key}: a payload is not within its item")
    for chunk in entry.chunks:
        check_box(chunk, entry)


# The native index ---------------------------------------------------------------------------------
def read_file(r: Reader) -> File:
    name, known = r.string(), r.byte()
    expect(known < 2, f"{name}: its size is neither known nor unknown")
    return File(name, r.varint() if known else None)


def read_root(data: bytes) -> Root:
    """The root of the index at the end of `data`; the content itself is not looked at."""
    index = before_length_and_magic(data, b"cairnix2")
    if index is None:
        raise Damaged("there is no native index of version 2")
    expect(len(index) >= 24, "the root of the index: too short")
    content_length, heading_length = struct.unpack("<QQ", index[-24:-8])
    blocks = -(-content_length // BLOCK)
    expect(content_length + heading_length + 4 * blocks + 24 == len(index),
           "the root of the index: its lengths disagree")
    r = Reader(before_crc(index[content_length:], "the root of the index"))
    heading = Reader(r.take(heading_length))
    crcs = [r.u32() for _ in range(blocks)]
    r.take(16)
    root = Root(heading.string(), heading.list_of(read_file), crcs, content_length, r.u32(),
                len(index) + 16)
    heading.end("the heading")
    expect(len({file.name for file in root.files}) == len(root.files), "a file occurs twice")
    return root


def read_content(content: bytes, files: list[File]) -> tuple[list[Entry], dict[str, Path]]:
    r = Reader(content)
    entries, paths = r.list_of(read_entry), r.list_of(read_path)
    r.end("the content")
    expect(len({entry.key for entry in entries}) == len(entries), "a key has two entries")
    expect(len(dict(paths)) == len(paths), "a key has two paths")
    for entry in entries:
        check_entry(entry, files)
    return entries, dict(paths)


def read_commit(before: bytes) -> tuple[Commit | None, int]:
    """The commit record that `before` ends in, if there is one, and its length."""
    record = before_length_and_magic(before, b"cairncmt")
    if record is None:
        return None, 0
    r = Reader(before_crc(record, "the commit record"))
    version = r.byte()
    expect(version == 1, f"the commit record: version {version}")
    commit = Commit(r.varint(), r.signed(), r.signed(), r.string(),
                    dict(r.list_of(lambda r: (r.string(), r.f64()))))
    r.end("the commit record")
    return commit, len(record) + 16


def read_index(data: bytes) -> Index:
    """The native index of a `.metadata`, and the commit record before it."""
    root = read_root(data)
    at = len(data) - root.length
    before, content = data[:at], data[at : at + root.content_length]
    expect(zlib.crc32(before) == root.before_crc, "before the index: the checksum differs")
    expect(block_crcs(content) == root.block_crcs, "the content: the checksum of a block differs")
    entries, paths = read_content(content, root.files)
    commit, commit_length = read_commit(before)
    return Index(root, entries, paths, commit, at - commit_length)


# The footer of a data file ------------------------------------------------------------------------
def read_footer_item(r: Reader) -> FooterItem:
    item = FooterItem(r.varint(), r.varint(), r.varint(), r.varint(), r.list_of(Reader.u32))
    expect(item.length > 0, f"the item at {item.offset}: it has no bytes")
    expect(item.payload_offset + item.payload_length <= item.length,
           f"the item at {item.offset}: its payload is not within it")
    expect(len(item.block_crcs) == -(-item.payload_length // BLOCK),
           f"the item at {item.offset}: not one checksum for each block")
    return item


def read_footer(data: bytes) -> Footer:
    """The footer at the end of a data file."""
    footer = before_length_and_magic(data, b"cairnftr")
    if footer is None:
        raise Damaged("there is no footer")
    expect(len(footer) + 16 <= 4096 + len(data) // 4, "the footer: too long for its file")
    r = Reader(before_crc(footer, "the footer"))
    version = r.byte()
    expect(version == 1, f"the footer: version {version}")
    save_id, items = r.string(), r.list_of(read_footer_item)
    r.end("the footer")
    ends = [0] + [item.offset + item.length for item in items]
    starts = [item.offset for item in items] + [len(data) - len(footer) - 16]
    expect(all(end <= start for end, start in zip(ends, starts)),
           "the footer: items are out of order, share bytes or are not within the file")
    return Footer(save_id, items, len(footer) + 16)
