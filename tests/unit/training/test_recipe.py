"""Recipes: those we ship are valid, and a mistake in one is named before anything runs."""

import dataclasses
import importlib.resources
import json
from pathlib import Path

import pytest

from allfocus.errors import InputError
from allfocus.network.checkpoint import load_network
from allfocus.training.recipe import Recipe, learning_rate, read_recipe, recipe_from_dictionary

RECIPES = Path(__file__).resolve().parents[3] / "recipes"
FILES = sorted(RECIPES.rglob("*.toml"))


def write(tmp_path: Path, text: str, name: str = "recipe.toml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_there_are_recipes():
    assert {"ips.toml", "ips-paper.toml"} <= {path.name for path in FILES}
    assert len([path for path in FILES if path.parent.name == "ablation"]) >= 12


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_shipped_recipe_is_valid_and_survives_being_stored(path):
    recipe = read_recipe(path)
    stored = json.loads(json.dumps(dataclasses.asdict(recipe)))
    assert recipe_from_dictionary(stored) == recipe


def test_the_paper_recipe_has_the_numbers_of_the_paper():
    recipe = read_recipe(RECIPES / "ips-paper.toml")
    assert recipe.network == "ips-paper"
    assert recipe.data.batch == 1
    assert recipe.optimizer.iterations == 1_000_000
    assert recipe.optimizer.learning_rate == 1e-4
    assert recipe.optimizer.constant_share == 0.5
    assert recipe.optimizer.warm_up == 0
    assert recipe.optimizer.gradient_clip == 0
    assert recipe.optimizer.average == 0
    assert (recipe.shuffle.smallest_kernel, recipe.shuffle.largest_kernel) == (3, 31)
    assert recipe.shuffle.swap_probability == 0.5
    assert recipe.shuffle.mask == "channel"
    assert recipe.shuffle.filters == ("mean",)
    assert recipe.shuffle.sources == (2,)
    assert recipe.paper_network.mamba_blocks == 12
    assert recipe.paper_network.res_blocks == 3
    assert recipe.paper_network.head == "regression"


def test_the_shipped_weights_use_free_photos_only():
    assert set(read_recipe(RECIPES / "ips.toml").data.licence_classes) == {"free", "share-alike"}


def test_the_shipped_network_has_the_sizes_of_its_recipe():
    network, header = load_network(Path(str(importlib.resources.files("allfocus"))) / "weights" / "ips.safetensors")
    recipe = read_recipe(RECIPES / "ips.toml")
    assert network.config == recipe.network_config
    assert header["kind"] == recipe.network
    assert max(recipe.data.levels) > 1
    assert recipe.shuffle.stack > 0


@pytest.mark.parametrize("path", sorted((RECIPES / "ablation").glob("*.toml")), ids=lambda path: path.stem)
def test_ablations_share_one_budget(path):
    base, recipe = read_recipe(RECIPES / "ablation" / "base.toml"), read_recipe(path)
    assert (recipe.optimizer, recipe.data, recipe.seed) == (base.optimizer, base.data, base.seed)


def test_the_ablations_of_the_paper_are_all_there():
    recipes = [read_recipe(path) for path in (RECIPES / "ablation").glob("*.toml")]
    assert {recipe.shuffle.swap_probability for recipe in recipes} == {0.1, 0.3, 0.5, 0.7, 0.9}
    assert {recipe.shuffle.filters for recipe in recipes} >= {("mean",), ("gaussian",), ("median",)}
    blocks = {(recipe.paper_network.res_blocks, recipe.paper_network.mamba_blocks) for recipe in recipes}
    assert blocks >= {(3, 12), (0, 12), (3, 0)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sed = 1", "unknown key sed; did you mean seed?"),
        (
            "[optimizer]\nlearning_rat = 1.0",
            "unknown key optimizer.learning_rat; did you mean optimizer.learning_rate?",
        ),
        ("[optimiser]\niterations = 5", "unknown key optimiser; did you mean optimizer?"),
        ("[paper_network]\nmamba_block = 1", "did you mean paper_network.mamba_blocks?"),
    ],
)
def test_an_unknown_key_names_the_nearest(tmp_path, text, message):
    with pytest.raises(InputError) as caught:
        read_recipe(write(tmp_path, text))
    assert message in str(caught.value)
    assert str(tmp_path / "recipe.toml") in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('seed = "one"', "seed = 'one'; expected int"),
        ("seed = true", "seed = True; expected int"),
        ("seed = 1.5", "seed = 1.5; expected int"),
        ("network = 'vgg'", "network = 'vgg'; valid are ips, ips-paper"),
        ("optimizer = 3", "optimizer must be a section"),
        ("[shuffle]\nsources = 2", "shuffle.sources = 2; expected a list"),
        ("[shuffle]\nsources = ['two']", "shuffle.sources = 'two'; expected int"),
        ("[shuffle]\nmask = 'blob'", "valid are channel, pixel, multi-scale"),
        ("[optimizer]\nlearning_rate = 'fast'", "optimizer.learning_rate = 'fast'; expected float"),
        ("[paper_network]\nshared_encoder = 1", "paper_network.shared_encoder = 1; expected bool"),
    ],
)
def test_a_wrong_type_is_named(tmp_path, text, message):
    with pytest.raises(InputError) as caught:
        read_recipe(write(tmp_path, text))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "override",
    [
        "data.crop=40",
        "data.crop=16",
        "data.batch=0",
        "data.levels=[]",
        "data.levels=[0, 1]",
        "data.held_out_every=1",
        "data.held_out_every=-2",
        "optimizer.iterations=0",
        "optimizer.learning_rate=nan",
        "optimizer.learning_rate=-1.0",
        "optimizer.average=1.0",
        "log.report_every=0",
        "log.checkpoint_every=0",
        "log.validate_every=-1",
        "log.validation_samples=0",
        "stack_network.heads=3",
        "stack_network.heads=0",
        "shuffle.largest_kernel=33",
        "shuffle.smallest_kernel=1",
        "shuffle.smallest_kernel=4",
        "shuffle.swap_probability=1.5",
        "shuffle.filters=[]",
        "shuffle.filters=['box']",
        "shuffle.sources=[]",
        "shuffle.sources=[1, 2]",
        "shuffle.blob=-1.0",
    ],
)
def test_values_that_could_only_fail_later_are_refused_at_once(override):
    with pytest.raises(InputError) as caught:
        read_recipe(RECIPES / "ips.toml", [override])
    assert override.partition("=")[0].split(".")[1].split("_")[0] in str(caught.value)


