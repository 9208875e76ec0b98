"""The finish of a result over HTTP: kept, shown, exported exactly as the arithmetic says, and carried by projects."""

import io
import re
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
import tifffile
from PIL import Image as PillowImage

from allfocus.finishing.finish import MOST_SPOTS, Finish, Spot, finish_from_json
from allfocus.finishing.healing import heal_spots
from allfocus.finishing.rendering import finish_image
from allfocus.finishing.tones import apply_tones
from allfocus.images.conversion import to_integers
from allfocus.images.image import Image
from allfocus.web.layers import jpeg_bytes

FINISH = {
    "exposure": 0.4, "temperature": 20.0, "tint": -5.0, "black": 0.02, "white": 0.9, "gamma": 1.2, "contrast": 15.0,
    "turns": 1, "crop": {"left": 10, "top": 8, "width": 90, "height": 70},
    "spots": [{"x": 40.0, "y": 30.0, "radius": 6.0}],
}  # fmt: skip


@pytest.fixture(scope="module")
def job_id(client: Any, frame_files: list[bytes]) -> str:
    made: str = client.make_job(frame_files, "beetle")
    assert client.fuse(made, method="average", align=False)["state"] == "done"
    return made


@pytest.fixture
def job(client: Any, job_id: str) -> str:
    """The same without a finish."""
    assert client.put(f"/api/jobs/{job_id}/finish", json={}).status_code == 200
    return job_id


def read_tiff(client: Any, job_id: str, **more: Any) -> np.ndarray:
    answer = client.get(f"/api/jobs/{job_id}/download", params={"format": "tiff", **more})
    assert answer.status_code == 200, answer.text
    found: np.ndarray = tifffile.imread(io.BytesIO(answer.content))
    return found


def test_an_export_is_what_the_arithmetic_says_at_every_depth(client: Any, job: str) -> None:
    fused = read_tiff(client, job)
    answer = client.put(f"/api/jobs/{job}/finish", json=FINISH)
    assert answer.status_code == 200, answer.text
    assert answer.json()["finished_size"] == [70, 90]
    expected = finish_image(Image(fused / np.float32(65535)), finish_from_json(FINISH)).pixels
    assert expected.shape == (90, 70, 3)
    for bits in (8, 16):
        assert np.array_equal(read_tiff(client, job, bits=bits), to_integers(expected, bits))
    assert np.array_equal(read_tiff(client, job, bits=32), expected)


def test_it_is_kept_with_the_result_and_told(client: Any, job: str) -> None:
    before = client.job(job)["result"]
    answer = client.put(f"/api/jobs/{job}/finish", json=FINISH).json()
    shown = client.job(job)["result"]
    assert shown["finish"] == finish_from_json(FINISH).to_json() == answer["finish"]
    assert shown["revision"] == answer["revision"] == before["revision"] + 1
    assert answer["area"] == [34, 24, 46, 36]
    again = client.put(f"/api/jobs/{job}/finish", json={**FINISH, "exposure": 1}).json()
    assert again["area"] == [0, 0, 0, 0], "tones change no pixel of the result itself"


def test_another_result_has_its_own(client: Any, frame_files: list[bytes]) -> None:
    job = client.make_job(frame_files)
    client.fuse(job, method="average", align=False)
    client.put(f"/api/jobs/{job}/finish", json={"exposure": 1})
    first = client.job(job)["result"]["id"]
    assert client.fuse(job, method="average", align=False)["result"]["finish"]["exposure"] == 0
    assert client.post(f"/api/jobs/{job}/results/{first}/open").json()["result"]["finish"]["exposure"] == 1


def test_a_project_carries_it(client: Any, job: str) -> None:
    client.put(f"/api/jobs/{job}/finish", json=FINISH)
    project = client.get(f"/api/jobs/{job}/project").content
    opened = client.post("/api/projects", params={"name": "a.allfocus"}, content=project)
    assert opened.status_code == 201, opened.text
    assert opened.json()["result"]["finish"] == finish_from_json(FINISH).to_json()
    assert np.array_equal(read_tiff(client, opened.json()["id"]), read_tiff(client, job))


