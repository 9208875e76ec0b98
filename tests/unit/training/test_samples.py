"""Every kind of sample: right shapes and ranges, a target that the sources can reach, a label that is true."""

import dataclasses

import pytest
import torch

from allfocus.network.veils import unveil
from allfocus.training import focus_stacks, samples
from allfocus.training.batches import Batch, dim_light
from allfocus.training.blurring import MARGIN, WIDE_MARGIN
from allfocus.training.focus_stacks import FocusStacks
from allfocus.training.samples import MOVE_MARGIN, draw_batch, margin_around
from allfocus.training.shuffle_recipe import KINDS, ShuffleRecipe, split_shares

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


def even_stacks(count: int, sources: int, size: int) -> FocusStacks:
    """Stacks in which all frames show the same grey."""
    grey = torch.full((count, sources, 3, size, size), 0.5)
    return FocusStacks(grey, grey[:, 0], torch.zeros(count, sources, 4, size, size))


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
    assert batch.veil.shape == (5, sources, 4, CROP // 4, CROP // 4)
    assert float(batch.veil.min()) >= -1e-5
    assert float(batch.veil[:, :, 0].max()) <= 1 + 1e-5
    assert int(batch.label.min()) >= 0
    assert int(batch.label.max()) < sources
    assert batch.gain.shape == (5, sources, 1, CROP, CROP)
    # Where a source is darker than it should be, what it should show may be beyond white.
    for pictures, brightest in ((batch.frames, 1.0), (batch.target, 1 / float(batch.gain.min()))):
        assert pictures.dtype == torch.float32
        assert pictures.min() > -1e-5
        assert pictures.max() < brightest + 1e-5
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


@pytest.mark.parametrize("kind", ["pixel", "blob", "moved"])
@pytest.mark.parametrize("treated", [0.0, 1.0])
def test_the_target_of_shuffled_samples_is_what_the_labelled_source_shows(bank, kind, treated):
    recipe = only(kind, borders=treated, jpeg=treated, noise=treated)
    batch = draw(bank, recipe, batch=4, sources=3)
    assert torch.equal(picked(batch), batch.target)


def fix_gains(monkeypatch, gains: list[float]) -> None:
    """Lets every source have its own factor, the same in all samples and places."""

    def fixed(recipe, count, sources, crop, generator):
        factors = torch.tensor(gains)[None, :, None, None, None]
        return factors.expand(count, sources, 1, crop, crop)

    monkeypatch.setattr(samples, "_draw_gains", fixed)


@pytest.mark.parametrize("kind", KINDS)
def test_the_target_is_as_bright_as_without_gains(bank, monkeypatch, kind):
    """How bright a source is says nothing of its focus; what it was multiplied by is told with the sample."""
    # Without JPEG, which is not linear; of stacks a third is compressed always.
    monkeypatch.setattr(samples, "_compress", lambda frames, count, generator: frames)
    gains = [0.5, 0.7, 0.9]
    fix_gains(monkeypatch, [1.0, 1.0, 1.0])
    plain = draw(bank, only(kind), sources=3)
    fix_gains(monkeypatch, gains)
    batch = draw(bank, only(kind), sources=3)
    factors = torch.tensor(gains)[None, :, None, None, None]
    torch.testing.assert_close(batch.frames, factors * plain.frames, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(batch.target, plain.target, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(batch.gain, factors.expand_as(batch.gain))
    assert torch.equal(batch.label, plain.label)
    # A veil is light: it goes with the square, and its opacity stays.
    torch.testing.assert_close(batch.veil[:, :, :1], plain.veil[:, :, :1])
    torch.testing.assert_close(batch.veil[:, :, 1:], factors**2 * plain.veil[:, :, 1:], rtol=1e-5, atol=1e-7)


def test_gains_differ_from_place_to_place_and_from_source_to_source():
    generator = torch.Generator().manual_seed(0)
    gains = samples._draw_gains(only("blob", exposure=1.0), 16, 3, 64, generator)
    assert gains.shape == (16, 3, 1, 64, 64)
    assert 0.5 <= float(gains.min()) < 0.95
    assert 1.05 < float(gains.max()) <= 1.5
    assert float(gains.std((3, 4)).min()) > 0
    assert float(gains.mean((3, 4)).std(1).median()) > 0.01
    assert torch.equal(
        samples._draw_gains(only("blob", exposure=0.0), 4, 3, 64, generator), torch.ones(4, 3, 1, 64, 64)
    )


def test_treatment_changes_the_frames_and_noise_is_drawn_per_source(bank):
    plain, noisy = draw(bank, only("blob")), draw(bank, only("blob", noise=1.0))
    difference = noisy.frames - plain.frames
    assert difference.abs().mean() > 1e-4
    assert not torch.equal(difference[:, 0], difference[:, 1])


def test_noise_is_as_strong_in_all_sources_or_not():
    generator = torch.Generator().manual_seed(0)
    sigma = samples._draw_strength(only("blob", noise=0.5), 400, 3, generator)[:, :, 0, 0, 0]
    noisy = sigma[sigma.amax(1) > 0]
    assert 160 < len(noisy) < 240
    uneven = noisy.amax(1) > noisy.amin(1)
    assert 0.2 < float(uneven.float().mean()) < 0.4
    ratios = noisy[uneven].amax(1) / noisy[uneven].amin(1)
    assert 2 < float(ratios.max()) <= samples.LARGEST_NOISE_FACTOR


def test_of_sources_that_show_the_same_the_calmest_is_labelled(bank, monkeypatch):
    strengths = torch.tensor([0.02, 0.005, 0.03])[None, :, None, None, None]
    monkeypatch.setattr(samples, "_draw_strength", lambda recipe, count, *_: strengths.expand(count, -1, -1, -1, -1))
    monkeypatch.setattr(samples, "draw_focus_stacks", lambda *given, **_: even_stacks(given[1], given[2], given[3]))
    batch = draw(bank, only("stack"), batch=4, sources=3)
    assert bool((batch.label == 1).all())


@pytest.mark.parametrize("kind", KINDS)
def test_exposure_differs_between_the_sources(bank, kind):
    plain, exposed = draw(bank, only(kind)), draw(bank, only(kind, exposure=1.0))
    ratio = (exposed.frames.mean((2, 3, 4)) / plain.frames.mean((2, 3, 4)))[:, :2]
    assert float((ratio[:, 0] - ratio[:, 1]).abs().max()) > 0.01


def test_in_graded_samples_the_labelled_source_is_nearest_to_the_truth(bank):
    batch = draw(bank, only("graded"), batch=6, sources=3)
    error = (batch.frames - batch.target[:, None]).abs().mean(2)
    labelled = error.gather(1, batch.label[:, None])[:, 0]
    assert float(labelled.mean()) < 0.5 * float(error.mean())


def contrast(pictures: torch.Tensor) -> torch.Tensor:
    return (pictures[..., 1:] - pictures[..., :-1]).abs().mean()


def test_in_stack_samples_the_target_is_sharper_than_the_sources_and_the_label_is_nearest_to_it(bank):
    batch = draw(bank, only("stack"), batch=6, sources=3)
    assert float(contrast(batch.target)) > 1.3 * float(contrast(batch.frames))
    error = (batch.frames - batch.target[:, None]).abs().mean(2)
    labelled = error.gather(1, batch.label[:, None])[:, 0]
    assert float(labelled.mean()) < 0.5 * float(error.mean())
    # Which source is in focus is not the question where each is veiled.
    assert torch.equal(batch.label_weight, torch.zeros(6))


def test_taking_the_veils_of_stack_samples_off_brings_them_nearer_to_the_target(bank, monkeypatch):
    # What is soft at best is soft in the target, and what is transparent is there as well.
    monkeypatch.setattr(focus_stacks, "BEYOND_SHARE", 0.0)
    monkeypatch.setattr(focus_stacks, "GLASSY_SHARE", 0.0)
    batch = draw(bank, only("stack"), batch=12, sources=2, seed=3)
    opacity, added = batch.veil[:, :, :1], batch.veil[:, :, 1:]
    own = torch.nn.functional.avg_pool2d(batch.frames.square().flatten(0, 1), 4).unflatten(0, (12, 2))
    veil = torch.cat([opacity, added / opacity.clamp(min=1e-3) - own], dim=2)
    large = torch.nn.functional.interpolate(opacity.flatten(0, 1), scale_factor=4.0).unflatten(0, (12, 2))
    # Where a source is the one to take: elsewhere, behind the thing itself, what was veiled is not the target.
    best = (batch.label[:, None] == torch.arange(2)[None, :, None, None])[:, :, None]
    there = ((large > 0.15) & (large < 0.6) & best).expand_as(batch.frames)
    assert float(there.float().mean()) > 0.01
    target = batch.target[:, None].expand_as(batch.frames)
    before, after = ((frames - target).abs()[there].mean() for frames in (batch.frames, unveil(batch.frames, veil)))
    assert float(after) < 0.9 * float(before)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "stack"])
def test_only_stack_samples_have_veils(bank, kind):
    assert torch.equal(draw(bank, only(kind)).veil, torch.zeros(4, 2, 4, CROP // 4, CROP // 4))


def test_a_batch_takes_over_all_samples_of_another_in_place(bank):
    recipe = dataclasses.replace(MULTI_SCALE, **dict.fromkeys(KINDS, 0.2))
    batch, other = (draw(bank, recipe, batch=5, seed=seed) for seed in (1, 2))
    before = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}
    batch.fill(other)
    for name, tensor in before.items():
        assert getattr(batch, name) is tensor
        assert name == "inside" or torch.equal(tensor, getattr(other, name))


def test_dimming_goes_through_frames_target_and_veil(bank):
    """What is dimmed is the light: values by a factor, the light of veils by its square, opacity not at all."""
    generator = torch.Generator().manual_seed(1)
    frames, veil = torch.full((64, 2, 3, 8, 8), 0.8), torch.full((64, 2, 4, 2, 2), 0.5)
    whole = Batch(frames, frames[:, 0], torch.zeros(64, 8, 8, dtype=torch.long), torch.ones(64), veil, frames[:, :, :1])
    dimmed = dim_light(whole, generator)
    factor = dimmed.frames[:, 0, 0, 0, 0] / 0.8
    assert 0.4 - 1e-6 <= float(factor.min()) < 0.7
    assert 8 <= int((factor < 1).sum()) <= 32
    torch.testing.assert_close(dimmed.frames, frames * factor[:, None, None, None, None])
    torch.testing.assert_close(dimmed.target, frames[:, 0] * factor[:, None, None, None])
    torch.testing.assert_close(dimmed.veil[:, :, 0], veil[:, :, 0])
    torch.testing.assert_close(dimmed.veil[:, 0, 1, 0, 0], 0.5 * factor**2)
    assert torch.equal(dimmed.gain, whole.gain)


@pytest.mark.parametrize(
    ("recipe", "margin"),
    [
        (ShuffleRecipe(), MARGIN),
        (ShuffleRecipe(stack=1.0), MARGIN),  # pair masks draw no other kinds
        (only("moved"), MARGIN),
        (only("graded"), WIDE_MARGIN),
        (only("stack"), WIDE_MARGIN),
    ],
)
def test_the_margin_around_a_crop_is_that_of_the_widest_blur(recipe, margin):
    assert margin_around(recipe) == margin + MOVE_MARGIN


@pytest.mark.parametrize("kind", KINDS)
def test_photos_of_crop_and_margin_are_large_enough(bank, monkeypatch, kind):
    """Every crop that is asked for fits into the smallest photo that training accepts."""
    asked = []
    crop = type(bank).crop

    def record(self, count, size, generator):
        asked.append(max(size))
        return crop(self, count, size, generator)

    monkeypatch.setattr(type(bank), "crop", record)
    # As small as a photo may be, so that none is taken at twice the size.
    monkeypatch.setattr(bank, "smallest_side", CROP + 2 * margin_around(only(kind)))
    draw(bank, only(kind))
    assert max(asked) <= CROP + 2 * margin_around(only(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_that_end_early_repeat_their_last_row_and_column(bank, kind):
    """Up to seven pixels, other numbers in other batches; the picture ends there as it does without that."""
    cuts = set()
    for seed in range(12):
        whole, batch = (draw(bank, only(kind, ended=share), seed=seed) for share in (0.0, 1.0))
        assert whole.inside is None
        assert batch.inside is not None
        rows, columns = (int(batch.inside[0, 0].amax(side).sum()) for side in (1, 0))
        assert batch.inside.sum() == rows * columns
        assert min(rows, columns) > CROP - 8
        for name in ("frames", "target", "label", "gain"):
            own, before = getattr(batch, name), getattr(whole, name)
            # Its first rows and columns are gone, not its last, which a filter may have treated.
            assert torch.equal(own[..., :rows, :columns], before[..., CROP - rows :, CROP - columns :])
            assert (own[..., rows:, :] == own[..., rows - 1 : rows, :]).all()
            assert (own[..., columns:] == own[..., columns - 1 : columns]).all()
        cuts |= {CROP - rows, CROP - columns}
        if (CROP - rows) % 4 == 0 and (CROP - columns) % 4 == 0:
            # Veils are kept for four pixels by four.
            top, left = (CROP - rows) // 4, (CROP - columns) // 4
            expected = whole.veil[..., top:, left:]
            torch.testing.assert_close(batch.veil[..., : rows // 4, : columns // 4], expected)
    assert len(cuts) > 4
    assert not draw(bank, only(kind, ended=1e-9)).inside.logical_not().any()


@pytest.mark.parametrize("batch", [1, 2, 7, 32])
def test_shares_are_rounded_without_losing_a_sample(batch):
    recipe = dataclasses.replace(MULTI_SCALE, pixel=0.08, blob=0.34, moved=0.18, graded=0.2, stack=0.2)
    counts = split_shares(recipe, batch)
    assert sum(counts.values()) == batch
    for kind, count in counts.items():
        assert abs(count - batch * getattr(recipe, kind)) < 1


def test_kinds_without_a_share_are_not_drawn():
    assert split_shares(only("blob"), 9) == {"pixel": 0, "blob": 9, "moved": 0, "graded": 0, "stack": 0}
