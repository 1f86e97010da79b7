# SPDX-License-Identifier: Apache-2.0
"""What docs/format.md says of cairn's bytes suffices to read them: native_index.py reads files that
cairn wrote, and what it reads is what PyTorch reads in the pickle of the same file.

    native_index_test.py GOLDEN_DIR

Indexes that no golden has are put together here from the same description. Prints one line a check,
how much was read, and `N passed, N failed`; exits 77 if there is no PyTorch.
"""
import io
import pathlib
import pickle
import struct
import sys
import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from checks import check, end
from native_index import (BLOCK, Chunk, Commit, Damaged, Entry, Footer, FooterItem, Index, Layout,
                          Location, block_crcs, read_footer, read_index, read_root)


def refusal(read: Callable[[bytes], object], data: bytes) -> str | None:
    """What `read` has against `data`."""
    try:
        read(data)
    except Damaged as damage:
        return str(damage)
    return None


def check_same(name: str, mine: dict, theirs: dict) -> None:
    """Two dicts are equal and not empty; names a key at which they differ."""
    pairs = {key: (mine.get(key, "nothing"), theirs.get(key, "nothing")) for key in mine | theirs}
    wrong = [f"{key}: {a} instead of {b}" for key, (a, b) in pairs.items() if a != b]
    check(name, pairs and not wrong, wrong[0] if wrong else "both are empty")


# What PyTorch reads -------------------------------------------------------------------------------
def kinds(index: Index) -> dict[str, Any]:
    return {entry.key: None if entry.location else (
        f"torch.{entry.dtype}", entry.requires_grad, entry.shape,
        [(chunk.offsets, chunk.lengths) for chunk in entry.chunks]) for entry in index.entries}


def kinds_of_pickle(metadata: Any) -> dict[str, Any]:
    def kind(stored: Any) -> Any:
        if not hasattr(stored, "chunks"):
            return None
        boxes = [(tuple(chunk.offsets), tuple(chunk.sizes)) for chunk in stored.chunks]
        properties = stored.properties
        return str(properties.dtype), properties.requires_grad, tuple(stored.size), boxes

    return {key: kind(stored) for key, stored in metadata.state_dict_metadata.items()}


def places(index: Index) -> dict[Any, Any]:
    def place(at: Location) -> Any:
        return index.root.files[at.file].name, at.offset, at.length, at.transforms

    values = {(entry.key, None): place(entry.location) for entry in index.entries if entry.location}
    return values | {(entry.key, chunk.offsets): place(chunk.location)
                     for entry in index.entries for chunk in entry.chunks}


def places_of_pickle(metadata: Any) -> dict[Any, Any]:
    def place(info: Any) -> Any:
        transforms = getattr(info, "transform_descriptors", None)  # PyTorch 2.6 has none
        return (info.relative_path, info.offset, info.length,
                None if transforms is None else tuple(transforms))

    return {(at.fqn, None if at.offset is None else tuple(at.offset)): place(info)
            for at, info in metadata.storage_data.items()}


def check_against_pickle(index: Index, data: bytes) -> None:
    stream = io.BytesIO(data)
    metadata = pickle.load(stream)
    check("version2: the index and the commit record begin where the pickle ends",
          index.pickle_length == stream.tell(), f"{index.pickle_length}, not {stream.tell()}")
    check_same("version2: keys, dtypes, shapes and boxes are the pickle's", kinds(index),
               kinds_of_pickle(metadata))
    check_same("version2: places in files are the pickle's", places(index),
               places_of_pickle(metadata))
    at_the_top = {entry.key: (entry.key,) for entry in index.entries}
    check_same("version2: paths are the pickle's", at_the_top | index.paths, metadata.planner_data)


# What is in the data files ------------------------------------------------------------------------
def wrong_item(item: FooterItem, layout: Layout | None, data: bytes) -> str | None:
    """What an item of a footer says that its bytes, or the index, do not."""
    whole = data[item.offset : item.offset + item.length]
    payload = whole[item.payload_offset : item.payload_offset + item.payload_length]
    if item.block_crcs != block_crcs(payload):
        return "checksums of its blocks"
    if layout is None:
        return "no layout in the index"
    if (layout.offset, layout.length) != (item.payload_offset, item.payload_length):
        return "place of its payload"
    if layout.payload_crc != zlib.crc32(payload):
        return "checksum of its payload"
    return "checksum of the whole" if layout.item_crc != zlib.crc32(whole) else None