@pytest.mark.parametrize(("crop", "levels", "fits"), [(32, 3, True), (32, 4, False), (96, 3, True), (112, 3, False)])
def test_a_crop_must_be_whole_for_the_network_at_every_level(crop, levels, fits):
    overrides = [f"data.crop={crop}", f"data.levels=[1, {levels}]"]
    if fits:
        assert read_recipe(RECIPES / "ips.toml", overrides).data.levels == (1, levels)
        return
    with pytest.raises(InputError, match=f"data.crop = {crop}; it must be a multiple of {2 ** (levels + 2)}"):
        read_recipe(RECIPES / "ips.toml", overrides)


def test_a_network_needs_a_branch():
    for name, section in (("ips.toml", "stack_network"), ("ips-paper.toml", "paper_network")):
        with pytest.raises(InputError, match="mamba_blocks = 0; it must be 1 or more without ResBlocks"):
            read_recipe(RECIPES / name, [f"{section}.mamba_blocks=0", f"{section}.res_blocks=0"])


def test_samples_without_any_share_are_refused():
    kinds = [f"shuffle.{kind}=0" for kind in ("pixel", "blob", "moved", "graded", "stack")]
    with pytest.raises(InputError, match="not all 0"):
        read_recipe(RECIPES / "ips.toml", kinds)


def test_the_median_stands_alone():
    for overrides in (
        ["shuffle.filters=['median', 'mean']"],
        ["shuffle.filters=['median']", "shuffle.mask=multi-scale"],
    ):
        with pytest.raises(InputError, match="the median filter can only be used alone"):
            read_recipe(RECIPES / "ips-paper.toml", overrides)


def test_the_paper_network_takes_pairs_only():
    with pytest.raises(InputError, match=r"shuffle.sources = \[2, 3\]"):
        read_recipe(RECIPES / "ips-paper.toml", ["shuffle.sources=[2, 3]"])