def test_tables_and_histogram_are_those_of_the_finished_picture(client: Any, job: str) -> None:
    fused = read_tiff(client, job)
    tones = {name: value for name, value in FINISH.items() if name not in ("crop", "turns", "spots")}
    shown = client.post(f"/api/jobs/{job}/finish/preview", json=tones).json()
    made = to_integers(finish_image(Image(fused / np.float32(65535)), finish_from_json(tones)).pixels, 8)
    tile = np.asarray(to_integers(fused / np.float32(65535), 8))
    tables = np.array(shown["tables"])
    for channel in range(3):
        looked_up = np.rint(tables[channel][tile[..., channel]] * 255)
        # What a table of 256 levels gives differs from the whole depth by what 8 bits cannot hold, times the slope.
        assert np.abs(looked_up - made[..., channel]).max() <= np.abs(np.diff(tables[channel])).max() * 255
        counts = np.bincount(made[..., channel].ravel(), minlength=256) / made[..., channel].size
        assert np.abs(np.cumsum(shown["histogram"][channel]) - np.cumsum(counts)).max() < 0.03
    assert client.job(job)["result"]["finish"] == Finish().to_json(), "a preview keeps nothing"


def test_automatic_levels_use_the_whole_range(client: Any, job: str) -> None:
    auto = client.post(f"/api/jobs/{job}/finish/preview", json={}).json()["auto"]
    fused = read_tiff(client, job) / 65535
    assert auto["black"] == pytest.approx(np.quantile(fused, 0.0005, axis=(0, 1)).min(), abs=0.03)
    assert auto["white"] == pytest.approx(np.quantile(fused, 0.9995, axis=(0, 1)).max(), abs=0.03)
    darker = client.post(f"/api/jobs/{job}/finish/preview", json={"exposure": -2}).json()["auto"]
    dark = apply_tones(fused.astype(np.float32), Finish(exposure=-2))
    assert darker["white"] == pytest.approx(np.quantile(dark, 0.9995, axis=(0, 1)).max(), abs=0.03)
    assert darker["white"] < 0.7
    client.put(f"/api/jobs/{job}/finish", json=auto)
    made = read_tiff(client, job, bits=8)
    assert made.min() == 0
    assert made.max() == 255


def test_a_picked_place_becomes_grey(client: Any, job: str) -> None:
    fused = read_tiff(client, job)
    found = client.post(f"/api/jobs/{job}/finish/grey", json={"x": 64, "y": 48})
    assert found.status_code == 200, found.text
    client.put(f"/api/jobs/{job}/finish", json=found.json())
    before, after = (each[46:51, 62:67].reshape(-1, 3).mean(axis=0) / 65535 for each in (fused, read_tiff(client, job)))
    assert np.ptp(after) < 0.02 < np.ptp(before)
    assert client.post(f"/api/jobs/{job}/finish/grey", json={"x": 128, "y": 48}).status_code == 400


def test_finished_tiles_are_the_finished_picture(client: Any, job: str) -> None:
    client.put(f"/api/jobs/{job}/finish", json=FINISH)
    answer = client.get(f"/api/jobs/{job}/finished/0/0/0")
    assert answer.headers["cache-control"] == "no-store"
    made = PillowImage.open(io.BytesIO(jpeg_bytes(read_tiff(client, job, bits=8))))
    tile = PillowImage.open(io.BytesIO(answer.content))
    assert np.array_equal(np.asarray(tile), np.asarray(made))
    for place in ("1/0/0", "0/1/0", "0/0/1", "0/-1/0", "-1/0/0", "0/99999999999999999999/0"):
        assert client.get(f"/api/jobs/{job}/finished/{place}").status_code in (400, 404)


