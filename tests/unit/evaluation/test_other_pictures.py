"""Which file was fused from which sample."""

import pytest

from allfocus.errors import InputError
from allfocus.evaluation.other_pictures import find_other_picture


@pytest.mark.parametrize(
    ("sample", "file"),
    [
        ("lytro-01", "lytro-01.png"),
        ("lytro-01", "lytro_01_DSIFT.jpg"),
        ("lytro-01", "IFCNN-MAX-CMF-Lytro-1.png"),
        ("lytro-01", "1.png"),
        ("lytro-01", "01_fused.tif"),
        ("7", "U2Fusion_7.png"),
        ("7", "007.bmp"),
        ("7", "7_u2fusion.png"),
        ("stack b", "stack-b.png"),
    ],
)
def test_names_are_recognised_as_people_write_them(tmp_path, sample, file):
    for name in (file, "lytro-11.png", "71.png", "u2fusion_2.png", "notes.txt"):
        (tmp_path / name).touch()
    assert find_other_picture(sample, tmp_path, name="U2Fusion", dataset="lytro").name == file


def test_a_subfolder_of_the_set_is_preferred(tmp_path):
    for folder in (tmp_path, tmp_path / "lytro"):
        folder.mkdir(exist_ok=True)
        (folder / "lytro-01.png").touch()
    assert find_other_picture("lytro-01", tmp_path, name="x", dataset="lytro").parent.name == "lytro"


def test_of_several_the_one_with_the_name_of_the_software_is_meant(tmp_path):
    for name in ("lytro_01_CNN.jpg", "lytro_01_DSIFT.jpg"):
        (tmp_path / name).touch()
    assert find_other_picture("lytro-01", tmp_path, name="DSIFT", dataset="lytro").name == "lytro_01_DSIFT.jpg"
    with pytest.raises(InputError, match=r"several pictures of lytro-01 .*CNN\.jpg"):
        find_other_picture("lytro-01", tmp_path, name="GFF", dataset="lytro")


def test_a_picture_of_another_set_is_not_taken(tmp_path):
    (tmp_path / "mffw_01_DSIFT.jpg").touch()
    with pytest.raises(InputError, match="no picture of lytro-01"):
        find_other_picture("lytro-01", tmp_path, name="DSIFT", dataset="lytro")
    with pytest.raises(InputError, match="there is no folder"):
        find_other_picture("lytro-01", tmp_path / "none", name="DSIFT", dataset="lytro")
