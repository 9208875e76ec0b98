"""Photos: what is usable is used, what is not is named, and crops come from inside."""

import csv
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from allfocus.errors import InputError
from allfocus.training.photos import LARGEST_SIDE, load_photos


@pytest.fixture
def folder(photo_folder, tmp_path):
    """A copy of the photos that a test may change."""
    return shutil.copytree(photo_folder, tmp_path / "photos")


def test_all_photos_are_read_pixel_by_pixel(photo_folder, bank):
    assert bank.names == [f"photo_{number:02d}.png" for number in range(5)]
    for index, name in enumerate(bank.names):
        expected = np.asarray(Image.open(photo_folder / name))
        start = int(bank.offsets[index])
        found = bank.pixels[start : start + 208 * 240].reshape(208, 240, 3).numpy()
        assert np.array_equal(found, expected)
    assert bank.smallest_side == 208


def test_broken_files_are_skipped_and_named(folder):
    (folder / "text.jpg").write_text("not a picture")
    whole = (folder / "photo_00.png").read_bytes()
    (folder / "half.png").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.webp").touch()
    (folder / "folder.tif").mkdir()
    Image.new("RGB", (90, 300)).save(folder / "narrow.png")
    bank = load_photos(folder, smallest_side=100)
    assert len(bank.names) == 5
    named = {reason.split(":")[0] for reason in bank.skipped}
    assert named == {"text.jpg", "half.png", "empty.webp", "folder.tif", "narrow.png"}
    assert "narrow.png: 90x300 is smaller than 100 pixels" in bank.skipped


@pytest.mark.filterwarnings("ignore")  # Pillow's own about damaged files, which need not be errors
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "bmp"])
def test_no_damage_to_a_file_ends_the_run(folder, suffix, seed):
    """Flipped and lost bytes give a skipped file or a wrong picture, never an exception."""
    random = np.random.default_rng(seed)
    path = folder / f"damaged.{suffix}"
    Image.open(folder / "photo_00.png").save(path)
    data = bytearray(path.read_bytes())
    for place in random.integers(len(data) if seed % 2 else 200, size=8):
        data[place] = int(random.integers(256))
    path.write_bytes(data[: random.integers(20, len(data))] if seed % 3 == 0 else data)
    bank = load_photos(folder, smallest_side=100)
    assert len(bank.names) + len(bank.skipped) == 6


def test_pictures_beyond_the_limit_of_pillow_are_skipped(folder, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 20_000)
    Image.new("RGB", (120, 120)).save(folder / "small.png")
    Image.new("RGB", (300, 300)).save(folder / "bomb.png")
    for path in folder.glob("photo_*"):
        path.unlink()
    bank = load_photos(folder, smallest_side=100)
    assert bank.names == ["small.png"]
    assert bank.skipped[0].startswith("bomb.png: ")


def test_sixteen_bit_grey_is_skipped_and_not_turned_white(folder):
    Image.fromarray(np.full((200, 200), 30_000, np.uint16)).save(folder / "deep.png")
    bank = load_photos(folder, smallest_side=100)
    assert "deep.png" not in bank.names
    assert bank.skipped == ["deep.png: pixels of type I;16 are not 8 bits; save it as an 8-bit picture"]


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK"])
def test_other_kinds_of_pictures_become_rgb(tmp_path, mode):
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    Image.new("RGB", (120, 120), (204, 204, 204)).convert(mode).save(path)
    bank = load_photos(tmp_path, smallest_side=100)
    assert bank.pixels.shape == (120 * 120, 3)
    assert int((bank.pixels.float() - 204).abs().max()) <= 2


def test_large_photos_are_reduced(tmp_path):
    Image.new("RGB", (LARGEST_SIDE * 2, 600)).save(tmp_path / "a.png")
    bank = load_photos(tmp_path, smallest_side=100)
    assert (int(bank.heights[0]), int(bank.widths[0])) == (300, LARGEST_SIDE)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere: no such folder"):
        load_photos(tmp_path / "nowhere", smallest_side=100)