def test_overrides_take_the_types_of_toml_and_plain_words():
    recipe = read_recipe(
        RECIPES / "ips.toml",
        ["optimizer.iterations=12", "data.licence_classes=[]", "optimizer.precision=float32", "seed=7", "data.batch=3"],
    )
    assert recipe.optimizer.iterations == 12
    assert recipe.data.licence_classes == ()
    assert recipe.optimizer.precision == "float32"
    assert (recipe.seed, recipe.data.batch) == (7, 3)
    # What was not overridden stays.
    assert recipe.optimizer.learning_rate == read_recipe(RECIPES / "ips.toml").optimizer.learning_rate


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", "write it as key=value"),
        ("seeds=3", "did you mean seed?"),
        ("seed.deep=3", "seed is a value, not a section"),
        ("optimizer.iterations=many", "expected int"),
    ],
)
def test_a_wrong_override_is_named(override, message):
    with pytest.raises(InputError) as caught:
        read_recipe(RECIPES / "ips.toml", [override])
    assert message in str(caught.value)


def test_whole_numbers_do_for_decimals(tmp_path):
    rate = read_recipe(write(tmp_path, "[optimizer]\nlearning_rate = 1")).optimizer.learning_rate
    assert (rate, type(rate)) == (1.0, float)


def test_a_base_gives_what_is_not_listed(tmp_path):
    write(tmp_path, "seed = 4\n[optimizer]\niterations = 10\nwarm_up = 3", "grand.toml")
    write(tmp_path, 'base = "grand.toml"\n[optimizer]\niterations = 20', "parent.toml")
    recipe = read_recipe(write(tmp_path, 'base = "parent.toml"\n[data]\nbatch = 2'))
    assert (recipe.seed, recipe.optimizer.iterations, recipe.optimizer.warm_up, recipe.data.batch) == (4, 20, 3, 2)


def test_a_base_is_looked_for_beside_the_recipe(tmp_path):
    (tmp_path / "deep").mkdir()
    write(tmp_path, "seed = 4", "parent.toml")
    assert read_recipe(write(tmp_path / "deep", 'base = "../parent.toml"')).seed == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('base = "recipe.toml"', "leads back to itself"),
        ("base = 3", "give the name of another recipe"),
        ('base = "nowhere.toml"', "nowhere.toml: cannot read the recipe"),
        ("seed = ", "not valid TOML"),
    ],
)
def test_a_broken_base_or_file_is_named(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_recipe(write(tmp_path, text))


def test_a_circle_of_bases_is_refused(tmp_path):
    write(tmp_path, 'base = "recipe.toml"', "other.toml")
    with pytest.raises(InputError, match="leads back to itself"):
        read_recipe(write(tmp_path, 'base = "other.toml"'))


def test_a_file_that_is_not_text_is_refused(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not valid TOML"):
        read_recipe(path)


def test_a_recipe_cannot_be_written_into():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Recipe().seed = 3


def schedule(**changes: object) -> list[float]:
    recipe = Recipe()
    recipe = dataclasses.replace(recipe, optimizer=dataclasses.replace(recipe.optimizer, **changes))
    return [learning_rate(recipe, iteration) for iteration in range(recipe.optimizer.iterations)]


def test_the_learning_rate_is_constant_then_falls_to_zero_on_a_line():
    rates = schedule(iterations=8, constant_share=0.5, learning_rate=1.0)
    assert rates == pytest.approx([1, 1, 1, 1, 1, 0.75, 0.5, 0.25])


def test_a_constant_share_of_one_never_falls():
    assert schedule(iterations=4, constant_share=1.0, learning_rate=2.0) == [2.0] * 4


def test_the_learning_rate_rises_over_the_warm_up():
    rates = schedule(iterations=8, constant_share=1.0, warm_up=4, learning_rate=1.0)
    assert rates == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1, 1, 1])


def test_the_paper_halves_the_rate_at_three_quarters():
    recipe = read_recipe(RECIPES / "ips-paper.toml")
    assert learning_rate(recipe, 499_999) == 1e-4
    assert learning_rate(recipe, 750_000) == pytest.approx(0.5e-4)
    assert 0 < learning_rate(recipe, 999_999) < 1e-9
