"""The CSV files of a run hold each iteration once, also after a kill."""

import csv

from allfocus.training.run_log import RunLog


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_rows_are_appended_under_one_header(tmp_path):
    log = RunLog(tmp_path, 0)
    log.write_loss(10, 1.5, 0.25, 1e-4, 12.34)
    log.write_loss(20, 3.0, 0.125, 1e-4, 12.3)
    log.write_validation(20, {"pixel": 31.234567, "blob": 30.0})
    assert [row["iteration"] for row in rows(tmp_path / "log.csv")] == ["10", "20"]
    assert rows(tmp_path / "log.csv")[0] == {
        "iteration": "10",
        "seconds": "1.5",
        "loss": "0.250000",
        "learning_rate": "1.000e-04",
        "images_per_second": "12.3",
    }
    assert rows(tmp_path / "validation.csv") == [{"iteration": "20", "pixel": "31.2346", "blob": "30.0000"}]


def test_resuming_drops_what_came_after_the_checkpoint(tmp_path):
    log = RunLog(tmp_path, 0)
    for iteration in (10, 20, 30):
        log.write_loss(iteration, 1, 1, 1, 1)
        log.write_validation(iteration, {"pixel": 1.0})
    log = RunLog(tmp_path, 20)
    log.write_loss(30, 2, 2, 2, 2)
    assert [row["iteration"] for row in rows(tmp_path / "log.csv")] == ["10", "20", "30"]
    assert [row["iteration"] for row in rows(tmp_path / "validation.csv")] == ["10", "20"]


def test_a_new_run_empties_the_log_of_one_that_never_reached_a_checkpoint(tmp_path):
    RunLog(tmp_path, 0).write_loss(10, 1, 1, 1, 1)
    RunLog(tmp_path, 0)
    assert rows(tmp_path / "log.csv") == []
