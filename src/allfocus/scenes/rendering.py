"""Renders a scene as a focus stack with its exact all-in-focus truth: layers through a thin lens, far to near.

For each frame every layer is blurred by a disk of its own size, colour premultiplied by alpha and alpha alike, and laid
over what is behind it. Content hidden behind a near object exists and shines through the object's blurred rim, as it
does in a photo. Light is added up linearly; frames and truth carry the sRGB curve.
"""

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.scenes.catalogue import SCENES, SceneDescription
from allfocus.scenes.compositing import (
    INTERPOLATION_REACH,
    composite_frame,
    distance_range,
    visible_distance,
    visible_thin_things,
)
from allfocus.scenes.layers import Layer, Stage
from allfocus.scenes.textures import to_linear_light, to_srgb_curve

_READ_NOISE_SHARE = 0.04
"""Share of read noise in the variance at mid-grey; the rest is shot noise, which grows with the light."""

# Numbers that keep the random streams of one seed apart from each other and from those of the scene's content.
_SHAKE_STREAM, _EXPOSURE_STREAM, _NOISE_STREAM = 1_000_001, 1_000_002, 1_000_003


@dataclass(frozen=True)
class Scene:
    """A rendered focus stack and everything known about it."""

    name: str
    """Name in the catalogue."""
    frames: list[NDArray[np.float32]]
    """The stack, nearest focus first; each (H, W, 3), RGB, 0..1, sRGB curve, on the levels of ``bit_depth``."""
    truth: NDArray[np.float32]
    """(H, W, 3), sharp everywhere; on the pixel grid of frame 0, without noise or exposure differences."""
    depth: NDArray[np.float32]
    """(H, W), distance of what the truth shows at each pixel, in the scene's own unit."""
    focus_distances: list[float]
    """Distance at which each frame is focused."""
    transforms: list[NDArray[np.float64]]
    """3 x 3 for each frame: point (x, y, 1) of the frame to its point in the truth, pixel centres at whole numbers."""
    best_frame: NDArray[np.int16]
    """(H, W), number of the frame that is focused nearest to the depth of each pixel of the truth."""
    thin_things: NDArray[np.bool_]
    """(H, W), True where the truth shows legs or hairs that blur to nothing; False everywhere in most scenes."""
    exposures: list[float]
    """Factor on the light of each frame; 1 without exposure differences."""
    bit_depth: int
    """8 or 16."""
    options: dict[str, float]
    """The other options that the scene was rendered with, to be saved beside it."""


def render_scene(
    name: str = "desk",
    *,
    frames: int = 8,
    size: tuple[int, int] = (480, 640),
    aperture: float | None = None,
    focus_distances: Sequence[float] | None = None,
    breathing: float = 0.0,
    shake: float = 0.0,
    noise: float = 0.0,
    exposure: float = 0.0,
    bit_depth: int = 8,
    linear_light: bool = True,
    seed: int = 0,
) -> Scene:
    """Return a synthetic focus stack with its truth; the same arguments give the same pixels.

    Args:
        name: A scene of ``allfocus.scenes.catalogue.SCENES``.
        frames: Number of frames, 1 to 500.
        size: Height and width in pixels, 32 to 20000 each.
        aperture: Radius of the blur, in picture heights, per unit of ``abs(1 / focus - 1 / distance)``. 0 makes every
            frame sharp, None takes the scene's own.
        focus_distances: Distance of focus of each frame; replaces ``frames``. None spreads the frames evenly in
            1/distance from the nearest to the farthest thing, so that everything is sharp in some frame.
        breathing: Growth of the picture from each frame to the next, as real lenses do; 0.002 is 0.2 % per frame.
        shake: Largest shift in pixels of a frame against frame 0, along each axis; rotation moves the corners by up to
            as much again.
        noise: Standard deviation at mid-grey on the 0..1 scale of the file; shot noise with a little read noise.
        exposure: Largest difference of a frame's brightness from the truth, in stops.
        bit_depth: 8 or 16; frames and truth are rounded to these levels.
        linear_light: Blur light, as a lens does. False blurs the values of the file, as many simulated stacks do.
        seed: Random seed of content, shake, exposure and noise, 0 or more.

    Returns:
        The stack, its truth, depth and transforms.

    Raises:
        InputError: An option is out of its range, or there is no scene of that name.

    Example:
        >>> scene = render_scene("slope", frames=3, size=(48, 64))
        >>> len(scene.frames), scene.truth.shape, scene.best_frame.max().item()
        (3, (48, 64, 3), 2)
    """
    description = _find_scene(name)
    aperture = description.aperture if aperture is None else aperture
    count = frames if focus_distances is None else len(focus_distances)
    _check_options(count, size, aperture, breathing, shake, noise, exposure, bit_depth, seed)
    stage = Stage(height=int(size[0]), width=int(size[1]), seed=seed)
    layers = sorted(description.build(stage), key=lambda layer: -layer.farthest)
    focus = _choose_focus(focus_distances, count, *distance_range(layers, stage))
    strength = aperture * stage.unit
    ends = min(layer.nearest for layer in layers), max(layer.farthest for layer in layers)
    misfocus = max(abs(1 / distance - 1 / end) for distance in focus for end in ends)
    _check_margin(stage, aperture, misfocus, shake)
    if not linear_light:
        layers = [_with_file_values(layer) for layer in layers]

    transforms = _frame_transforms(stage, count, breathing, shake)
    gains = [float(2.0**stops) for stops in stage.generator(_EXPOSURE_STREAM).uniform(-exposure, exposure, count)]
    stack = []
    for number in range(count):
        light = composite_frame(layers, stage, focus=focus[number], strength=strength, transform=transforms[number])
        generator = stage.generator(_NOISE_STREAM, number)
        stack.append(_develop(light, linear_light, bit_depth, gain=gains[number], noise=noise, generator=generator))
    truth = composite_frame(layers, stage, focus=1.0, strength=0.0, transform=np.eye(3))
    depth = visible_distance(layers, stage)
    return Scene(
        name=name,
        frames=stack,
        truth=_develop(truth, linear_light, bit_depth),
        depth=depth,
        focus_distances=focus,
        transforms=transforms,
        best_frame=_best_frame(depth, focus),
        thin_things=visible_thin_things(layers, stage),
        exposures=gains,
        bit_depth=bit_depth,
        options={
            "aperture": aperture,
            "breathing": breathing,
            "shake": shake,
            "noise": noise,
            "exposure": exposure,
            "linear_light": linear_light,
            "seed": seed,
        },
    )


