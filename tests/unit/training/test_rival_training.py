"""Networks of the literature in our training: losses that can be learned; all of it is stepped, stored and resumed."""

import dataclasses
import typing
from pathlib import Path

import numpy as np
import pytest
import torch

from allfocus.errors import InputError
from allfocus.fusion.method_choice import find_method
from allfocus.fusion.stack_fusion import fuse
from allfocus.metrics.structural_similarity import structural_similarity_index
from allfocus.network.checkpoint import read_tensors, save_tensors
from allfocus.rivals import mff_gan
from allfocus.rivals.learning import OBJECTIVES, laplacian, luminances, similarity_map
from allfocus.training.loop import train
from allfocus.training.recipe import Network, read_recipe
from allfocus.training.run_files import STATE_FILE
from allfocus.training.samples import draw_batch
from allfocus.training.stepping import Stepper
from allfocus.training.trainees import build_trainee

RECIPES = Path(__file__).resolve().parents[3] / "recipes"
SMALL = (
    "data.licence_classes=[]",
    "data.held_out_every=0",
    "data.crop=32",
    "data.batch=3",
    "shuffle.sources=[2]",
    "optimizer.warm_up=0",
    "optimizer.iterations=2",
    "log.report_every=1",
    "log.validate_every=0",
)
every_rival = pytest.mark.parametrize("name", OBJECTIVES)


def small_recipe(name, *more):
    return read_recipe(RECIPES / "rivals" / f"{name}.toml", [*SMALL, *more])


def test_every_network_that_has_an_objective_can_be_named_in_a_recipe():
    assert set(typing.get_args(Network)) == {"ips", "ips-paper", *OBJECTIVES}


@every_rival
def test_its_recipe_takes_the_photos_and_the_kinds_of_samples_of_ips(name):
    own, ips = read_recipe(RECIPES / "rivals" / f"{name}.toml"), read_recipe(RECIPES / "ips.toml")
    assert own.network == name
    assert own.data.licence_classes == ips.data.licence_classes
    assert dataclasses.replace(own.shuffle, sources=()) == dataclasses.replace(ips.shuffle, sources=())


@every_rival
def test_its_loss_falls_on_a_fixed_sample_and_reaches_every_weight(name, bank):
    recipe = small_recipe(name)
    generator = torch.Generator()
    objective = build_trainee(recipe)
    optimizer = torch.optim.Adam(objective.parameters(), lr=recipe.optimizer.learning_rate)
    batch = draw_batch(bank, recipe.shuffle, batch=3, crop=32, sources=2, generator=generator.manual_seed(1))
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = objective(batch, generator.manual_seed(2))
        torch.autograd.backward(loss)
        silent = [key for key, own in objective.named_parameters() if own.grad is None or not bool(own.grad.any())]
        assert silent == []
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    with torch.no_grad():
        fused = objective.fuse(batch.frames)
    assert fused.shape == batch.target.shape
    assert 0 <= float(fused.min()) <= float(fused.max()) <= 1


def test_the_discriminator_learns_to_judge_and_nothing_of_deceiving(bank):
    """One loss holds both; the gradient of the discriminator is that of its own part alone."""
    recipe = small_recipe("mff-gan")
    generator = torch.Generator()
    objective = build_trainee(recipe)
    batch = draw_batch(bank, recipe.shuffle, batch=2, crop=32, sources=2, generator=generator.manual_seed(1))
    weights = list(objective.discriminator.parameters())
    found = torch.autograd.grad(objective(batch, generator.manual_seed(2)), weights)
    planes = [plane * 2 - 1 for plane in luminances(batch.frames)]
    joint = torch.maximum(*(laplacian(plane).abs() for plane in planes))
    fused = laplacian(objective.network(*planes)).abs().detach()
    generator.manual_seed(2)
    _, sharp, blurred = (torch.rand(2, generator=generator) for _ in range(3))
    own = ((objective.discriminator(joint) - (0.7 + 0.5 * sharp)) ** 2).mean()
    own = own + ((objective.discriminator(fused) - 0.3 * blurred) ** 2).mean()
    for one, other in zip(found, torch.autograd.grad(own, weights), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-4)


