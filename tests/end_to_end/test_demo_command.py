"""``allfocus demo`` as a newcomer runs it."""

import json

from allfocus.images.reading import read_image


def test_the_demo_gains_at_least_8_db_and_says_where_the_pictures_are(run_command, tmp_path):
    done = run_command("demo", "-o", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    assert "over the best single frame" in done.stdout
    for name in ("fused.png", "before_after.png", "decision_map.png", "truth.png"):
        assert str(tmp_path / "demo" / name) in done.stdout.replace("\n", "")
        assert read_image(tmp_path / "demo" / name).width > 0


def test_the_demo_as_json_is_one_object_and_runs_again_only_with_overwrite(run_command, tmp_path):
    arguments = ("demo", "-o", tmp_path / "demo", "--json")
    done = run_command(*arguments)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["gain"] >= 8
    again = run_command(*arguments)
    assert again.returncode == 2
    assert "--overwrite" in again.stderr
    assert run_command(*arguments, "--overwrite").returncode == 0
