"""A step follows from seed, process and iteration alone; the average and the clipping are what they say."""

import contextlib
import dataclasses

import pytest
import torch

from allfocus.errors import InputError
from allfocus.network.checkpoint import build_network
from allfocus.network.paper_network import PaperNetworkConfig
from allfocus.network.stack_network import StackNetworkConfig
from allfocus.training import stepping
from allfocus.training.recipe import DataRecipe, OptimizerRecipe, Recipe
from allfocus.training.shuffle_recipe import ShuffleRecipe
from allfocus.training.stepping import Stepper

RECIPE = Recipe(
    network="ips",
    seed=3,
    stack_network=StackNetworkConfig(
        channels=4,
        middle_channels=4,
        token_channels=4,
        mamba_blocks=1,
        heads=2,
        state=4,
        veil_channels=2,
        refiner_channels=4,
    ),
    data=DataRecipe(crop=32, batch=3, levels=(1, 2)),
    shuffle=ShuffleRecipe(mask="multi-scale", sources=(2, 3), pixel=0.3, blob=0.3, stack=0.4),
    optimizer=OptimizerRecipe(iterations=10, learning_rate=1e-2, average=0.9),
)


def make(bank, *, rank: int = 0, recipe: Recipe = RECIPE, **optimizer: object) -> Stepper:
    recipe = dataclasses.replace(recipe, optimizer=dataclasses.replace(recipe.optimizer, **optimizer))
    torch.manual_seed(0)
    return Stepper(build_network(recipe.network_config), recipe, bank, rank=rank, world=1)


def weights(stepper: Stepper) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in stepper.parameters])


def test_the_same_iteration_takes_the_same_step(bank):
    one, other = make(bank), make(bank)
    other.generator.manual_seed(99)  # must not matter
    assert torch.equal(one.step(4), other.step(4))
    assert torch.equal(weights(one), weights(other))


def test_other_iterations_processes_and_seeds_see_other_samples(bank):
    losses = {
        float(make(bank).step(0)),
        float(make(bank).step(1)),
        float(make(bank, rank=1).step(0)),
        float(make(bank, recipe=dataclasses.replace(RECIPE, seed=4)).step(0)),
    }
    assert len(losses) == 4


def test_sources_and_levels_are_drawn_from_the_recipe(bank, monkeypatch):
    """As many sources in every batch, so that all steps cost about the same; each number comes with each depth."""
    recipe = dataclasses.replace(
        RECIPE,
        data=dataclasses.replace(RECIPE.data, batch=8, levels=(1, 2)),
        shuffle=dataclasses.replace(RECIPE.shuffle, sources=(2, 4)),
    )
    seen = set()

    def record(self, batch, levels, with_context):
        seen.add((*batch, levels, with_context))
        return torch.zeros(())

    def draw(bank, shuffle, *, batch, crop, sources, generator):
        assert (shuffle, crop) == (recipe.shuffle, 32)
        return batch, sources

    monkeypatch.setattr(stepping, "draw_batch", draw)
    monkeypatch.setattr(Stepper, "_update", record)
    stepper = make(bank, recipe=recipe)
    for iteration in range(40):
        stepper.step(iteration)
    # The coarsest level is always decided with context, the one below it in half of the steps.
    assert seen == {(*drawn, *levels) for drawn in ((8, 2), (4, 4)) for levels in ((1, 1), (2, 1), (2, 2))}


@pytest.mark.parametrize("levels", [1, 2])
def test_processes_share_the_gradients_of_all_weights_whatever_their_levels(bank, monkeypatch, levels):
    """One that drew a single level has none for what looks at the level above; the others wait for it all the same."""
    recipe = dataclasses.replace(RECIPE, data=dataclasses.replace(RECIPE.data, levels=(levels,)))
    torch.manual_seed(0)
    stepper = Stepper(build_network(recipe.network_config), recipe, bank, rank=0, world=2)
    shared = []
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda flat: shared.append(flat.clone()))
    stepper.step(0)
    (flat,) = shared
    assert flat.numel() == sum(parameter.numel() for parameter in stepper.parameters)
    assert flat.isfinite().all()
    # And all of them are stepped, or the processes would drift apart.
    steps = [float(value) for name, value in stepper.state().items() if name.startswith("step/")]
    assert set(steps) == {1.0}


