"""Metrics and data sets that other packages offer; those of methods are tested with the methods."""

import dataclasses
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
    tables = (metrics.all_metrics, datasets.all_datasets)

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


def test_a_metric_of_a_package_does_not_replace_ours(install):
    install(plugins.METRICS_GROUP, mine=dataclasses.replace(MEAN, name="PSNR"))
    assert metrics.find_metric("psnr") is metrics.METRICS["PSNR"]


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
