"""``allfocus evaluate`` as a user runs it."""

import importlib.resources
import json

import pytest

from allfocus.images.writing import write_image
from allfocus.scenes.rendering import render_scene


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """A folder that holds the sets ``real-mff`` (two pairs with truth) and ``folder`` (one stack)."""
    root = tmp_path_factory.mktemp("eval")
    for part in ("real-mff/imageA", "real-mff/imageB", "real-mff/Fusion", "folder/stack"):
        (root / part).mkdir(parents=True)
    for number, name in enumerate(("desk", "insect"), start=1):
        scene = render_scene(name, frames=2, size=(72, 96))
        for part, picture in (("imageA", scene.frames[0]), ("imageB", scene.frames[1]), ("Fusion", scene.truth)):
            write_image(picture, root / "real-mff" / part / f"{number}.png")
        write_image(scene.frames[0], root / "folder/stack" / f"{number}.png")
    return root


def test_several_sets_and_methods_in_one_go(run_command, sets, tmp_path):
    arguments = ["evaluate", "--dataset", "real-mff", "--dataset", "folder", "--data", sets, "-o", tmp_path / "out"]
    arguments += ["--method", "ips", "--method", "average", "--workers", 2]
    done = run_command(*arguments)
    assert done.returncode == 0, done.stderr
    assert "real-mff: 2 of 710 pictures, protocol grey" in done.stdout
    assert "…" not in done.stdout
    assert "PSNR: ips against average: better on" in done.stdout
    assert "report.html" in done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "fused",
        "report.html",
        "results.csv",
        "results.json",
        "results.md",
    ]
    again = run_command(*arguments)
    assert again.stdout == done.stdout, "a second run reuses everything, the times included"


def test_a_network_of_ones_own_takes_part_under_the_name_of_its_file(run_command, sets, tmp_path):
    own = tmp_path / "runs" / "first.onnx"
    own.parent.mkdir()
    own.write_bytes((importlib.resources.files("allfocus") / "weights" / "ips.onnx").read_bytes())
    arguments = ["evaluate", "--dataset", "real-mff", "--data", sets, "-o", tmp_path / "out", "--workers", 1, "--json"]
    arguments += ["--method", own, "--method", "ips", "--metric", "psnr"]
    done = run_command(*arguments)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    scores = {name: [row["scores"] for row in rows if row["method"] == name] for name in ("first.onnx", "ips")}
    assert scores["first.onnx"] == scores["ips"] != []
    assert (tmp_path / "out/fused/real-mff/first.onnx").is_dir()


def test_json_is_all_there_is_on_stdout(run_command, sets, tmp_path):
    done = run_command(
        "evaluate", "--dataset", "folder", "--data", sets / "folder", "--method", "average", "--metric", "en",
        "--protocol", "rgb-mean", "--jpeg", "75,4:2:0", "--workers", 1, "--json", "-o", tmp_path / "out",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert document["settings"]["metrics"] == {"folder": ["EN"]}
    assert (document["settings"]["protocol"], document["settings"]["jpeg"]) == ("rgb-mean", "75,4:2:0")
    assert document == json.loads((tmp_path / "out/results.json").read_text())


def test_failed_cells_are_counted_and_the_exit_code_says_so(run_command, sets, tmp_path):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no network")
    done = run_command(
        "evaluate", "--dataset", "real-mff", "--data", sets, "--method", "average", "--method", broken,
        "--images", f"other={sets / 'real-mff/Fusion'}", "--workers", 1, "-o", tmp_path / "out",
    )  # fmt: skip
    assert done.returncode == 1
    assert f"allfocus: 2 of 6 cells failed; the first: real-mff 1 with broken.onnx: {broken}: is no ONNX" in done.stderr
    assert "error (2)" in done.stdout
    assert "inf" in (tmp_path / "out/results.csv").read_text(), "the rest was scored"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dataset", "lytro", "--data", "nowhere", "--method", "ips"], "get Lytro from"),
        (["--dataset", "lytro", "--data", ".", "--method", "isp"], "did you mean 'ips'"),
        (["--dataset", "lytro", "--data", "."], "--method or --images"),
        (["--dataset", "lytro", "--data", ".", "--data", ".", "--method", "ips"], "once for each --dataset"),
        (["--dataset", "lytro", "--data", ".", "--images", "x"], "NAME=DIR"),
        (["--dataset", "lytro", "--data", ".", "--method", "ips", "--jpeg", "high"], "75,4:2:0"),
    ],
)
def test_wrong_usage_is_one_line_and_two(run_command, tmp_path, arguments, words):
    done = run_command("evaluate", *arguments, "-o", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_sets_are_listed_with_licence_and_source(run_command):
    done = run_command("datasets", "--json")
    assert done.returncode == 0
    listed = {dataset["name"]: dataset for dataset in json.loads(done.stdout)["datasets"]}
    assert {"lytro", "mffw", "real-mff", "mfi-whu", "folder"} <= listed.keys()
    assert all(dataset["licence"] and dataset["where"] and dataset["citation"] for dataset in listed.values())
