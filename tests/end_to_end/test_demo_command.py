"""``allfocus demo`` as a newcomer runs it."""

import json

from allfocus.images.reading import read_image


def test_the_demo_gains_at_least_8_db_and_says_where_the_pictures_are(run_command, tmp_path):
    folder = tmp_path / "demo"
    done = run_command("demo", "-o", folder)
    assert done.returncode == 0, done.stderr
    assert "over the best single frame" in done.stdout
    for name in ("fused.png", "before_after.png", "decision_map.png", "truth.png"):
        assert str(folder / name) in done.stdout
        assert read_image(folder / name).width > 0

    again = run_command("demo", "-o", folder, "--json")
    assert again.returncode == 2
    assert "--overwrite" in again.stderr

    replaced = run_command("demo", "-o", folder, "--json", "--overwrite")
    assert replaced.returncode == 0, replaced.stderr
    report = json.loads(replaced.stdout)
    assert report["gain"] >= 8
    assert report["gain"] == report["fused"]["psnr"] - max(frame["psnr"] for frame in report["frames"])