def test_a_restored_stepper_goes_on_as_if_nothing_had_happened(bank):
    whole = make(bank)
    whole.step(0)
    stored = {name: tensor.detach().clone() for name, tensor in whole.state().items()}
    whole.step(1)
    resumed = make(bank)
    resumed.restore(stored)
    resumed.step(1)
    for name, tensor in whole.state().items():
        assert torch.equal(resumed.state()[name], tensor), name


def test_names_in_a_checkpoint_are_those_that_old_checkpoints_have(bank):
    names = set(make(bank).state())
    parts = {name.split("/")[0] for name in names}
    assert parts == {"weight", "average", "step", "exp_avg", "exp_avg_sq"}
    assert {"weight/stem.weight", "average/merge.bias", "exp_avg_sq/head.weight"} <= names


def test_the_state_of_another_network_is_refused(bank):
    other = dataclasses.replace(
        RECIPE, network="ips-paper", paper_network=PaperNetworkConfig(source_channels=4, mamba_blocks=1)
    )
    with pytest.raises(InputError, match="another shape"):
        make(bank).restore(make(bank, recipe=other).state())


def test_adam_takes_a_first_step_of_the_learning_rate(bank):
    """Adam's first step is the learning rate in the direction of the sign of the gradient."""
    stepper = make(bank, gradient_clip=0.0)
    before = weights(stepper)
    stepper.step(0)
    moved = (weights(stepper) - before).abs()
    assert float(moved.max()) == pytest.approx(1e-2, rel=1e-3)
    # The heads of veil and refiner begin at zero, so that what is before them has no gradient yet.
    assert float((moved > 0).float().mean()) > 0.4
    assert float(moved[moved > 0].median()) == pytest.approx(1e-2, rel=0.1)


def test_the_learning_rate_falls_with_the_schedule(bank):
    stepper = make(bank, constant_share=0.5, gradient_clip=0.0)
    before = weights(stepper)
    stepper.step(9)  # the last of ten: a fifth of the rate
    assert float((weights(stepper) - before).abs().max()) == pytest.approx(2e-3, rel=1e-3)


def test_clipping_bounds_the_norm_of_the_gradient(bank):
    stepper = make(bank, gradient_clip=1e-5)
    stepper.step(0)
    # The first moment is a tenth of the gradient after one step.
    first_moments = [value for name, value in stepper.state().items() if name.startswith("exp_avg/")]
    norm = float(torch.cat([moment.flatten() for moment in first_moments]).norm()) * 10
    assert norm == pytest.approx(1e-5, rel=1e-2)


def test_the_average_follows_the_weights_as_documented(bank):
    stepper = make(bank)
    average = weights(stepper)
    for iteration in range(3):
        stepper.step(iteration)
        decay = min(0.9, (1 + iteration) / (10 + iteration))
        average = decay * average + (1 - decay) * weights(stepper)
    torch.testing.assert_close(torch.cat([part.flatten() for part in stepper.average]), average, rtol=1e-5, atol=1e-7)
    with stepper.averaged() as network:
        shown = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
    torch.testing.assert_close(shown, average, rtol=1e-5, atol=1e-7)
    assert not torch.equal(shown, weights(stepper))


def test_without_an_average_the_network_itself_is_shown(bank):
    stepper = make(bank, average=0.0)
    with contextlib.suppress(KeyError), stepper.averaged() as network:
        assert network is stepper.network
        assert not network.training
        raise KeyError  # also after a failure the network is back in training
    assert stepper.network.training


def test_the_loss_falls_on_a_fixed_sample(bank):
    """Repeating one iteration must learn it: the gradient has the right sign."""
    stepper = make(bank, learning_rate=3e-3, average=0.0)
    losses = [float(stepper.step(0)) for _ in range(60)]
    assert losses[-1] < 0.9 * losses[0]
