"""Which pictures make a stack."""

import datetime

import numpy as np
import pytest
from PIL import Image

from allfocus.batch.stacks import find_stacks
from allfocus.errors import InputError
from allfocus.images.image import Image as OurImage
from allfocus.images.photo_facts import read_photo_facts
from allfocus.images.writing import write_image


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def found(folder, **options):
    return {stack.name: [path.name for path in stack.frames] for stack in find_stacks(folder, **options)}


def photograph(path, seconds, fraction=""):
    exif = Image.Exif()
    time = datetime.datetime(2026, 5, 1, 12, 0, 0) + datetime.timedelta(seconds=seconds)
    exif.get_ifd(0x8769)[0x9003] = time.strftime("%Y:%m:%d %H:%M:%S")
    if fraction:
        exif.get_ifd(0x8769)[0x9291] = fraction
    path.parent.mkdir(parents=True, exist_ok=True)
    write_image(OurImage(np.zeros((8, 8, 3), np.float32), exif=exif.tobytes().removeprefix(b"Exif\x00\x00")), path)


def test_each_folder_with_pictures_is_a_stack_in_natural_order(tmp_path):
    touch(tmp_path, "b/f10.png", "b/f9.png", "b/notes.txt", "a/deep/1.tif", "a/deep/2.tif", "empty/readme.md")
    assert found(tmp_path) == {"a/deep": ["1.tif", "2.tif"], "b": ["f9.png", "f10.png"]}


def test_pictures_in_the_folder_itself_are_a_stack_with_its_name(tmp_path):
    touch(tmp_path / "beetle", "1.png", "2.png")
    assert list(found(tmp_path / "beetle")) == ["beetle"]


def test_results_that_lie_beside_their_frames_are_left_out_with_a_word(tmp_path):
    touch(tmp_path, "a/1.tif", "a/2.tif", "a/allfocus_1.tif", "a/allfocus_other.tif", "allfocus_a.png")
    left_out = {}
    stacks = found(tmp_path, on_left_out=lambda path, why: left_out.update({path.name: why}))
    assert stacks == {"a": ["1.tif", "2.tif", "allfocus_other.tif"]}
    assert left_out == {"allfocus_1.tif": "is the fused picture of 1", "allfocus_a.png": "is the fused picture of a"}


def test_hidden_folders_zarr_folders_and_the_output_are_passed_over(tmp_path):
    touch(tmp_path, ".cache/1.png", "plane.zarr/0.png", "out/a.png", "a/1.png", "a/.2.png")
    assert found(tmp_path, skip=tmp_path / "out") == {"a": ["1.png"]}


def test_the_output_is_passed_over_however_the_way_to_it_is_written(tmp_path):
    touch(tmp_path, "real/out/a.png", "real/a/1.png")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert list(found(tmp_path / "link", skip=tmp_path / "real/out")) == ["a"]


def test_each_file_can_be_a_stack(tmp_path):
    touch(tmp_path, "x/slide1.tif", "x/slide2.tif")
    assert found(tmp_path, by="file") == {"x/slide1": ["slide1.tif"], "x/slide2": ["slide2.tif"]}


def test_files_of_one_name_and_two_endings_keep_apart(tmp_path):
    touch(tmp_path, "a.tif", "a.jpg")
    assert found(tmp_path, by="file") == {"a_jpg": ["a.jpg"], "a_tif": ["a.tif"]}


def test_numbers_with_a_gap_or_another_word_begin_a_new_stack(tmp_path):
    touch(tmp_path, "DSC_0099.jpg", "DSC_0100.jpg", "DSC_0102.jpg", "IMG_0103.jpg", "IMG_0104.jpg")
    assert found(tmp_path, by="number") == {
        "DSC_0099": ["DSC_0099.jpg", "DSC_0100.jpg"],
        "DSC_0102": ["DSC_0102.jpg"],
        "IMG_0103": ["IMG_0103.jpg", "IMG_0104.jpg"],
    }


@pytest.mark.parametrize("by", ["number", "folder"])
def test_of_raw_and_jpeg_of_the_same_shots_one_kind_is_taken(tmp_path, by):
    touch(tmp_path, "D1.jpg", "D1.nef", "D2.jpg", "D2.nef")
    assert list(found(tmp_path, by=by).values()) == [["D1.nef", "D2.nef"]]
    assert list(found(tmp_path, by=by, pairs="jpeg").values()) == [["D1.jpg", "D2.jpg"]]