def test_healed_spots_are_seen_in_tiles_of_the_result(client: Any, job: str) -> None:
    fused = read_tiff(client, job)

    def tile() -> np.ndarray:
        content = client.get(f"/api/jobs/{job}/tiles/result/0/0/0").content
        return np.asarray(PillowImage.open(io.BytesIO(content))).astype(float)

    before = tile()
    client.put(f"/api/jobs/{job}/finish", json={"spots": [{"x": 60, "y": 40, "radius": 12}]})
    expected = heal_spots(fused, [Spot(60, 40, 12)], (0, 0, 128, 96)) * 255
    after = tile()
    changed = np.abs(expected - fused / 257).max(axis=2) > 12
    assert changed.any()
    assert np.abs(after - expected)[changed].mean() < 6 < np.abs(before - expected)[changed].mean()


@pytest.mark.parametrize(
    ("format", "bits", "kind"),
    [("tiff", "16", "TIFF"), ("png", "16", "PNG"), ("png", "8", "PNG"), ("jpeg", "8", "JPEG"), ("webp", "8", "WEBP")],
)
def test_every_format_is_written(client: Any, job: str, format: str, bits: str, kind: str) -> None:
    params = {"format": format, "bits": bits, "quality": 90, "long_side": 64, "profile": "srgb"}
    answer = client.get(f"/api/jobs/{job}/download", params=params)
    assert answer.status_code == 200, answer.text
    if (format, bits) == ("tiff", "16"):
        assert tifffile.imread(io.BytesIO(answer.content)).shape == (48, 64, 3)
        return
    picture = PillowImage.open(io.BytesIO(answer.content))
    assert (picture.format, picture.size) == (kind, (64, 48))
    assert picture.info.get("icc_profile")


def test_formats_are_listed_with_what_they_hold(client: Any) -> None:
    formats = {each["format"]: each for each in client.get("/api/formats").json()}
    assert formats["tiff"]["bits"] == [8, 16, 32]
    assert formats["jpeg"] == {"format": "jpeg", "title": "JPEG", "bits": [8], "lossy": True}
    assert {"png", "webp"} <= set(formats)


def name_of(answer: Any) -> str:
    found = re.search(r"filename(?:=|\*=utf-8'')\"?([^\";]+)", answer.headers["content-disposition"])
    assert found is not None
    return unquote(found[1])


def test_names_follow_the_template(client: Any, job: str) -> None:
    def ask(name: str) -> Any:
        return client.get(f"/api/jobs/{job}/download", params={"format": "jpeg", "percent": 10, "name": name})

    assert name_of(ask("")) == "beetle-fused.jpg"
    assert name_of(ask("{stack}_{method}_{width}x{height}")) == "beetle_average_13x10.jpg"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d{6}\.jpg", name_of(ask("{date} {time}")))
    assert name_of(ask("../../{stack}:a")) == "..-..-beetle-a.jpg"
    assert name_of(ask("CON")) == "_CON.jpg"
    for wrong in ("{}", "{stack.__class__}", "{0}", "{stack!r}", "{home}"):
        answer = ask(wrong)
        assert answer.status_code == 400
        assert "field" in answer.json()["error"]


REFUSED = [
    {"exposure": 6}, {"exposure": "bright"}, {"black": 0.9, "white": 0.1}, {"turns": 4}, {"angle": 50}, {"evil": 1},
    {"crop": {"left": 100, "top": 0, "width": 100, "height": 10}},
    {"crop": {"left": 0, "top": 0, "width": 0, "height": 1}},
    {"crop": {"left": 0, "top": 0, "width": 128, "height": 96}, "angle": 5}, {"crop": [1, 2, 3, 4]},
    {"spots": [{"x": 5, "y": 5, "radius": 1e6}]}, {"spots": [{"x": -1, "y": 5, "radius": 5}]},
    {"spots": [{"x": 5, "y": 5, "radius": 5}] * (MOST_SPOTS + 1)}, {"scale_bar": {"pixel_size": 0}},
    {"scale_bar": {"pixel_size": 1, "length": 1e6}}, {"scale_bar": {"pixel_size": 1, "colour": "url(x)"}},
    {"curves": {"all": [[0, 0]]}}, {"curves": {"red": [[0, 0], [0, 1]]}}, {"curves": {"luma": []}},
    {"curves": {"all": [[0, 0], [1, 1e308]]}}, {"curves": {"all": [[0.1, 0.1]] * 100_000}}, {"curves": None},
]  # fmt: skip