def test_a_folder_without_photos_says_what_a_photo_is(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=r"no usable photo \(no file ends in \.jpg"):
        load_photos(tmp_path, smallest_side=100)


def test_a_folder_of_unusable_photos_gives_the_reasons(photo_folder):
    with pytest.raises(InputError, match=r"no usable photo among 5 \(photo_00.png: 240x208 is smaller than 209 pixels"):
        load_photos(photo_folder, smallest_side=209)


def write_sources(folder, rows: dict[str, str], columns=("file", "licence_class")) -> None:
    with (folder / "SOURCES.csv").open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows.items()])


def test_only_the_wanted_licences_are_used(folder):
    write_sources(folder, {"photo_00.png": "free", "photo_01.png": "research", "photo_03.png": "share-alike"})
    bank = load_photos(folder, smallest_side=100, licence_classes=["free", "share-alike"])
    assert bank.names == ["photo_00.png", "photo_03.png"]


def test_without_a_table_of_licences_the_filter_is_refused(photo_folder):
    with pytest.raises(InputError, match=r"no SOURCES\.csv"):
        load_photos(photo_folder, smallest_side=100, licence_classes=["free"])


def test_a_table_without_the_columns_is_refused(folder):
    write_sources(folder, {"photo_00.png": "free"}, columns=("name", "licence"))
    with pytest.raises(InputError, match="needs the columns file and licence_class, found name, licence"):
        load_photos(folder, smallest_side=100, licence_classes=["free"])


def test_a_filter_that_leaves_nothing_says_so(folder):
    write_sources(folder, {"photo_00.png": "research"})
    with pytest.raises(InputError, match="none of the 5 photos a licence class free"):
        load_photos(folder, smallest_side=100, licence_classes=["free"])


def test_held_out_photos_and_training_photos_are_disjoint_and_complete(photo_folder):
    for every in (2, 3, 5):
        inside, outside = (
            load_photos(photo_folder, smallest_side=100, part=(every, every - 1, side)) for side in (True, False)
        )
        assert len(inside.names) == 5 // every
        assert not set(inside.names) & set(outside.names)
        assert sorted(inside.names + outside.names) == [f"photo_{number:02d}.png" for number in range(5)]


def test_too_few_photos_to_hold_one_out_says_what_to_set(photo_folder):
    with pytest.raises(InputError, match=r"5 photos are too few to hold out every 18th.*held_out_every.*2 to 5"):
        load_photos(photo_folder, smallest_side=100, part=(18, 17, True))


def test_crops_are_pieces_of_photos_in_all_eight_positions(bank):
    crops = bank.crop(16, (6, 6), torch.Generator().manual_seed(0))
    assert crops.shape == (16, 3, 6, 6)
    assert crops.dtype == torch.float32
    photos = [bank.pixels[int(start) :][: 208 * 240].reshape(208, 240, 3).numpy() for start in bank.offsets]
    windows = [np.lib.stride_tricks.sliding_window_view(photo, (6, 6), axis=(0, 1)) for photo in photos]
    for crop in (crops * 255).round().byte().numpy():
        turned = [np.rot90(each, turns, axes=(1, 2)) for each in (crop, crop[:, ::-1]) for turns in range(4)]
        assert any(
            bool((window == each).all(axis=(2, 3, 4)).any())
            for window in windows
            for each in turned
            # The cheap test first: its first pixel has to occur at all.
            if (window[..., 0, 0] == each[:, 0, 0]).all(axis=2).any()
        )


def test_a_crop_can_be_the_whole_photo(bank):
    crops = bank.crop(20, (208, 240), torch.Generator().manual_seed(0))
    assert {int(value) for value in (crops * 255).round().amin((2, 3)).amin(1).tolist()} >= {0}
    assert crops.shape == (20, 3, 208, 240)


def test_the_same_generator_draws_the_same_crops(bank):
    one, other = (bank.crop(4, (16, 16), torch.Generator().manual_seed(9)) for _ in range(2))
    assert torch.equal(one, other)