def test_other_files_of_the_same_shots_are_two_stacks(tmp_path):
    touch(tmp_path, "D1.tif", "D1.nef", "D2.tif", "D2.nef")
    assert found(tmp_path, by="number") == {"D1_tif": ["D1.tif", "D2.tif"], "D1_nef": ["D1.nef", "D2.nef"]}


def test_frames_are_counted_off_and_a_short_rest_is_a_problem(tmp_path):
    touch(tmp_path, *(f"{number}.png" for number in range(1, 8)))
    stacks = find_stacks(tmp_path, by="number", size=3)
    assert [len(stack.frames) for stack in stacks] == [3, 3, 1]
    assert [bool(stack.problem) for stack in stacks] == [False, False, True]
    assert "has 1 frames, not 3" in stacks[-1].problem


def test_a_name_without_a_number_is_a_problem_of_that_picture_only(tmp_path):
    touch(tmp_path, "1.png", "cover.png", "2.png")
    first, stray = find_stacks(tmp_path, by="number")
    assert (first.name, [path.name for path in first.frames], first.problem) == ("1", ["1.png", "2.png"], "")
    assert stray.name == "cover"
    assert "has no number in its name" in stray.problem


def test_a_gap_in_time_begins_a_new_stack_whatever_the_names(tmp_path):
    for name, seconds in (("c", 0), ("a", 2), ("b", 4), ("d", 60), ("e", 62)):
        photograph(tmp_path / f"{name}.jpg", seconds)
    assert found(tmp_path, by="time") == {"c": ["c.jpg", "a.jpg", "b.jpg"], "d": ["d.jpg", "e.jpg"]}
    assert len(found(tmp_path, by="time", gap=1.5)) == 5
    assert len(found(tmp_path, by="time", gap=60)) == 1


@pytest.mark.parametrize("ending", ["jpg", "tif", "png", "webp"])
def test_the_time_is_read_from_every_format_with_fractions(tmp_path, ending):
    path = tmp_path / f"x.{ending}"
    photograph(path, 3, "25")
    assert read_photo_facts(path).time == datetime.datetime(2026, 5, 1, 12, 0, 3, 250000)


def test_a_picture_without_a_time_or_half_copied_is_a_problem_of_that_picture_only(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "x.jpg")
    for number in range(3):
        photograph(tmp_path / f"{number}.jpg", number)
    (tmp_path / "half.jpg").write_bytes((tmp_path / "0.jpg").read_bytes()[:30])
    stacks = {stack.name: stack for stack in find_stacks(tmp_path, by="time")}
    assert sorted(stacks) == ["0", "half", "x"]
    assert (len(stacks["0"].frames), stacks["0"].problem) == (3, "")
    assert "says no time" in stacks["x"].problem
    assert "half.jpg" in stacks["half"].problem


def test_a_list_names_the_stacks(tmp_path):
    touch(tmp_path, "a/1.png", "a/2.png", "b/1.png")
    table = tmp_path / "list.csv"
    table.write_text("\ufeffframe,stack,remark\na/2.png,x/one,\na/1.png,x/one,second\nb/1.png,two,\n", encoding="utf-8")
    assert found(tmp_path, manifest=table) == {"two": ["1.png"], "x/one": ["2.png", "1.png"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stack,picture\na,b\n", "no column frame"),
        ("stack,frame\na,\n", "line 2 lacks"),
        ("stack,frame\n../a,1.png\n", "line 2.*cannot name a file"),
        ("stack,frame\n/etc/x,1.png\n", "cannot name a file"),
        ("stack,frame\na//b,1.png\n", "cannot name a file"),
        ("", "no column"),
    ],
)
def test_a_list_that_cannot_be_used_says_where(tmp_path, text, message):
    table = tmp_path / "list.csv"
    table.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        find_stacks(tmp_path, manifest=table)


def test_names_that_some_disks_cannot_tell_apart_are_refused(tmp_path):
    table = tmp_path / "list.csv"
    table.write_text("stack,frame\nBee,1.png\nbee,2.png\n", encoding="utf-8")
    with pytest.raises(InputError, match="one name"):
        find_stacks(tmp_path, manifest=table)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "moon"}, "valid are folder, file, time, number, auto"),
        ({"by": "time", "gap": 0}, "above 0"),
        ({"by": "folder", "size": 4}, "only grouping by number"),
        ({"by": "number", "size": 1}, "2 frames or more"),
        ({"manifest": "nowhere.csv"}, "no such file"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        find_stacks(tmp_path, **options)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere.*is not a folder"):
        find_stacks(tmp_path / "nowhere")
