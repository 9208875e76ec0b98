"""The studio deletes nothing in its work folder that it did not make itself."""

import json
import os

import pytest
from folder_contents import contents

pytest.importorskip("fastapi", reason="needs the extra web")

from allfocus.errors import OutputError
from allfocus.web.settings import ServerSettings
from allfocus.web.store import JobStore
from allfocus.web.studio import Studio


@pytest.mark.parametrize(
    "name",
    ["holiday.jpg", "temporary/precious.tif", "jobs/precious.txt", "jobs/2024/frame.tif", "server.lock", ".hidden/x"],
)
def test_a_folder_of_other_things_is_refused_and_stays_as_it_is(tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("precious")
    if name == "server.lock":
        (tmp_path / "pictures").mkdir()
    before = contents(tmp_path)
    with pytest.raises(OutputError, match="set work to an empty or a new folder"):
        JobStore(tmp_path)
    assert contents(tmp_path) == before


PLANTED = (
    "precious.txt",
    "temporary/precious.tif",
    "temporary/folder/precious.tif",
    "jobs/precious.txt",
    "jobs/2024/frame.tif",
    "jobs/0123456789abcdef01234567/precious.tif",
    "jobs/0123456789abcdef01234567/frames/precious.tif",
    "jobs/{job}/precious.tif",
    "jobs/{job}/frames/precious.tif",
    "jobs/{job}/run-precious/result.tif",
    "jobs/{job}/layers/precious/level0.npy",
)


@pytest.mark.parametrize("action", ["start again", "delete the job"])
def test_what_lies_in_the_own_folder_and_is_not_known_stays(tmp_path, action):
    studio = Studio(ServerSettings(work=tmp_path / "work"))
    job = studio.create("a")["id"]
    names = [name.format(job=job) for name in PLANTED]
    for name in names:
        path = tmp_path / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("precious")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "0123456789ab").write_text("precious")
    os.symlink(outside, tmp_path / "work/jobs" / job / "thumbnails")
    if action == "delete the job":
        studio.delete(job)
    studio.close()
    JobStore(tmp_path / "work").close()
    assert all((tmp_path / "work" / name).read_text() == "precious" for name in names)
    assert (outside / "0123456789ab").read_text() == "precious"


def test_what_is_our_own_goes(tmp_path):
    work = tmp_path / "work"
    studio = Studio(ServerSettings(work=work))
    job = studio.create("a")["id"]
    ours = [
        "temporary/0123456789abcdef.part",
        "temporary/0123456789abcdef/0123456789abcdef.tif",
        f"jobs/{job}/run-01234567/result.tif",
        f"jobs/{job}/layers/run-01234567/result/level0.npy",
        f"jobs/{job}/frames/0123456789ab",
        "jobs/0123456789abcdef01234567/frames/0123456789ab",
    ]
    for name in ours:
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("left")
    studio.close()
    store = JobStore(work)
    assert sorted(contents(work)) == ["allfocus-studio.json", f"jobs/{job}/job.json", "server.lock"]
    assert not (work / "jobs/0123456789abcdef01234567").exists()
    store.delete(job)
    store.close()
    assert os.listdir(work / "jobs") == []


@pytest.mark.parametrize("folder", ["../../../outside", "..", "/", "precious"])
def test_a_description_that_leads_out_of_the_job_is_not_followed(tmp_path, folder):
    studio = Studio(ServerSettings(work=tmp_path / "work"))
    job = studio.create("a")["id"]
    studio.close()
    outside = tmp_path / "outside/alternatives"
    outside.mkdir(parents=True)
    (outside / "precious").write_text("precious")
    place = tmp_path / "work/jobs" / job / "job.json"
    content = json.loads(place.read_text())
    run = dict(method="average", width=1, height=1, channels=3, bit_depth=8, working_depth=16, frames=[], names=[])
    run |= dict(left_out={}, seconds={}, aligned=False, maps=[], has_report=False, bytes=1, first_revision=1)
    content["run"] = {"folder": folder, **run}
    place.write_text(json.dumps(content))
    store = JobStore(tmp_path / "work")
    store.close()
    assert job not in store.jobs
    assert (outside / "precious").exists()