def _find_scene(name: str) -> SceneDescription:
    """Return the scene of that name."""
    if name not in SCENES:
        nearest = difflib.get_close_matches(str(name), SCENES, n=1, cutoff=0.0)[0]
        raise InputError(f"no scene is called {name!r}; did you mean {nearest!r}? There are: {', '.join(SCENES)}")
    return SCENES[name]


def _check_options(
    count: int,
    size: tuple[int, int],
    aperture: float,
    breathing: float,
    shake: float,
    noise: float,
    exposure: float,
    bit_depth: int,
    seed: int,
) -> None:
    """Raise an InputError that names the first option out of its range."""
    if len(size) != 2:
        raise InputError(f"size is {size!r}; give height and width, for example (480, 640)")
    ranges: list[tuple[str, float, float, float]] = [
        ("frames", count, 1, 500),
        ("size (height)", size[0], 32, 20000),
        ("size (width)", size[1], 32, 20000),
        ("aperture", aperture, 0, 10),
        ("breathing", breathing, 0, 0.05),
        ("shake", shake, 0, 1000),
        ("noise", noise, 0, 0.5),
        ("exposure", exposure, 0, 4),
        ("seed", seed, 0, 2**63 - 1),
    ]
    for option, value, least, most in ranges:
        if not (math.isfinite(value) and least <= value <= most):
            raise InputError(f"{option} is {value!r}; it must be between {least} and {most}")
    for option, value in (("frames", count), ("size", size[0]), ("size", size[1]), ("seed", seed)):
        if value != int(value):
            raise InputError(f"{option} is {value!r}; it must be a whole number")
    if bit_depth not in (8, 16):
        raise InputError(f"bit_depth is {bit_depth!r}; it must be 8 or 16")


def _choose_focus(given: Sequence[float] | None, count: int, nearest: float, farthest: float) -> list[float]:
    """Return the distances given, or ``count`` of them evenly spaced in 1/distance, nearest first."""
    if given is None:
        if count == 1:
            return [2.0 / (1.0 / nearest + 1.0 / farthest)]
        return [float(1.0 / inverse) for inverse in np.linspace(1.0 / nearest, 1.0 / farthest, count)]
    for number, distance in enumerate(given):
        if not (math.isfinite(distance) and distance > 0):
            raise InputError(f"focus_distances of frame {number} is {distance!r}; it must be above 0 and finite")
    return [float(distance) for distance in given]


