"""Maker notes of each brand, laid out as public tag tables describe them; ExifTool reads the same where it is there."""

import contextlib
import datetime
import io
import json
import shutil
import struct
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts import load_script

from allfocus.errors import AllfocusError
from allfocus.images import maker_notes
from allfocus.images.exif import build_block
from allfocus.images.maker_notes import FOCUS, OTHER, Bracketing
from allfocus.images.nikon_shot_info import mix_with_stream, read_focus_shift_shot
from allfocus.images.photo_facts import facts_of, read_photo_facts
from allfocus.images.tiff_directories import Directory, lay_out
from allfocus.images.tiff_layout import EXIF_DIRECTORY, FileSlices

shoot = load_script("benchmarks/rendered_shoot.py")
Note, MAKERS, COUNTED = shoot.Note, shoot.MAKERS, shoot.COUNTED

NOON = datetime.datetime(2026, 5, 1, 12, 0, 0, 250000)
every_maker = pytest.mark.parametrize("maker", MAKERS)


def told(maker, note) -> Bracketing:
    return facts_of(shoot.make_exif(maker, NOON, note)).bracketing


@every_maker
def test_what_a_note_tells_of_a_focus_bracketing(maker):
    found = told(maker, Note("focus", 7, 120))
    assert found.kind == (FOCUS if maker in COUNTED else "")
    assert found.shot == 7
    positions = {"NIKON CORPORATION": 1.2, "Canon": 120.5, "FUJIFILM": None, "SONY": None}
    assert found.position == positions.get(maker, 120)
    assert not found.composite


@every_maker
def test_what_a_note_tells_of_an_exposure_bracketing_and_of_single_shots(maker):
    assert told(maker, Note("exposure", 2)).kind == ("" if maker == "FUJIFILM" else OTHER)
    assert told(maker, Note("none")).kind == ""


@pytest.mark.parametrize("maker", ["OLYMPUS CORPORATION", "OM Digital Solutions"])
def test_a_composite_of_the_camera_is_known(maker):
    assert told(maker, Note("none", composite=True)).composite


def test_a_panasonic_lens_that_comes_nearer_has_a_negative_position():
    assert told("Panasonic", Note("focus", 1, -3)).position == -3


@every_maker
def test_time_exposure_and_camera_are_read(maker):
    facts = facts_of(shoot.make_exif(maker, NOON, Note(), seconds=(1, 128), focal_length=60, software="x", serial="42"))
    assert facts.time == NOON
    assert facts.camera == f"{maker} {MAKERS[maker][0]} 42"
    assert (facts.focal_length, facts.software) == (60, "x")
    assert facts.exposure == pytest.approx(7 + 2 * np.log2(2.8) - 1)


@every_maker
def test_exiftool_reads_the_same_notes(maker, tmp_path):
    if (exiftool := shutil.which("exiftool")) is None:
        pytest.skip("exiftool is not installed (Debian: apt-get install libimage-exiftool-perl)")
    shoot.write_jpeg(
        tmp_path / "a.jpg", np.zeros((16, 16, 3), np.float32), shoot.make_exif(maker, NOON, Note("focus", 7))
    )
    out = subprocess.run([exiftool, "-j", "-n", tmp_path / "a.jpg"], capture_output=True, check=True).stdout
    tags = json.loads(out)[0]
    olympus = {"DriveMode": "5 7 64 0 4", "FocusBracketStepSize": 5, "FocusStepCount": 100, "StackedImage": "0 0"}
    expected = {
        "OLYMPUS CORPORATION": olympus,
        "OM Digital Solutions": olympus,
        "Canon": {"BracketShotNumber": 7, "BracketMode": 0, "FocusDistanceUpper": 1.01, "FocusDistanceLower": 1},
        "Panasonic": {"BurstMode": 3, "SequenceNumber": 7, "FocusBracket": 100},
        "NIKON CORPORATION": {"ManualFocusDistance": 1, "ShootingMode": 0, "FocusShiftShooting": 7},
        "FUJIFILM": {"AutoBracketing": 1, "SequenceNumber": 7},
        "SONY": {"ReleaseMode": 2, "SequenceImageNumber": 7},
    }[maker]
    assert {name: tags.get(name) for name in expected} == expected


@pytest.mark.parametrize("model", [b"0805", b"0806"])
def test_the_shot_of_a_nikon_focus_shift_is_read_whatever_the_key(model):
    plain = bytearray(100)
    plain[:9], plain[0x24], plain[0x30], plain[64 + 0x20] = model + b"01.30", 30, 64, 9
    for first in range(256):
        for step in range(1, 256, 32):
            assert read_focus_shift_shot(mix_with_stream(bytes(plain), 0, first, step), 0, len(plain)) == 9


@pytest.mark.parametrize(
    ("place", "value"), [(0, b"0803"), (4, b"ABCDE"), (0x26, b"\x01"), (0x30, bytes(4)), (0x30, b"\x50")]
)
def test_nikon_blocks_that_do_not_fit_tell_nothing(place, value):
    plain = bytearray(100)
    plain[:9], plain[0x24], plain[0x30], plain[64 + 0x20] = b"080501.30", 30, 64, 9
    plain[place : place + len(value)] = value
    assert read_focus_shift_shot(mix_with_stream(bytes(plain), 0, 17, 61), 0, len(plain)) is None