def test_how_the_discriminator_is_taught_is_nothing_to_the_generator(bank, monkeypatch):
    recipe = small_recipe("mff-gan")
    generator = torch.Generator()
    objective = build_trainee(recipe)
    batch = draw_batch(bank, recipe.shuffle, batch=2, crop=32, sources=2, generator=generator.manual_seed(1))
    weights = [objective.network.layer5.weight, objective.discriminator.last.weight]
    one = torch.autograd.grad(objective(batch, generator.manual_seed(2)), weights)
    monkeypatch.setattr(mff_gan, "BLURRED", (5.0, 6.0))
    other = torch.autograd.grad(objective(batch, generator.manual_seed(2)), weights)
    torch.testing.assert_close(one[0], other[0])
    assert not torch.allclose(one[1], other[1])


def test_similarity_is_that_of_the_metric(bank):
    """Against the project's own metric, on luminances; which leaves out the frame of the picture."""
    first, second = (bank.crop(1, (48, 48), torch.Generator().manual_seed(seed))[:, :1].contiguous() for seed in (1, 2))
    second = 0.7 * first + 0.3 * second
    inner = similarity_map(first, second)[0, 0, 5:-5, 5:-5]
    expected = structural_similarity_index(*(plane[0, 0].numpy() for plane in (first, second)))
    assert float(inner.mean()) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("name", ["mff-gan", "ifcnn"])
def test_a_resumed_run_ends_as_one_that_nothing_interrupted(name, photo_folder, tmp_path):
    """Bit for bit: with the discriminator of the one and the running means of the other."""
    whole = train(photo_folder, tmp_path / "whole", recipe=small_recipe(name), device="cpu")
    recipe = small_recipe(name, "log.checkpoint_every=1")
    train(photo_folder, tmp_path / "parts", recipe=recipe, device="cpu", stop_after_seconds=0)
    assert read_tensors(tmp_path / "parts" / STATE_FILE, others=OBJECTIVES)[1]["iteration"] == 1
    parts = train(photo_folder, tmp_path / "parts", recipe=recipe, device="cpu", resume=True)
    for one, other in ((whole, parts), (whole.parent / STATE_FILE, parts.parent / STATE_FILE)):
        found, expected = (read_tensors(path, others=OBJECTIVES)[0] for path in (one, other))
        assert found.keys() == expected.keys()
        assert not [key for key in found if not torch.equal(found[key], expected[key])]
    state = read_tensors(parts.parent / STATE_FILE, others=OBJECTIVES)[0]
    inside = "discriminator.last.weight" if name == "mff-gan" else "network.conv2.bn.running_var"
    assert {f"weight/{inside}", f"average/{inside}"} <= state.keys()
    tensors, header = read_tensors(parts)
    assert header["kind"] == name
    assert header["provenance"]["iteration"] == 2
    assert not [key for key in tensors if "discriminator" in key or "num_batches" in key]
    # What was trained fuses, and another network's weights do not.
    frames = [np.random.default_rng(seed).random((24, 25, 3), dtype=np.float32) for seed in range(2)]
    assert fuse(frames, method=find_method(f"{name}@{parts}")).image.shape == (24, 25, 3)
    with pytest.raises(InputError, match="another network"):
        fuse(frames, method=find_method(f"u2fusion@{parts}"))
    # A run can begin with them; the state of a run must be whole.
    started = build_trainee(recipe, parts)
    assert all(torch.equal(value, started.network.state_dict()[key]) for key, value in tensors.items())
    state.pop(f"average/{inside}")
    save_tensors(parts.parent / STATE_FILE, state, {**read_tensors(whole.parent / STATE_FILE, others=OBJECTIVES)[1]})
    with pytest.raises(InputError, match="contradicts itself"):
        train(photo_folder, parts.parent, recipe=recipe, device="cpu", resume=True)


def test_the_average_holds_the_running_means(bank):
    recipe = small_recipe("ifcnn", "optimizer.average=0.5")
    stepper = Stepper(build_trainee(recipe), recipe, bank, rank=0, world=1)
    expected = stepper.network.network.conv2.bn.running_mean.clone()
    for iteration, decay in enumerate((1 / 10, 2 / 11)):
        stepper.step(iteration)
        expected = decay * expected + (1 - decay) * stepper.network.network.conv2.bn.running_mean
    with stepper.averaged() as averaged:
        torch.testing.assert_close(averaged.network.conv2.bn.running_mean, expected)
