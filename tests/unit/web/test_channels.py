"""Stacks of several channels in the studio: chosen, fused together, looked at, painted, and saved whole."""

import io
import zipfile
from typing import Any

import numpy as np
import pytest
import tifffile

from allfocus.images.calibrated_files import FusedPlanes, write_ome_zarr
from allfocus.images.dimensions import Channel, Dimensions
from allfocus.images.ome_xml import FusedFrom
from allfocus.images.stack_file import open_stack_file
from allfocus.web.settings import ServerSettings

NAMES = ["DAPI", "GFP"]
SIZE = (72, 96)


def planes(position: int = 0) -> np.ndarray[Any, Any]:
    """(3, 2, H, W): stripes that are sharp in one plane each; the second channel is a tenth as bright."""
    rows = np.arange(SIZE[0])[:, None] + np.zeros(SIZE)
    sharp = 20_000 + 8_000 * np.sign(np.sin(np.arange(SIZE[1]) * 1.3 + position))[None, :]
    found = np.empty((3, 2, *SIZE), np.uint16)
    for plane in range(3):
        focus = (rows // 24) == plane
        found[plane, 0] = np.where(focus, sharp, 20_000)
        found[plane, 1] = found[plane, 0] // 10
    return found


def ome_tiff(*stacks: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    with tifffile.TiffWriter(file, ome=True) as writer:
        for stack in stacks:
            metadata = {
                "axes": "ZCYX",
                "Channel": {"Name": NAMES},
                "PhysicalSizeX": 0.5,
                "PhysicalSizeXUnit": "µm",
                "PhysicalSizeY": 0.5,
                "PhysicalSizeYUnit": "µm",
                "PhysicalSizeZ": 2.0,
                "PhysicalSizeZUnit": "µm",
            }
            writer.write(stack, metadata=metadata, photometric="minisblack")
    return file.getvalue()


@pytest.fixture(scope="module")
def job(client):
    """A stack of the second of two positions, fused."""
    job_id = client.post("/api/jobs", json={"name": "cells"}).json()["id"]
    file = ome_tiff(planes(0), planes(1))
    asked = client.post(f"/api/jobs/{job_id}/frames?name=cells.ome.tif", content=file).json()
    assert len(asked["choose"]["positions"]) == 2
    assert asked["choose"]["times"] == 1
    assert client.job(job_id)["frames"] == []
    sent = client.post(f"/api/jobs/{job_id}/frames?name=cells.ome.tif&position=2", content=file)
    assert sent.status_code == 201, sent.text
    done = client.fuse(job_id, method="ips", align=False, decide_by="GFP")
    assert done["state"] == "done", done["error"]
    return done


def test_planes_keep_their_channels_and_are_fused_as_the_command_fuses_them(client, job, tmp_path, run_command):
    assert [frame["channel_names"] for frame in job["frames"]] == [NAMES] * 3
    assert [channel["name"] for channel in job["result"]["channels"]] == NAMES
    assert job["result"]["has_depth"]
    assert "--position 2" in job["command"]
    assert "--decide-by GFP" in job["command"]
    answer = client.get(f"/api/jobs/{job['id']}/download?format=ome-tiff")
    assert answer.status_code == 200, answer.text
    (tmp_path / "studio.ome.tif").write_bytes(answer.content)
    (tmp_path / "cells.ome.tif").write_bytes(ome_tiff(planes(0), planes(1)))
    run_command("fuse", tmp_path / "cells.ome.tif", "-o", tmp_path / "command.ome.tif", "--position", "2",
                "--decide-by", "GFP", "--no-align")  # fmt: skip
    assert np.array_equal(tifffile.imread(tmp_path / "studio.ome.tif"), tifffile.imread(tmp_path / "command.ome.tif"))
    held = open_stack_file(tmp_path / "studio.ome.tif").positions[0]
    assert [channel.name for channel in held.channels] == NAMES
    assert held.pixel_size == (0.5, 0.5)


def test_an_ome_zarr_of_all_channels_leaves_packed(client, job, tmp_path):
    answer = client.get(f"/api/jobs/{job['id']}/download?format=ome-zarr")
    assert answer.status_code == 200, answer.text
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        archive.extractall(tmp_path)
    (folder,) = tmp_path.iterdir()
    held = open_stack_file(folder).positions[0]
    assert [channel.name for channel in held.channels] == NAMES
    assert held.size == SIZE


def picture(client, job_id, layer="result"):
    from PIL import Image

    revision = client.job(job_id)["result"]["revision"]
    answer = client.get(f"/api/jobs/{job_id}/tiles/{layer}/0/0/0?revision={revision}")
    assert answer.status_code == 200, answer.text
    return np.asarray(Image.open(io.BytesIO(answer.content)).convert("RGB")).astype(int)


def test_channels_are_looked_at_in_their_colours_and_each_can_be_hidden(client, job):
    wishes = [{"shown": number == 1, "colour": "#0000ff", "low": 0.0, "high": 0.05} for number in range(2)]
    answer = client.put(f"/api/jobs/{job['id']}/channels", json={"channels": wishes})
    assert answer.status_code == 200, answer.text
    assert answer.json()["shown_since"] == answer.json()["revision"]
    for layer in ("result", f"frame-{job['frames'][0]['id']}"):
        seen = picture(client, job["id"], layer)
        assert seen[..., :2].max() < 40
        assert seen[..., 2].mean() > 100
    assert client.put(f"/api/jobs/{job['id']}/channels", json={"channels": wishes[:1]}).status_code == 400
    wishes[0]["high"] = 0.0
    assert client.put(f"/api/jobs/{job['id']}/channels", json={"channels": wishes}).status_code == 400


def test_a_stroke_paints_all_channels_whatever_is_looked_at(client, job, tmp_path):
    source = f"frame-{job['frames'][0]['id']}"
    stroke = {"source": source, "points": [[20.0, 60.0]], "radius": 6.0, "hardness": 1.0}
    answer = client.post(f"/api/jobs/{job['id']}/strokes", json=stroke)
    assert answer.status_code == 201, answer.text
    (tmp_path / "x.ome.tif").write_bytes(client.get(f"/api/jobs/{job['id']}/download?format=ome-tiff").content)
    painted = tifffile.imread(tmp_path / "x.ome.tif").reshape(2, *SIZE)
    assert (painted[:, 60, 20] == planes(1)[0, :, 60, 20]).all()
    assert client.post(f"/api/jobs/{job['id']}/undo").status_code == 200


def test_what_is_for_pictures_is_refused_with_a_word(client, job):
    assert "range of its own" in client.post(f"/api/jobs/{job['id']}/finish/preview", json={}).text
    assert "several channels" in client.post(f"/api/jobs/{job['id']}/alternatives", json={"method": "average"}).text
    assert client.get(f"/api/jobs/{job['id']}/download?format=png").status_code == 200
    kept = client.get(f"/api/jobs/{job['id']}/project")
    assert kept.status_code == 200, kept.text
    opened = client.post("/api/projects?name=cells.allfocus", content=kept.content)
    assert opened.status_code == 201, opened.text
    again = client.job(opened.json()["id"])
    assert [channel["name"] for channel in again["result"]["channels"]] == NAMES
    thumbnail = client.get(f"/api/jobs/{job['id']}/frames/{job['frames'][0]['id']}/thumbnail")
    assert thumbnail.status_code == 200


def test_an_ome_zarr_is_opened_where_it_lies(run_server, tmp_path):
    held = Dimensions("1", SIZE, "uint16", channels=tuple(Channel(name) for name in NAMES))
    content = FusedPlanes((held,), lambda position, time, channel: planes()[0, channel], FusedFrom("", 1), "test")
    write_ome_zarr(content, tmp_path / "cells.ome.zarr", name="cells")
    with run_server(ServerSettings(work=tmp_path / "work", allow_folders=(tmp_path,))) as client:
        job_id = client.post("/api/jobs", json={"name": "cells"}).json()["id"]
        answer = client.post(f"/api/jobs/{job_id}/folder", json={"path": str(tmp_path / "cells.ome.zarr")})
    assert answer.status_code == 200, answer.text
    assert [frame["channel_names"] for frame in answer.json()["frames"]] == [NAMES]
