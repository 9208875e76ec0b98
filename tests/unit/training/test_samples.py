"""Every kind of sample: right shapes and ranges, a target that the sources can reach, a label that is true."""

import dataclasses

import pytest
import torch

from allfocus.training.samples import KINDS, Batch, ShuffleRecipe, draw_batch, split_shares

CROP = 48
ALL_OFF = dict.fromkeys(KINDS, 0.0)
MULTI_SCALE = ShuffleRecipe(mask="multi-scale", filters=("mean", "gaussian", "disk"), sources=(2, 3), **ALL_OFF)


def draw(bank, recipe: ShuffleRecipe, *, batch: int = 4, sources: int = 2, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return draw_batch(bank, recipe, batch=batch, crop=CROP, sources=sources, generator=generator)


def only(kind: str, **changes: object) -> ShuffleRecipe:
    return dataclasses.replace(MULTI_SCALE, **{kind: 1.0}, **changes)


def picked(batch: Batch) -> torch.Tensor:
    """What the labelled source shows."""
    return batch.frames.gather(1, batch.label[:, None, None].expand(-1, -1, 3, -1, -1))[:, 0]


RECIPES = {
    "channel": ShuffleRecipe(),
    "pixel mask": ShuffleRecipe(mask="pixel"),
    "median": ShuffleRecipe(filters=("median",), largest_kernel=5),
    "gaussian": ShuffleRecipe(filters=("gaussian",)),
    **{kind: only(kind) for kind in KINDS},
    "all treated": dataclasses.replace(
        MULTI_SCALE, **dict.fromkeys(KINDS, 0.2), borders=1.0, jpeg=1.0, noise=1.0, exposure=1.0
    ),
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_batch_has_its_shapes_and_ranges_and_follows_from_the_generator(bank, name):
    recipe = RECIPES[name]
    sources = 3 if recipe.mask == "multi-scale" else 2
    batch = draw(bank, recipe, batch=5, sources=sources)
    assert batch.frames.shape == (5, sources, 3, CROP, CROP)
    assert batch.target.shape == (5, 3, CROP, CROP)
    assert batch.label.shape == (5, CROP, CROP)
    assert batch.label_weight.shape == (5,)
    assert int(batch.label.min()) >= 0
    assert int(batch.label.max()) < sources
    for pictures in (batch.frames, batch.target):
        assert pictures.dtype == torch.float32
        assert pictures.min() > -1e-5
        assert pictures.max() < 1 + 1e-5
    again = draw(bank, recipe, batch=5, sources=sources)
    assert torch.equal(batch.frames, again.frames)
    assert not torch.equal(batch.frames, draw(bank, recipe, batch=5, sources=sources, seed=1).frames)


def test_paper_pairs_keep_the_sharp_and_the_blurred_pixel_of_every_channel(bank):
    """One source shows the target and the other the filtered picture, per pixel and channel."""
    batch = draw(bank, ShuffleRecipe(), batch=6)
    first, second = batch.frames.unbind(1)
    shown = (first == batch.target) | (second == batch.target)
    assert shown.all()
    blurred = torch.where(first == batch.target, second, first)
    # A box filter of size 3 to 31 lowers the contrast of blocks.
    assert bool((blurred.std((2, 3)) < batch.target.std((2, 3))).all())
    # Channels are drawn apart.
    assert not torch.equal((first == batch.target)[:, 0], (first == batch.target)[:, 1])


def test_pixel_masks_deal_out_whole_pixels_and_label_them(bank):
    batch = draw(bank, ShuffleRecipe(mask="pixel"), batch=6)
    assert torch.equal(picked(batch), batch.target)


@pytest.mark.parametrize("probability", [0.1, 0.9])
def test_the_order_of_a_pair_is_random(bank, probability):
    """With p = 0.1 one source is almost sharp: it is sometimes the first and sometimes the second."""
    batch = draw(bank, ShuffleRecipe(mask="pixel", swap_probability=probability), batch=24)
    share = (batch.label == 0).float().mean((1, 2))
    assert float((share - 0.5).abs().min()) > 0.3
    assert 4 <= int((share > 0.5).sum()) <= 20


@pytest.mark.parametrize("kind", ["pixel", "blob", "moved", "layered"])
@pytest.mark.parametrize("treated", [0.0, 1.0])
def test_the_target_of_shuffled_samples_is_what_the_labelled_source_shows(bank, kind, treated):
    recipe = only(kind, borders=treated, jpeg=treated, noise=treated, exposure=treated)
    batch = draw(bank, recipe, batch=4, sources=3)
    assert torch.equal(picked(batch), batch.target)


def test_treatment_changes_the_frames_and_noise_is_drawn_per_source(bank):
    plain, noisy = draw(bank, only("blob")), draw(bank, only("blob", noise=1.0))
    difference = noisy.frames - plain.frames
    assert difference.abs().mean() > 1e-4
    assert not torch.equal(difference[:, 0], difference[:, 1])


def test_exposure_differs_between_the_sources(bank):
    plain, exposed = draw(bank, only("blob")), draw(bank, only("blob", exposure=1.0))
    ratio = (exposed.frames.mean((2, 3, 4)) / plain.frames.mean((2, 3, 4)))[:, :2]
    assert float((ratio[:, 0] - ratio[:, 1]).abs().max()) > 0.01


def test_in_graded_samples_the_labelled_source_is_nearest_to_the_truth(bank):
    batch = draw(bank, only("graded"), batch=6, sources=3)
    error = (batch.frames - batch.target[:, None]).abs().mean(2)
    labelled = error.gather(1, batch.label[:, None])[:, 0]
    assert float(labelled.mean()) < 0.5 * float(error.mean())


def test_in_layered_samples_the_labelled_source_is_sharper_than_the_others(bank):
    batch = draw(bank, only("layered"), batch=6, sources=3)

    def contrast(pictures: torch.Tensor) -> torch.Tensor:
        return (pictures[..., 1:] - pictures[..., :-1]).abs().mean()

    assert float(contrast(batch.target)) > 1.3 * float(contrast(batch.frames))


@pytest.mark.parametrize("batch", [1, 2, 7, 32])
def test_shares_are_rounded_without_losing_a_sample(batch):
    recipe = dataclasses.replace(MULTI_SCALE, pixel=0.08, blob=0.34, moved=0.18, graded=0.2, layered=0.2)
    counts = split_shares(recipe, batch)
    assert sum(counts.values()) == batch
    for kind, count in counts.items():
        assert abs(count - batch * getattr(recipe, kind)) < 1


def test_kinds_without_a_share_are_not_drawn():
    assert split_shares(only("blob"), 9) == {"pixel": 0, "blob": 9, "moved": 0, "graded": 0, "layered": 0}
