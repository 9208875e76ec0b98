"""Checkpoints of TensorFlow: what is read is what was written, and no damaged or hostile file does anything else."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allfocus.errors import InputError
from allfocus.rivals import tensorflow_checkpoint as module
from allfocus.rivals.tensorflow_checkpoint import MAGIC, checksum, read_checkpoint, read_index

# A writer of the same format, after its description: what the reader is tested against besides the authors' files.


def varint(value):
    found = b""
    while value >= 0x80:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def block(pairs, *, compression=0):
    content, before = b"", b""
    for key, value in pairs:
        shared = next(
            (n for n, (a, b) in enumerate(zip(before, key, strict=False)) if a != b), min(len(before), len(key))
        )
        content += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    content += struct.pack("<II", 0, 1)
    return content + bytes([compression]), checksum(content + bytes([compression]))


def table(pairs, **options):
    content, handles = b"", []
    for entries in (pairs, []):
        body, crc = block(entries, **options)
        handles.append(varint(len(content)) + varint(len(body) - 1))
        content += body + struct.pack("<I", crc)
    body, crc = block([(b"~", handles[0])])
    place = varint(len(content)) + varint(len(body) - 1)
    content += body + struct.pack("<I", crc)
    return content + (handles[1] + place).ljust(40, b"\0") + struct.pack("<Q", MAGIC)


def entry(shape, offset, data, *, dtype=1, size=None, crc=None):
    dimensions = b"".join(b"\x12" + varint(len(part)) + part for part in (b"\x08" + varint(side) for side in shape))
    message = b"\x08" + varint(dtype) + b"\x12" + varint(len(dimensions)) + dimensions + b"\x20" + varint(offset)
    message += b"\x28" + varint(len(data) if size is None else size)
    return message + b"\x35" + struct.pack("<I", checksum(data) if crc is None else crc)


HEADER = (b"", b"\x08\x01\x1a\x02\x08\x01")


def write(folder, tensors, **changes):
    """A checkpoint; `changes` are made to the entry of the last tensor."""
    pairs, content = [HEADER], b""
    for name, tensor in sorted(tensors.items()):
        data = tensor.astype("<f4").tobytes()
        own = changes if name == max(tensors) else {}
        pairs.append((name.encode(), entry(tensor.shape, own.pop("offset", len(content)), data, **own)))
        content += data
    (folder / "net.index").write_bytes(table(pairs))
    (folder / "net.data-00000-of-00001").write_bytes(content)
    return folder / "net.index"


TENSORS = {
    "layer1/bias": np.arange(5, dtype=np.float32),
    "layer1/kernel": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "layer2/scalar": np.array(0.25, np.float32),
}


@pytest.mark.parametrize("name", ["net.index", "net.data-00000-of-00001", "net"])
def test_what_was_written_is_read_whichever_file_is_named(tmp_path, name):
    write(tmp_path, TENSORS)
    found = read_checkpoint(tmp_path / name)
    assert list(found) == list(TENSORS)
    for key, tensor in TENSORS.items():
        np.testing.assert_array_equal(found[key], tensor)
        assert found[key].dtype == np.float32


def test_a_prefix_chooses_tensors(tmp_path):
    assert list(read_checkpoint(write(tmp_path, TENSORS), prefix="layer2")) == ["layer2/scalar"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dtype": 3}, "not float32"),
        ({"offset": 10_000}, "outside of the file"),
        ({"offset": 1 << 62}, "outside of the file"),
        ({"size": 1 << 40}, "larger than any"),
        ({"size": 8}, "has the shape"),
        ({"crc": 7}, "checksum differs"),
    ],
)
def test_a_tensor_that_does_not_hold_is_refused_by_name(tmp_path, changes, words):
    with pytest.raises(InputError, match=f"'layer2/scalar'.*{words}") as caught:
        read_checkpoint(write(tmp_path, TENSORS, **changes))
    assert caught.value.code == "bad-weights"


def test_a_shape_that_multiplies_to_nothing_real_is_refused(tmp_path):
    """Sides whose product runs over must not pass for the few bytes that are there."""
    pairs = [HEADER, (b"x", entry((1 << 62, 1 << 62, 16), 0, b"\0" * 4))]
    (tmp_path / "net.index").write_bytes(table(pairs))
    (tmp_path / "net.data-00000-of-00001").write_bytes(b"\0" * 4)
    with pytest.raises(InputError, match="has the shape"):
        read_checkpoint(tmp_path / "net.index")


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([(b"", b"\x08\x02")], "2 files"),
        ([(b"", b"\x10\x01")], "big-endian"),
        ([HEADER], "names no tensors"),
        ([HEADER, (b"x", b"\x12\xff")], "cut short or damaged"),
        ([HEADER, (b"\xff\xfe", entry((1,), 0, b"\0" * 4))], "cut short or damaged"),
        ([HEADER, (b"x", b"\x0b")], "cut short or damaged"),
    ],
)
def test_a_table_of_another_kind_is_refused(pairs, words):
    with pytest.raises(InputError, match=words):
        read_index(table(pairs))


def test_a_compressed_table_is_refused():
    with pytest.raises(InputError, match="compressed"):
        read_index(table([HEADER], compression=1))


def test_too_much_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path, TENSORS)
    monkeypatch.setattr(module, "MOST_TENSORS", 2)
    with pytest.raises(InputError, match="more than 2 tensors"):
        read_checkpoint(path)
    monkeypatch.setattr(module, "MOST_INDEX_BYTES", 20)
    with pytest.raises(InputError, match="longer than 20 bytes"):
        read_checkpoint(path)


@pytest.mark.parametrize("name", ["net.index", "net.data-00000-of-00001"])
def test_a_missing_file_is_named(tmp_path, name):
    path = write(tmp_path, TENSORS)
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match=rf"{name}: there is no such file") as caught:
        read_checkpoint(path)
    assert caught.value.code == "no-such-file"


GOOD = table([HEADER, *((name.encode(), entry((1,), 0, b"\0" * 4)) for name in ("a/b", "a/bias", "c"))])


@settings(max_examples=300)
@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_one_wrong_byte_is_noticed_or_does_not_matter(place, change):
    damaged = bytearray(GOOD)
    damaged[place] ^= change
    try:
        found = read_index(bytes(damaged))
    except InputError:
        return
    # Only the filling of the last bytes, and the table about the table, are not looked at.
    assert found == read_index(GOOD)


@settings(max_examples=200)
@given(st.integers(0, len(GOOD) - 1))
def test_a_table_cut_short_is_refused(length):
    with pytest.raises(InputError):
        read_index(GOOD[:length])


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_blocks_of_any_bytes_with_true_checksums_raise_our_error_only(body):
    """A stranger can compute checksums too."""
    body += b"\0"
    content = body + struct.pack("<I", checksum(body))
    content += (b"\0\0" + varint(0) + varint(len(body) - 1)).ljust(40, b"\0") + struct.pack("<Q", MAGIC)
    with pytest.raises(InputError):
        read_index(content)


def test_the_authors_checkpoints_are_read_whole(rival_files):
    """The sizes that the authors' files have: 0.659 M numbers of U2Fusion, 26 tensors of the generator of MFF-GAN."""
    found = read_checkpoint(rival_files / "u2fusion.index")
    assert sum(tensor.size for tensor in found.values()) == 659_217
    assert all(0 < np.abs(tensor).mean() < 1 for tensor in found.values())
    for name in ("mff_gan_lytro.index", "mff_gan_mfi-whu.index"):
        assert len(read_checkpoint(rival_files / name, prefix="fusion_model/")) == 26
