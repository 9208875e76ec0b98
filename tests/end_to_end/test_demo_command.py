"""``allfocus demo`` as a newcomer runs it."""

import json

from allfocus.images.reading import read_image


def test_the_demo_gains_at_least_8_db_and_says_where_the_pictures_are(run_command, tmp_path):
    folder = tmp_path / "demo"
    done = run_command("demo", "-o", folder, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["gain"] >= 8
    assert report["gain"] == report["fused"]["psnr"] - max(frame["psnr"] for frame in report["frames"])

    again = run_command("demo", "-o", folder)
    assert again.returncode == 2
    assert "--overwrite" in again.stderr

    replaced = run_command("demo", "-o", folder, "--overwrite", "--method", "laplacian-pyramid-energy")
    assert replaced.returncode == 0, replaced.stderr
    assert "over the best single frame" in replaced.stdout
    for name in ("fused.png", "before_after.png", "truth.png"):
        assert str(folder / name) in replaced.stdout
        assert read_image(folder / name).width > 0
    assert read_image(folder / "decision_map.png").width > 0
