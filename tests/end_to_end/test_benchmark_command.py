"""`allfocus benchmark` as users run it: from any folder, with relative paths."""

import json

import pytest


def test_a_quick_benchmark_in_a_relative_folder_measures_and_scores(tmp_path, run_command):
    done = run_command(
        "benchmark", "--quick", "--sets", "pair", "--peers", "none", "-o", "own/benchmark", "--json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert rows
    assert all(row["error"] == "" and row["quality"]["psnr"] > 20 for row in rows)
    assert (tmp_path / "own/benchmark/benchmark.svg").is_file()


def test_a_failed_run_is_told_by_the_exit_code(tmp_path, run_command):
    """ips-paper fuses pairs only, and every set but one has more frames."""
    pytest.importorskip("torch", reason="needs the extra train")
    done = run_command(
        "benchmark", "--quick", "--sets", "occlusion", "--peers", "none", "--method", "ips-paper", cwd=tmp_path
    )
    assert done.returncode == 1
    assert "exactly 2 frames" in done.stdout