def check_data_file(index: Index, number: int, data: bytes) -> int:
    """How many items of a file have been read."""
    file, footer = index.root.files[number], read_footer(data)
    indexed = {(at.offset, at.length): at.layout
               for entry in index.entries for at in entry.locations() if at.file == number}
    check(f"{file.name}: its size and its save are the index's",
          (file.size, index.root.save_id) == (len(data), footer.save_id), footer.save_id)
    check_same(f"{file.name}: its footer has the items of the index",
               {(item.offset, item.length): None for item in footer.items},
               dict.fromkeys(indexed))
    found = [(item.offset, wrong) for item in footer.items
             if (wrong := wrong_item(item, indexed.get((item.offset, item.length)), data))]
    check(f"{file.name}: bytes, footer and index agree", not found, found)
    return len(footer.items)


# Goldens ------------------------------------------------------------------------------------------
def varied_chunk(i: int) -> Chunk:
    """Chunk `i` of what varied.metadata was made of; three are not like the others."""
    layout = Layout(512, 12, i * 2654435761 % 2**32, 2**32 - 1 - i, (1, 3) if i == 7 else (3, 1))
    return Chunk((i, 0), (1, 3), Location(i % 2, 4096 * i, 700, None if i == 11 else layout,
                                          ("stream.zstd/1",) if i == 9 else None))


def is_stub(data: bytes) -> bool:
    try:
        pickle.loads(data)
    except ModuleNotFoundError as error:
        return "cairn checkpoint with torch_metadata off" in str(error) and data.endswith(b".")
    return False


def check_varied(data: bytes) -> Index:
    index = read_index(data)
    check("varied: begins with a stub, which PyTorch refuses", is_stub(data[: index.pickle_length]))
    scalar = Chunk((), (), Location(0, 9, 10, Layout(1, 2, 3, 4, ()), None))
    found = {entry.key: entry for entry in index.entries}
    rows = found.pop("rows", Entry("rows"))
    check_same("varied: chunks", dict(enumerate(rows.chunks)),
               {i: varied_chunk(i) for i in range(8000)})
    check_same("varied: entries", found | {"rows": replace(rows, chunks=())}, {
        "nothing stored": Entry("nothing stored", None, True, "float32", (8000, 3)),
        "rows": Entry("rows", None, True, "float32", (8000, 3)),
        "scalar": Entry("scalar", None, True, "bfloat16", (), (scalar,)),
        "step": Entry("step", Location(1, 64, 20, None, None))})
    check_same("varied: paths", index.paths, {"rows": ("model", "rows"), "step": ("groups", 0)})
    check("varied: has more than one block", len(index.root.block_crcs) == 3)
    check("varied: files", [(file.name, file.size) for file in index.root.files]
          == [("__0_0.distcp", 1000000), ("__1_0.distcp", 5), ("empty", 0)], index.root.files)
    return index


def check_changes(name: str, data: bytes, where: Iterable[int],
                  read: Callable[[bytes], object], refused: str) -> None:
    """A changed byte anywhere in `where` is noticed, by what says `refused`."""
    def noticed(at: int) -> bool:
        changed = data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]
        said = refusal(read, changed)
        return said is not None and refused in said

    unnoticed = [at for at in where if not noticed(at)]
    check(f"{name}: a changed byte is noticed", not unnoticed, f"not at {unnoticed[:5]}")


def check_changed_index(name: str, data: bytes, step: int) -> None:
    """Every byte of the root, and every `step`-th of the rest."""
    root = read_root(data)
    content = len(data) - root.length
    heading, last = content + root.content_length, len(data) - 16
    check_changes(f"{name}, pickle", data, range(0, content, step), read_index, "before the index")
    check_changes(f"{name}, content", data, range(content, heading, step), read_index,
                  "the content: the checksum")
    check_changes(f"{name}, root", data, range(heading, last), read_root, "the root of the index")
    check_changes(f"{name}, length and magic", data, range(last, len(data)), read_root, "")


