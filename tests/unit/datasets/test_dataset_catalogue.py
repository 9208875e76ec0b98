from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from allfocus.datasets.catalogue import DATASETS, find_dataset
from allfocus.datasets.samples import read_size
from allfocus.errors import InputError
from allfocus.images.listing import natural_order

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes small pictures with the given names below a fresh folder and returns the folder."""

    def write(*names: str, size: tuple[int, int] = (6, 4)) -> Path:
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", size, (10, 20, 30)).save(path)
        return tmp_path

    return write


@pytest.mark.parametrize(
    "names",
    [
        ("lytro-01-A.jpg", "lytro-01-B.jpg", "lytro-02-A.jpg", "lytro-02-B.jpg"),
        ("lytro-01-A.png", "lytro-01-B.png", "lytro-02-A.png", "lytro-02-B.png"),
        ("c_01_1.tif", "c_01_2.tif", "c_02_1.tif", "c_02_2.tif"),
        ("color_lytro_01_a.png", "color_lytro_01_b.png", "color_lytro_02_a.png", "color_lytro_02_b.png"),
        ("lytro-1A.bmp", "lytro-1B.bmp", "lytro-2A.bmp", "lytro-2B.bmp"),
        (
            "input/lytro_01/lytro_01_A.jpg",
            "input/lytro_01/lytro_01_B.jpg",
            "input/lytro_02/lytro_02_A.jpg",
            "input/lytro_02/lytro_02_B.jpg",
        ),
    ],
)
def test_lytro_is_recognised_under_each_of_its_names(make: Make, names: tuple[str, ...]) -> None:
    folder = make(
        *names, "Triple Series/lytro-01-A.jpg", "Triple Series/lytro-01-B.jpg", "Triple Series/lytro-01-C.jpg"
    )
    samples = find_dataset("lytro", folder)
    assert [sample.name for sample in samples] == ["lytro-01", "lytro-02"]
    assert [path.relative_to(folder).as_posix() for sample in samples for path in sample.sources] == list(names)
    assert all(sample.reference is None for sample in samples)
    triples = find_dataset("lytro-triple", folder)
    assert [path.name for path in triples[0].sources] == ["lytro-01-A.jpg", "lytro-01-B.jpg", "lytro-01-C.jpg"]


@pytest.mark.parametrize(
    ("first", "second", "truth"),
    [
        ("source_1", "source_2", "full_clear"),
        ("imageA", "imageB", "Fusion"),
        ("MFI-WHU/A", "MFI-WHU/B", "MFI-WHU/GT"),
    ],
)
@pytest.mark.parametrize("name", ["mfi-whu", "real-mff"])
def test_parallel_folders_are_joined_by_name_in_natural_order(
    make: Make, name: str, first: str, second: str, truth: str
) -> None:
    folder = make(*(f"{part}/{number}.png" for part in (first, second, truth) for number in (10, 9, 2)))
    samples = find_dataset(name, folder)
    assert [sample.name for sample in samples] == ["2", "9", "10"]
    assert samples[2].sources == (folder / first / "10.png", folder / second / "10.png")
    assert samples[2].reference == folder / truth / "10.png"


def test_parallel_folders_may_mark_their_files(make: Make) -> None:
    folder = make("imageA/001_A.png", "imageB/001_B.png", "Fusion/001_F.png")
    (sample,) = find_dataset("real-mff", folder)
    assert sample.name == "001"
    assert sample.reference == folder / "Fusion/001_F.png"


def test_mfifb_is_read_from_its_input_folder_and_not_from_the_results(make: Make) -> None:
    folder = make(
        "input/aymaz_01/aymaz_01_A.bmp",
        "input/aymaz_01/aymaz_01_B.bmp",
        "input/books/books_A.jpg",
        "input/books/books_B.jpg",
        "fused_images/aymaz_01_A.bmp",
    )
    assert [sample.name for sample in find_dataset("mfifb", folder)] == ["aymaz-01", "books"]


def test_road_mf_pairs_its_numbered_files(make: Make) -> None:
    folder = make(*(f"{number}.jpg" for number in range(1, 21)))
    samples = find_dataset("road-mf", folder)
    assert len(samples) == 10
    assert [path.name for path in samples[4].sources] == ["9.jpg", "10.jpg"]
    (folder / "20.jpg").unlink()
    with pytest.raises(InputError, match=r"road-mf: 10 has 1 source picture\(s\) \(19.jpg\), expected 2"):
        find_dataset("road-mf", folder)


def test_mffw_is_recognised(make: Make) -> None:
    folder = make("mffw_01_A.jpg", "mffw_01_B.jpg", "mffw_13_A.jpg", "mffw_13_B.jpg")
    assert [sample.name for sample in find_dataset("mffw", folder)] == ["mffw-01", "mffw-13"]


def test_a_folder_of_stacks_gives_one_sample_a_folder_with_its_truth(make: Make) -> None:
    folder = make("owl/f10.png", "owl/f9.png", "owl/reference.png", "books/1.jpg", "books/2.jpg", "books/3.jpg")
    (folder / "notes").mkdir()
    (folder / "owl" / "notes.txt").write_text("no picture")
    books, owl = find_dataset("folder", folder)
    assert (books.name, len(books.sources), books.reference) == ("books", 3, None)
    assert [path.name for path in owl.sources] == ["f9.png", "f10.png"]
    assert owl.reference == folder / "owl/reference.png"
    (alone,) = find_dataset("folder", folder / "books")
    assert alone == books


def test_pictures_of_different_size_are_an_error_that_names_the_pair(make: Make) -> None:
    make("lytro-01-A.jpg", "lytro-01-B.jpg", "lytro-02-A.jpg")
    folder = make("lytro-02-B.jpg", size=(7, 4))
    with pytest.raises(InputError, match=r"lytro-02 differ in size: .*lytro-02-A.jpg is 6x4, .*lytro-02-B.jpg is 7x4"):
        find_dataset("lytro", folder)


def test_a_truth_of_different_size_is_an_error(make: Make) -> None:
    make("source_1/1.png", "source_2/1.png")
    folder = make("full_clear/1.png", size=(6, 5))
    with pytest.raises(InputError, match=r"full_clear/1.png is 6x5"):
        find_dataset("mfi-whu", folder)


def test_a_missing_partner_is_an_error_that_names_it(make: Make) -> None:
    folder = make("lytro-01-A.jpg", "lytro-01-B.jpg", "lytro-02-A.jpg")
    with pytest.raises(InputError, match=r"lytro-02 has 1 source picture\(s\) \(lytro-02-A.jpg\), expected 2"):
        find_dataset("lytro", folder)


def test_a_missing_partner_in_a_parallel_folder_is_an_error_that_names_it(make: Make) -> None:
    folder = make("source_1/1.png", "source_2/1.png", "full_clear/1.png", "source_1/2.png")
    with pytest.raises(InputError, match=r"picture 2 is missing in .*source_2"):
        find_dataset("mfi-whu", folder)


def test_a_missing_truth_is_an_error_that_names_the_sample(make: Make) -> None:
    folder = make("source_1/1.png", "source_2/1.png", "source_1/2.png", "source_2/2.png", "full_clear/1.png")
    with pytest.raises(InputError, match="2 has no true picture"):
        find_dataset("mfi-whu", folder)


def test_two_copies_of_a_sample_are_an_error_that_names_both(make: Make) -> None:
    folder = make("jpg/lytro-01-A.jpg", "jpg/lytro-01-B.jpg", "png/lytro-01-A.png", "png/lytro-01-B.png")
    with pytest.raises(InputError, match=r"more than once \(.*jpg/lytro-01-A.jpg, .*png/lytro-01-A.png\)"):
        find_dataset("lytro", folder)


def test_a_part_of_a_set_will_do_unless_the_whole_is_asked_for(make: Make) -> None:
    folder = make(*(f"lytro-{number:02d}-{letter}.png" for number in range(1, 20) for letter in "AB"))
    assert len(find_dataset("lytro", folder)) == 19
    with pytest.raises(InputError, match="found 19 samples, the set has 20"):
        find_dataset("lytro", folder, whole=True)
    make("lytro-20-A.png", "lytro-20-B.png")
    assert len(find_dataset("lytro", folder, whole=True)) == 20
    make("lytro-21-A.png", "lytro-21-B.png")
    with pytest.raises(InputError, match="found 21 samples, the set has 20"):
        find_dataset("lytro", folder)


@pytest.mark.parametrize("name", DATASETS)
def test_a_missing_set_says_where_to_get_it(tmp_path: Path, name: str) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError) as caught:
            find_dataset(name, folder)
        assert str(folder) in str(caught.value)
        assert DATASETS[name].where in str(caught.value)


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=lambda dataset: dataset.name)
def test_every_set_has_citation_licence_and_summary(dataset) -> None:
    assert dataset.citation
    assert dataset.licence
    assert dataset.summary
    assert dataset.layout


def test_an_unknown_set_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'lytro'"):
        find_dataset("lyto", ".")


def test_a_broken_file_is_an_error_that_names_it(make: Make) -> None:
    folder = make("lytro-01-A.jpg", "lytro-01-B.jpg")
    (folder / "lytro-01-B.jpg").write_bytes(b"no picture at all")
    with pytest.raises(InputError, match=r"lytro-01-B.jpg cannot be read"):
        find_dataset("lytro", folder)


def test_natural_order_compares_numbers_and_words() -> None:
    assert sorted(["a", "1", "10a", "10", "2"], key=natural_order) == ["1", "2", "10", "10a", "a"]
    # A raised two is a digit to Python, and no number.
    assert sorted(["1²3.png", "1.png", "2.png"], key=natural_order) == ["1.png", "1²3.png", "2.png"]


@pytest.mark.parametrize(
    ("name", "count", "sources", "size"),
    [
        ("lytro", 20, 2, (520, 520)),
        ("lytro-triple", 4, 3, (520, 520)),
        ("mffw", 13, 2, None),
        ("mfi-whu", 120, 2, None),
        ("real-mff", 32, 2, (625, 433)),
    ],
)
def test_the_sets_at_hand_are_found_whole(
    shared_data: Path, name: str, count: int, sources: int, size: tuple[int, int] | None
) -> None:
    samples = find_dataset(name, shared_data / "eval" / name, whole=name != "real-mff")
    assert len(samples) == count
    assert {len(sample.sources) for sample in samples} == {sources}
    assert all((sample.reference is not None) == DATASETS[name].has_reference for sample in samples)
    if size is not None:
        assert {read_size(path) for sample in samples for path in sample.sources} == {size}
