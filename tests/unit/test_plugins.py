"""Metrics and data sets that other packages offer; those of methods are tested with the methods."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

import allfocus
from allfocus import plugins
from allfocus.cli.main import run
from allfocus.datasets import catalogue as datasets
from allfocus.datasets.folder_of_stacks import FOLDER
from allfocus.errors import MissingDependencyError
from allfocus.metrics import catalogue as metrics


class Entry:
    """An entry point of an installed package."""

    dist = type("Distribution", (), {"name": "a-package"})

    def __init__(self, name, value):
        self.name, self._value = name, value

    def load(self):
        return self._value


@pytest.fixture
def install(monkeypatch):
    """Pretends that a package offers things in a group."""
    tables = (metrics.metric_catalogue, datasets.dataset_catalogue)

    def offer(group, **entries):
        found = [Entry(name, value) for name, value in entries.items()]
        monkeypatch.setattr(plugins, "entry_points", lambda group: found if group == wanted else [])
        for table in tables:
            table.cache_clear()

        wanted = group

    yield offer
    monkeypatch.undo()
    for table in tables:
        table.cache_clear()


def mean_level(fused, sources):
    return float(np.mean(fused))


MEAN = metrics.Metric("MEAN", "mean", "mean level", mean_level, 0, 255, "none", "says nothing about focus")


def test_a_metric_of_a_package_is_listed_found_and_scored(install, capsys):
    install(plugins.METRICS_GROUP, mean=MEAN)
    assert metrics.find_metric("mean") is MEAN
    picture = np.full((16, 16), 7, np.uint8)
    assert allfocus.score(picture, [picture, picture], metrics=["MEAN"]) == {"MEAN": 7.0}
    assert run(["metrics"]) == 0
    assert "MEAN" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("own", [{"name": "PSNR"}, {"name": "psnr"}, {"key": "q_mi"}, {"name": "Q-MI"}])
def test_a_metric_of_a_package_does_not_replace_ours_under_any_of_its_words_and_that_is_told(install, capsys, own):
    install(plugins.METRICS_GROUP, mine=dataclasses.replace(MEAN, **own))
    assert metrics.find_metric("psnr") is metrics.METRICS["PSNR"]
    assert metrics.find_metric("qmi") is metrics.METRICS["Q_MI"]
    assert run(["metrics"]) == 0
    assert "of the package a-package is passed over" in capsys.readouterr().err
    assert run(["metrics", "--json"]) == 0
    assert [error["code"] for error in json.loads(capsys.readouterr().out)["passed_over"]] == ["name-taken"]


def test_scoring_tells_of_metrics_that_are_passed_over(install, capsys, stack_folder):
    install(plugins.METRICS_GROUP, mine=dataclasses.replace(MEAN, name="SF", key="own"))
    frames = sorted(map(str, stack_folder.iterdir()))[:2]
    assert run(["score", frames[0], *(f"--source={frame}" for frame in frames), "--metric", "SF"]) == 0
    assert "SF of the package a-package is passed over" in capsys.readouterr().err


def test_a_data_set_of_a_package_does_not_replace_ours_and_that_is_told(install, capsys):
    install(plugins.DATASETS_GROUP, mine=dataclasses.replace(FOLDER, title="Another"))
    assert datasets.all_datasets()["folder"] is FOLDER
    assert run(["datasets"]) == 0
    assert "folder of the package a-package is passed over" in capsys.readouterr().err
    assert run(["datasets", "--json"]) == 0
    assert [error["code"] for error in json.loads(capsys.readouterr().out)["passed_over"]] == ["name-taken"]


def test_the_doctor_tells_which_plugins_there_are_and_which_are_not_used(install, capsys):
    install(plugins.METRICS_GROUP, mean=MEAN, mine=dataclasses.replace(MEAN, name="PSNR"))
    assert run(["doctor"]) == 0
    told = capsys.readouterr().out.partition("\nPlug-ins\n")[2].splitlines()
    assert told[0].split() == ["MEAN", "of", "the", "package", "a-package,", "in", "allfocus.metrics"]
    assert "PSNR of the package a-package is passed over" in told[1]
    assert told[1].endswith("(name-taken)")


def test_the_doctor_names_a_plugin_that_cannot_be_loaded(install, capsys):
    install(plugins.METRICS_GROUP, odd=3)
    assert run(["doctor"]) == 0
    assert "odd of the package a-package is a int" in capsys.readouterr().out


def test_a_data_set_of_a_package_is_listed_and_found(install, capsys, tmp_path, stack_folder):
    install(plugins.DATASETS_GROUP, mine=dataclasses.replace(FOLDER, name="mine", title="My own stacks"))
    shutil.copytree(stack_folder, tmp_path / "stack")
    assert [len(sample.sources) for sample in datasets.find_dataset("mine", tmp_path)] == [3]
    assert run(["datasets"]) == 0
    assert "mine" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("group", "table"), [(plugins.METRICS_GROUP, metrics.all_metrics), (plugins.DATASETS_GROUP, datasets.all_datasets)]
)
def test_what_is_neither_is_refused_with_the_name_of_the_package(install, group, table):
    install(group, odd=3)
    with pytest.raises(MissingDependencyError, match="odd of the package a-package is a int"):
        table()