def check_changed_footer(file: pathlib.Path) -> None:
    data = file.read_bytes()
    footer, last = len(data) - read_footer(data).length, len(data) - 16
    check_changes(f"{file.name}, footer", data, range(footer, last), read_footer,
                  "the footer: the checksum")
    check_changes(f"{file.name}, length and magic", data, range(last, len(data)), read_footer, "")


# What no golden has -------------------------------------------------------------------------------
def varint(n: int) -> bytes:
    return bytes([n]) if n < 128 else bytes([n % 128 + 128]) + varint(n // 128)


def signed(n: int) -> bytes:
    return varint(2 * n if n >= 0 else -2 * n - 1)


def string(text: str) -> bytes:
    return varint(len(text.encode())) + text.encode()


def with_crc(data: bytes) -> bytes:
    return data + struct.pack("<I", zlib.crc32(data))


def with_length(data: bytes, magic: bytes) -> bytes:
    return data + struct.pack("<Q", len(data) + 16) + magic


def with_index(before: bytes, content: bytes, heading: bytes) -> bytes:
    """A `.metadata` whose checksums and lengths are right, whatever its parts are."""
    blocks = block_crcs(content)
    root = heading + struct.pack(f"<{len(blocks)}IQQI", *blocks, len(content), len(heading),
                                 zlib.crc32(before))
    return before + with_length(content + with_crc(root), b"cairnix2")


def parts(data: bytes) -> tuple[bytes, bytes, bytes]:
    """What stands before the index, its content, and its heading."""
    root = read_root(data)
    content = len(data) - root.length
    heading = content + root.content_length
    return data[:content], data[content:heading], data[heading : -40 - 4 * len(root.block_crcs)]


def check_refused(name: str, read: Callable[[bytes], object],
                  cases: list[tuple[str, bytes]]) -> None:
    """Each of `cases` is refused, for the reason that stands with it."""
    for what, data in cases:
        said = refusal(read, data) or "nothing was said"
        check(f"{name}, refused: {what}", what in said, said)


def check_commit(data: bytes) -> None:
    """A commit record between the pickle and the index of `data`, which has none."""
    index, (before, content, heading) = read_index(data), parts(data)
    check("version2, put together again, has the same bytes",
          with_index(before, content, heading) == data)
    check("version2: has no commit record", index.commit is None)
    commit = Commit(300, 1785000000000, -7, "a save", {"loss": 0.5, "é": -1e300})
    fields = (b"\1" + varint(300) + signed(1785000000000) + signed(-7) + string("a save")
              + b"\2" + string("loss") + struct.pack("<d", 0.5)
              + string("é") + struct.pack("<d", -1e300))

    def read(record: bytes) -> Index:
        return read_index(with_index(before + with_length(record, b"cairncmt"), content, heading))

    committed = read(with_crc(fields))
    check("commit record: read", committed.commit == commit, committed.commit)
    check("commit record: the rest is as it was", (committed.entries, committed.pickle_length)
          == (index.entries, index.pickle_length))
    check_changes("commit record", with_crc(fields), range(len(fields) + 4), read,
                  "the commit record: the checksum")
    check_refused("commit record", read, [
        ("the commit record: version 2", with_crc(b"\2" + fields[1:])),
        ("the commit record: 1 bytes are left over", with_crc(fields + b"\0")),
        ("8 bytes are wanted where 7 are left", with_crc(fields[:-1])),
        ("the commit record: too short", b"")])


def value(key: str, file: int = 0, flags: bytes = b"\0") -> bytes:
    """A value of 10 bytes at the beginning of a file."""
    return string(key) + bytes([0, file, 0, 10]) + flags


def tensor(offset: int, length: int, flags: int = 1, payload: int = 8, width: int = 0,
           padding: bytes = bytes(4), size: int = 8) -> bytes:
    """The content of an index with one tensor of one dimension and one chunk."""
    bases = [offset, length, 0, 0, 10, 1, payload, flags]
    columns = b"".join(bytes([width]) + varint(base) for base in bases)
    start = b"\1" + string("t") + b"\1\x0c\1" + signed(size) + b"\1"
    return start + columns + bytes(8) + padding + b"\0"


def whole_chunk(offsets: list[int], lengths: list[int]) -> bytes:
    """The same with the chunk after the rows."""
    box = b"".join(varint(len(some)) + b"".join(map(signed, some)) for some in (offsets, lengths))
    return tensor(0, 0, flags=2)[:-1] + box + b"\0\x0a\0" + b"\0"


def check_contents() -> None:
    """Contents that the goldens do not have, and those that the checksums do not refuse."""
    heading = string("a save") + b"\1" + string("file") + b"\0"

    def read(content: bytes) -> Index:
        return read_index(with_index(b"pickle.", content, heading))

    box = (Chunk((2,), (6,), Location(0, 0, 10, None, None)),)
    check("content: a chunk without checksums", read(tensor(2, 6, 0)).entries[0].chunks == box)
    check("content: a chunk after the rows", read(whole_chunk([2], [6])).entries[0].chunks == box)
    empty = read(b"\1" + string("t") + b"\1\x0c\2" + signed(3) + signed(0) + b"\1"
                 + b"".join(bytes([0, base]) for base in (0, 0, 3, 0, 0, 0, 10, 1, 0, 1))
                 + bytes(12) + b"\0").entries[0].chunks[0].location.layout
    check("content: strides of what is empty", empty == Layout(1, 0, 0, 0, (1, 1)), empty)
    check("content: a size that is not known", read(b"\0\0").root.files[0].size is None)
    both = read(b"\2" + value("b") + value("a") + b"\0").entries
    check("content: keys in any order", [e.key for e in both] == ["b", "a"], both)
    some = read(tensor(3, 0)).entries[0].chunks[0]
    check("content: a box without elements", some.lengths == (0,), some)
    path = b"\0\1" + string("k") + b"\2\0" + string("a") + b"\1" + signed(-200)
    check("content: a path", read(path).paths == {"k": ("a", -200)}, read(path).paths)
    key = b"\1" + string("k")
    check_refused("content", read, [
        ("a key has two entries", b"\2" + value("a") + value("a") + b"\0"),
        ("a: there is no file 1", b"\1" + value("a", 1) + b"\0"),
        ("a: a payload is not within its item",
         b"\1" + value("a", 0, b"\1\3\x08" + bytes(9)) + b"\0"),
        ("a location has flags 4", b"\1" + value("a", 0, b"\4") + b"\0"),
        ("k: kind 3", key + b"\3"),
        ("k: dtype 22", key + b"\1\x16\0\0\0"),
        ("k: 65 dimensions", key + b"\1\0\x41" + bytes(66) + b"\0"),
        ("t: a payload is not within its item", tensor(0, 8, payload=10)),
        ("the chunk at (1,) is not within its tensor", tensor(1, 8)),
        ("the chunk at (-1,) is not within its tensor", whole_chunk([-1], [4])),
        ("the chunk at (4,) is not within its tensor", whole_chunk([4], [-1])),
        ("t: a shape of", tensor(0, 8, size=2**58 + 1)),
        ("k: a shape of", key + b"\1\0\1" + signed(-5) + b"\0"),
        ("k: a path of 257 steps", b"\0" + key + b"\x81\2" + 257 * (b"\1" + signed(0))),
        ("the chunk at (0, 0): dimensions", whole_chunk([0, 0], [4, 4])),
        ("a chunk has flags 4", tensor(0, 8, 4)),
        ("a column has more than 8 bytes", tensor(0, 8, width=9)),
        ("a row is not padded with zeros", tensor(0, 8, padding=b"\0\0\0\1")),
        ("the content: 5 bytes are left over", b"\0\0" + bytes(5)),
        ("a key has two paths", b"\0\2" + 2 * (string("k") + b"\0")),
        ("a path has a step of kind 2", b"\0" + key + b"\1\2"),
        ("a varint has more than 64 bits", b"\xff" * 9 + b"\2"),
        ("a varint has more than 64 bits", b"\x80" * 10 + b"\0"),
        ("a string is not UTF-8", b"\1\1\xff\0"),
        ("bytes are wanted where 0 are left", b"\1" + b"\xff" * 8 + b"\x7f")])


def check_roots() -> None:
    def read(heading: bytes) -> object:
        return read_root(with_index(b"pickle.", b"\0\0", heading))

    good = with_index(b"pickle.", b"\0\0", b"\0\0")
    check("root: read without the content", read_root(b"1234567??" + good[9:]) == read_root(good))
    check_refused("root", read, [
        ("a file occurs twice", b"\0\2" + 2 * (string("a") + b"\0")),
        ("a: its size is neither known nor unknown", b"\0\1" + string("a") + b"\2"),
        ("the heading: 1 bytes are left over", b"\0\0\0")])
    check_refused("root", read_root, [
        ("its lengths disagree", good[:-40] + struct.pack("<Q", 3) + good[-32:]),
        ("its lengths disagree", good[:-32] + struct.pack("<Q", 1) + good[-24:]),
        ("a length of 48 cannot be", good[-47:]),
        ("the root of the index: too short", with_length(b"", b"cairnix2")),
        ("there is no native index of version 2", good[:-8] + b"cairnidx")])


def check_footers() -> None:
    payload = bytes(range(256)) * 300
    item = varint(len(payload) + 5) + varint(5) + varint(len(payload))
    crcs = b"\2" + struct.pack("<2I", zlib.crc32(payload[:BLOCK]), zlib.crc32(payload[BLOCK:]))

    def read(items: bytes) -> Footer:
        footer = with_crc(b"\1" + string("a save") + items)
        return read_footer(b"12345" + payload + with_length(footer, b"cairnftr"))

    blocks = read(b"\1\0" + item + crcs).items[0].block_crcs
    check("footer: a payload of two blocks", blocks == block_crcs(payload))
    check("footer: of an interrupted file", read(b"\0") == Footer("a save", [], 29))
    misplaced = "items are out of order, share bytes or are not within the file"
    check_refused("footer", read, [
        ("the item at 0: it has no bytes", b"\1" + bytes(5)),
        ("the footer: too long", b"\0" + bytes(80_000)),
        ("the item at 0: not one checksum for each block", b"\1\0" + item + b"\0"),
        ("the item at 0: its payload is not within it", b"\1\0\2\1\2\1" + bytes(4)),
        (misplaced, b"\2" + b"\2\2\0\0\0" + b"\1\1\0\0\0"),
        (misplaced, b"\2" + b"\1\2\0\0\0" + b"\2\2\0\0\0"),
        (misplaced, b"\1\1" + item + crcs),
        ("the footer: 1 bytes are left over", b"\0\0")])
    check_refused("footer", read_footer, [
        ("the footer: version 2", with_length(with_crc(b"\2\0\0"), b"cairnftr")),
        ("the footer: too short", with_length(b"", b"cairnftr")), ("there is no footer", b"")])


def check_goldens(golden: pathlib.Path) -> str:
    """How much has been read."""
    data, varied = ((golden / f"{name}.metadata").read_bytes() for name in ("", "varied"))
    indexes = [read_index(data), check_varied(varied)]
    check_against_pickle(indexes[0], data)
    # Only of .metadata: the files that varied.metadata names are made up too.
    items = sum(check_data_file(indexes[0], number, (golden / file.name).read_bytes())
                for number, file in enumerate(indexes[0].root.files))
    check("version2: items have been read", items > 0)
    check_changed_index("version2", data, 1)
    check_changed_index("varied", varied, 997)
    for file in sorted(golden.glob("*.distcp")):
        check_changed_footer(file)
    check_commit(data)
    entries = [entry for index in indexes for entry in index.entries]
    chunks = sum(len(entry.chunks) for entry in entries)
    return f"{len(entries)} entries, {chunks} chunks, {items} items read"


def main() -> int:
    try:
        import torch.distributed.checkpoint  # noqa: F401 (the pickles name it)
    except ImportError:
        print("skipped: no PyTorch")
        return 77
    try:
        check_contents()
        check_roots()
        check_footers()
        print(check_goldens(pathlib.Path(sys.argv[1])))
    except (Damaged, OSError) as error:
        check("what cairn wrote is read", False, error)
    return int(end())


if __name__ == "__main__":
    sys.exit(main())