@pytest.mark.parametrize("body", REFUSED)
def test_what_does_not_fit_is_refused_and_nothing_changes(client: Any, job: str, body: dict[str, Any]) -> None:
    before = client.job(job)["result"]
    for method, path in (("PUT", "finish"), ("POST", "finish/preview")):
        answer = client.request(method, f"/api/jobs/{job}/{path}", json=body)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]
    assert client.job(job)["result"] == before


@pytest.mark.parametrize(
    "params",
    [
        {"long_side": 5, "percent": 5}, {"percent": 0}, {"percent": "nan"}, {"long_side": 100001}, {"quality": 0},
        {"format": "gif"}, {"format": "jpeg", "bits": 16}, {"profile": "evil"}, {"name": "x" * 201},
    ],
)  # fmt: skip
def test_exports_that_cannot_be_are_refused(client: Any, job: str, params: dict[str, Any]) -> None:
    assert client.get(f"/api/jobs/{job}/download", params=params).status_code == 400


def test_too_large_an_export_is_refused_before_it_is_made(client: Any, job: str) -> None:
    answer = client.get(f"/api/jobs/{job}/download", params={"long_side": 100_000})
    assert answer.status_code == 413
    assert "more pixels than the limit" in answer.json()["error"]


def test_the_pixel_size_of_a_microscope_file_is_known(client: Any, tmp_path: Any) -> None:
    stack = np.random.default_rng(0).integers(0, 60000, (3, 40, 50), dtype=np.uint16)
    path = tmp_path / "cells.ome.tif"
    metadata = {"axes": "ZYX", "PhysicalSizeX": 0.65, "PhysicalSizeY": 0.65, "PhysicalSizeXUnit": "µm"}
    tifffile.imwrite(path, stack, metadata=metadata, ome=True)
    job = client.post("/api/jobs", json={"name": "cells"}).json()["id"]
    answer = client.post(f"/api/jobs/{job}/frames", params={"name": path.name}, content=path.read_bytes())
    assert answer.status_code == 201, answer.text
    shown = client.fuse(job, method="average", align=False)["result"]
    assert shown["pixel_size"] == pytest.approx(0.65)
    finish = {"scale_bar": {"pixel_size": shown["pixel_size"], "length": 13}}
    assert client.post(f"/api/jobs/{job}/finish/preview", json=finish).json()["scale_bar"] == "13 µm"
    assert client.put(f"/api/jobs/{job}/finish", json=finish).status_code == 200
    made, plain = read_tiff(client, job), stack.mean(axis=0)
    assert int((np.abs(made - plain) > 30000).any(axis=0).sum()) >= 1
    assert made.shape == (40, 50)


def test_a_job_whose_finish_was_damaged_on_disk_is_refused_alone() -> None:
    from allfocus.errors import InputError
    from allfocus.web.job_records import Job, Run, job_from_json, job_to_json

    run = Run("run-01234567", "average", 9, 9, 3, 8, 16, [], [], {}, {}, False, [], False, 1, 1)
    content = job_to_json(Job("a", "a", 0, 0, run=run))
    assert job_from_json(content).run is not None
    for wrong in (
        {"exposure": 99},
        {"crop": {"left": 0, "top": 0, "width": 10, "height": 1}},
        {"exposure": float("nan")},
    ):
        damaged = {**content, "run": {**content["run"], "finish": {**content["run"]["finish"], **wrong}}}
        with pytest.raises((InputError, ValueError)):
            job_from_json(damaged)