def test_a_nikon_counter_that_the_camera_left_as_it_was_is_not_believed():
    block = shoot.make_exif("NIKON CORPORATION", NOON, Note("focus", 7))
    usual, high_speed = (struct.pack("<HHIHH", 0x0034, 3, 1, mode, 0) for mode in (16, 96))
    assert block.count(usual) == 1
    assert facts_of(block.replace(usual, high_speed)).bracketing.kind == ""


def test_a_note_is_read_where_it_lies_in_a_file_built_like_tiff(tmp_path):
    """RAW files are: a note that counts from the beginning of the file must not be moved before it is read."""
    (tmp_path / "a.dng").write_bytes(shoot.make_exif("Canon", NOON, Note("focus", 3, 50)) + bytes(5000))
    assert read_photo_facts(tmp_path / "a.dng").bracketing == Bracketing(FOCUS, 3, 50.5)


def test_panasonic_and_olympus_raw_have_other_first_bytes(tmp_path):
    block = shoot.make_exif("Panasonic", NOON, Note("focus", 3, 50))
    (tmp_path / "a.rw2").write_bytes(b"IIU\x00" + block[4:])
    assert read_photo_facts(tmp_path / "a.rw2").bracketing == Bracketing(FOCUS, 3, 50)
    block = shoot.make_exif("OLYMPUS CORPORATION", NOON, Note("focus", 3, 50))
    (tmp_path / "a.orf").write_bytes(b"IIRO" + block[4:])
    assert read_photo_facts(tmp_path / "a.orf").bracketing == Bracketing(FOCUS, 3, 50)


def test_fujifilm_raw_has_its_exif_in_its_preview(tmp_path):
    preview = tmp_path / "a.jpg"
    shoot.write_jpeg(preview, np.zeros((16, 16, 3), np.float32), shoot.make_exif("FUJIFILM", NOON, Note("focus", 3)))
    data = preview.read_bytes()
    head = b"FUJIFILMCCD-RAW 0201".ljust(84, b"\x00") + struct.pack(">II", 128, len(data))
    (tmp_path / "a.raf").write_bytes(head.ljust(128, b"\x00") + data)
    facts = read_photo_facts(tmp_path / "a.raf")
    assert (facts.time, facts.bracketing.shot) == (NOON, 3)


def test_canon_raw_of_today_keeps_its_exif_in_boxes(tmp_path):
    def box(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", 8 + len(body)) + kind + body

    camera = build_block(Directory([shoot.text(0x010F, "Canon"), shoot.text(0x0110, "Canon EOS R5")]))
    shot = build_block(Directory([shoot.text(0x9003, "2026:05:01 12:00:00"), shoot.text(0x9291, "25")]))
    note = b"II*\x00" + struct.pack("<I", 8) + shoot.canon_note(Note("focus", 3, 50), 8)
    parts = box(b"CMT1", camera) + box(b"CMT2", shot) + box(b"CMT3", note)
    own = box(b"uuid", bytes.fromhex("85c0b687820f11e08111f4ce462b6a48") + parts)
    (tmp_path / "a.cr3").write_bytes(
        box(b"ftyp", b"crx \x00\x00\x00\x01") + box(b"moov", own) + box(b"mdat", bytes(64))
    )
    facts = read_photo_facts(tmp_path / "a.cr3")
    assert (facts.time, facts.camera) == (NOON, "Canon Canon EOS R5")
    assert facts.bracketing == Bracketing(FOCUS, 3, 50.5)


@given(maker=st.sampled_from(sorted(MAKERS)), seed=st.integers(0, 10**6), changes=st.integers(1, 40))
def test_damaged_notes_tell_something_or_nothing_and_never_fail_otherwise(maker, seed, changes):
    chance = np.random.default_rng(seed)
    block = bytearray(shoot.make_exif(maker, NOON, Note("focus", 7)))
    for place in chance.integers(8, len(block), changes):
        block[place] = chance.integers(0, 256)
    with contextlib.suppress(AllfocusError):  # a block that claims more than it holds is refused
        facts_of(bytes(block[: chance.integers(8, len(block) + 1)]))


@pytest.mark.parametrize("maker", ["Canon", "SONY"])
def test_a_hostile_note_is_read_within_its_budget(maker, monkeypatch):
    """65,535 entries of a megabyte each, all of them the one that is wanted: only a little is ever read."""
    wanted = {"Canon": 0x4053, "SONY": 0x9400}[maker]
    entries = b"".join(struct.pack("<HHII", wanted, 7, 2**20, 0) for _ in range(65535))
    note = struct.pack("<H", 65535) + entries
    block = build_block(
        Directory([shoot.text(0x010F, maker)], {EXIF_DIRECTORY: Directory([(0x927C, 7, len(note), note)])})
    )
    read = []
    original = FileSlices.__getitem__

    class Watched(FileSlices):
        def __getitem__(self, part):
            data = original(self, part)
            read.append(len(data))
            return data

    start = block.index(note)
    found = maker_notes.read_bracketing(Watched(io.BytesIO(block)), start, maker_notes.Layout("<"), maker=maker)
    assert found == Bracketing()
    assert sum(read) < 100_000


def test_notes_that_point_at_themselves_come_to_an_end():
    loop = Directory([shoot.long(0x2020, 12), shoot.long(0x2050, 12)])
    note = b"OLYMPUS\x00II\x03\x00" + lay_out(loop, 12, maker_notes.Layout("<"))
    block = build_block(
        Directory([shoot.text(0x010F, "OLYMPUS")], {EXIF_DIRECTORY: Directory([(0x927C, 7, len(note), note)])})
    )
    assert facts_of(block).bracketing == Bracketing()
