"""The stacks that costs are measured on."""

import dataclasses
import json

import numpy as np
import pytest

from allfocus.benchmarking.inputs import RECIPES, StackRecipe, choose_recipes, prepare_stack
from allfocus.errors import InputError
from allfocus.images.reading import read_image

SMALL = StackRecipe("small", "for tests", "slope", 3, (48, 64), aperture=0.01)


def test_the_sets_are_those_of_the_comparison():
    sizes = {name: (recipe.frames, round(recipe.megapixels, 1)) for name, recipe in RECIPES.items()}
    assert sizes == {
        "pair": (2, 0.3),
        "occlusion": (8, 3.0),
        "stack": (10, 12.0),
        "large": (4, 24.0),
        "moved": (10, 12.0),
    }
    assert [name for name, recipe in RECIPES.items() if recipe.moved] == ["moved"]


def test_moved_is_the_same_stack_as_stack():
    fields = ("scene", "frames", "size", "aperture")
    assert [getattr(RECIPES["moved"], name) for name in fields] == [getattr(RECIPES["stack"], name) for name in fields]


def test_an_unknown_set_names_those_there_are():
    with pytest.raises(InputError, match=r"'stacks'; choose from: pair, occlusion, stack, large, moved"):
        choose_recipes(("stacks",))


def test_a_stack_is_rendered_once(tmp_path):
    told = []
    first = prepare_stack(SMALL, tmp_path, notice=told.append)
    before = [path.stat().st_mtime_ns for path in first.frames]
    second = prepare_stack(SMALL, tmp_path, notice=told.append)
    assert second == first
    assert [path.stat().st_mtime_ns for path in second.frames] == before
    assert len(told) == 1


def test_another_recipe_is_another_folder(tmp_path):
    first = prepare_stack(SMALL, tmp_path)
    second = prepare_stack(dataclasses.replace(SMALL, aperture=0.02), tmp_path)
    assert first.folder != second.folder


def test_the_truth_of_a_moved_stack_is_there_on_three_grids(tmp_path):
    recipe = dataclasses.replace(SMALL, aperture=0.0, breathing=0.01, shake=1.0)
    stack = prepare_stack(recipe, tmp_path)
    assert [path.name for path in stack.truths] == ["truth_00.png", "truth_01.png", "truth_02.png"]
    # Without blur every frame is its own truth.
    for frame, truth in zip(stack.frames, stack.truths, strict=True):
        np.testing.assert_array_equal(read_image(frame).pixels, read_image(truth).pixels)


def test_a_damaged_cache_is_told_and_not_used(tmp_path):
    stack = prepare_stack(SMALL, tmp_path)
    stack.frames[1].unlink()
    with pytest.raises(InputError, match="delete it"):
        prepare_stack(SMALL, tmp_path)


def test_nothing_half_rendered_is_left(tmp_path, monkeypatch):
    def fail(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("allfocus.benchmarking.inputs.write_image", fail)
    with pytest.raises(KeyboardInterrupt):
        prepare_stack(SMALL, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_recipe_lies_beside_the_frames(tmp_path):
    stack = prepare_stack(SMALL, tmp_path)
    assert json.loads((stack.folder.parent / "recipe.json").read_text())["scene"] == "slope"