def _check_margin(stage: Stage, aperture: float, misfocus: float, shake: float) -> None:
    """Raise an InputError where blur and shake would reach beyond the content around the picture."""
    room = stage.margin - INTERPOLATION_REACH - 2
    most_blur = room / (stage.unit * misfocus) if misfocus > 0 else math.inf
    if aperture > most_blur:
        raise InputError(
            f"aperture is {aperture!r}, a blur of {aperture * stage.unit * misfocus:.0f} pixels; "
            f"for this scene, size and focus it must be between 0 and {math.floor(most_blur * 1e4) / 1e4}"
        )
    # Along one axis a corner moves by the shift and by the rotation, each at most ``shake``.
    most_shake = (room - aperture * stage.unit * misfocus) / 2
    if shake > most_shake:
        raise InputError(
            f"shake is {shake!r} pixels; for this scene, size and aperture it must be between 0 and "
            f"{math.floor(most_shake * 10) / 10}"
        )


def _frame_transforms(stage: Stage, count: int, breathing: float, shake: float) -> list[NDArray[np.float64]]:
    """Return for each frame the 3 x 3 matrix from its points to those of the truth; frame 0 is the truth's grid."""
    centre_x, centre_y = (stage.width - 1) / 2, (stage.height - 1) / 2
    generator = stage.generator(_SHAKE_STREAM)
    transforms = [np.eye(3)]
    for number in range(1, count):
        shift_x, shift_y, turn = generator.uniform(-1.0, 1.0, 3) * shake
        angle = turn / math.hypot(centre_x, centre_y)
        scale = 1.0 / (1.0 + breathing * number)
        cosine, sine = scale * math.cos(angle), scale * math.sin(angle)
        transforms.append(
            np.array(
                [
                    [cosine, -sine, centre_x + shift_x - cosine * centre_x + sine * centre_y],
                    [sine, cosine, centre_y + shift_y - sine * centre_x - cosine * centre_y],
                    [0.0, 0.0, 1.0],
                ]
            )
        )
    return transforms


def _with_file_values(layer: Layer) -> Layer:
    """Return the layer with its colours on the sRGB curve instead of in linear light."""
    alpha = layer.light[..., 3:]
    plain: NDArray[np.float32] = (layer.light[..., :3] / np.maximum(alpha, 1e-6)).astype(np.float32)
    colour = to_srgb_curve(plain) * alpha
    return replace(layer, light=np.concatenate([colour, alpha], axis=2))


def _develop(
    light: NDArray[np.float32],
    linear_light: bool,
    bit_depth: int,
    *,
    gain: float = 1.0,
    noise: float = 0.0,
    generator: np.random.Generator | None = None,
) -> NDArray[np.float32]:
    """Return the picture that a camera writes from the light on its sensor: exposure, noise, curve, rounding."""
    if linear_light or gain != 1.0 or noise > 0:
        if not linear_light:
            light = to_linear_light(np.clip(light, 0.0, 1.0))
        light = light * np.float32(gain)
        if noise > 0 and generator is not None:
            light += _sensor_noise(light, noise, generator)
        light = to_srgb_curve(light)
    most = 2**bit_depth - 1
    levels: NDArray[np.float32] = np.rint(np.clip(light, 0.0, 1.0) * np.float32(most))
    return levels / np.float32(most)


def _sensor_noise(light: NDArray[np.float32], noise: float, generator: np.random.Generator) -> NDArray[np.float32]:
    """Return noise for linear light whose standard deviation is ``noise`` at mid-grey after the sRGB curve."""
    middle = float(to_linear_light(np.full(1, 0.5, dtype=np.float32))[0])
    slope = 2.4 / 1.055 * ((0.5 + 0.055) / 1.055) ** 1.4  # of the sRGB curve at mid-grey
    share = np.float32(_READ_NOISE_SHARE)
    spread = np.float32(noise * slope) * np.sqrt(share + (1 - share) / np.float32(middle) * np.maximum(light, 0.0))
    sample: NDArray[np.float32] = spread * generator.standard_normal(light.shape, dtype=np.float32)
    return sample


def _best_frame(depth: NDArray[np.float32], focus: Sequence[float]) -> NDArray[np.int16]:
    """Return the number of the frame whose focus is nearest to the depth in 1/distance, (H, W)."""
    inverse = 1.0 / depth
    best = np.zeros(depth.shape, dtype=np.int16)
    least = np.full(depth.shape, np.inf, dtype=np.float32)
    for number, distance in enumerate(focus):
        misfocus = np.abs(np.float32(1.0 / distance) - inverse)
        closer = misfocus < least
        best[closer], least[closer] = number, misfocus[closer]
    return best
