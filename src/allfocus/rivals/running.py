"""What all rebuilt networks share: the device, strict loading, pictures as tensors, luminance, folding of stacks."""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from allfocus.errors import InputError, MissingDependencyError
from allfocus.rivals.weight_files import FOLDER_VARIABLE, Tensors, files_of, read_weights

Network = TypeVar("Network", bound=nn.Module)
Picture = NDArray[np.float32]
FusePair = Callable[[Tensor, Tensor], Tensor]

LUMINANCE = (0.299, 0.587, 0.114)
"""Rec. 601, as JPEG has it: values over the full range, colour around one half."""


def torch_device(device: str) -> torch.device:
    """The device that a name means: ``auto`` is a GPU where there is one.

    Raises:
        InputError: a GPU was asked for and there is none.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda was asked for, but torch finds no GPU; use cpu", code="no-gpu")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")


def load_rival(
    build: Callable[[], Network],
    weights: Path | str | None,
    *,
    device: torch.device,
    rename: Callable[[Tensors], Tensors] = dict,
    prefix: str = "",
) -> Network:
    """A network with its weights, ready to run; kept for the next time as long as its files stay the same.

    Args:
        build: Makes the network with fresh weights.
        weights: The file; see :func:`allfocus.rivals.weight_files.read_weights`.
        device: Where it is to run.
        rename: Brings the tensors of authors' files to the names and shapes of ours; given ours, it returns them as
            they are.
        prefix: Of a TensorFlow checkpoint, only the tensors whose names begin so.

    Raises:
        MissingDependencyError: there is no file.
        InputError: it cannot be read, or holds the weights of another network.
    """
    if weights is None:
        raise MissingDependencyError(
            "the weights of this network are not part of allfocus",
            hint=["give the file of its weights", f"set {FOLDER_VARIABLE} to the folder that holds it"],
            code="missing-weights",
        )
    path = Path(weights)
    stamp = tuple((found.st_mtime_ns, found.st_size) for file in files_of(path) if (found := _stat(file)) is not None)
    return _load(build, path, rename, prefix, str(device), stamp)  # type: ignore[return-value]  # the cache forgets which network it is


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


@functools.lru_cache(maxsize=4)
def _load(
    build: Callable[[], nn.Module],
    path: Path,
    rename: Callable[[Tensors], Tensors],
    prefix: str,
    device: str,
    stamp: tuple[tuple[int, int], ...],
) -> nn.Module:
    # Fresh weights draw random numbers, which are those of whoever calls.
    with torch.random.fork_rng(devices=[]):
        network = build()
    tensors = rename(read_weights(path, prefix=prefix))
    require_fit(network.state_dict(), tensors, where=path)
    state = {name: torch.from_numpy(np.ascontiguousarray(tensor)) for name, tensor in tensors.items()}
    # What only counts steps of training is in some files and not in others.
    counts = {name: value for name, value in network.state_dict().items() if _is_count(name)}
    network.load_state_dict({**{name: state[name] for name in state if not _is_count(name)}, **counts})
    return network.to(device).eval()


def require_fit(expected: Mapping[str, Tensor], found: Tensors, *, where: object) -> None:
    """Refuses tensors that are not exactly those of a network.

    Raises:
        InputError: one is missing, too many, or of another shape; the message names the first.
    """
    wanted = {name: tuple(value.shape) for name, value in expected.items() if not _is_count(name)}
    given = {name: value.shape for name, value in found.items() if not _is_count(name)}
    why = ""
    if missing := [name for name in wanted if name not in given]:
        why = f"{missing[0]!r} and {len(missing) - 1} more are missing" if missing[1:] else f"{missing[0]!r} is missing"
    elif spare := [name for name in given if name not in wanted]:
        why = f"it also holds {spare[0]!r}"
    elif unequal := [name for name in wanted if wanted[name] != given[name]]:
        name = unequal[0]
        why = f"{name!r} has the shape {given[name]}, the network needs {wanted[name]}"
    if why:
        raise InputError(f"holds the weights of another network: {why}", where=where, code="bad-weights")


def _is_count(name: str) -> bool:
    return name.endswith("num_batches_tracked")


def from_tensorflow(kernel: NDArray[np.float32]) -> NDArray[np.float32]:
    """A kernel of a convolution (height, width, in, out) in the order of torch (out, in, height, width)."""
    return kernel.transpose(3, 2, 0, 1)


# --- pictures ---------------------------------------------------------------------------------------------------------


def to_tensors(frames: Sequence[Picture], device: torch.device) -> list[Tensor]:
    """Frames (H, W, 3) or (H, W) as (1, 3, H, W) in 0..1; one channel is repeated."""
    return [_to_tensor(frame).to(device) for frame in frames]


def _to_tensor(frame: Picture) -> Tensor:
    colour = frame if frame.ndim == 3 else np.repeat(frame[..., np.newaxis], 3, axis=2)
    # A copy always: torch takes no array that must not be written to.
    return torch.from_numpy(np.array(colour.transpose(2, 0, 1), np.float32, order="C"))[None]


def to_picture(fused: Tensor, like: Picture) -> Picture:
    """A tensor (1, 3, H, W) as a picture in 0..1, shaped like a frame."""
    picture = fused[0].clamp(0, 1).permute(1, 2, 0).cpu().numpy()
    return np.ascontiguousarray(picture if like.ndim == 3 else picture.mean(axis=2), np.float32)


def fold_pairs(frames: Sequence[Picture], fuse_pair: FusePair, *, device: torch.device) -> Picture:
    """A stack by a method for pairs: the result so far with the next frame, from the first to the last.

    Args:
        frames: two or more, (H, W, 3) or (H, W), 0..1.
        fuse_pair: Takes two pictures (1, 3, H, W) in 0..1 and returns one.
        device: Where the pictures shall lie.
    """
    with torch.no_grad():
        first, *others = to_tensors(frames, device)
        fused = first
        for other in others:
            fused = fuse_pair(fused, other).clamp(0, 1)
    return to_picture(fused, frames[0])


# --- luminance and colour ---------------------------------------------------------------------------------------------


def split_colour(picture: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Luminance and the two differences of colour, each (1, 1, H, W) in 0..1, of (1, 3, H, W) RGB.

    Example:
        >>> [round(float(part), 3) for part in split_colour(torch.ones(1, 3, 1, 1))]
        [1.0, 0.5, 0.5]
    """
    red, green, blue = (picture[:, channel : channel + 1] for channel in range(3))
    luminance = LUMINANCE[0] * red + LUMINANCE[1] * green + LUMINANCE[2] * blue
    return luminance, (blue - luminance) / 1.772 + 0.5, (red - luminance) / 1.402 + 0.5


def join_colour(luminance: Tensor, blueness: Tensor, redness: Tensor) -> Tensor:
    """The opposite of :func:`split_colour`."""
    red = luminance + 1.402 * (redness - 0.5)
    blue = luminance + 1.772 * (blueness - 0.5)
    green = (luminance - LUMINANCE[0] * red - LUMINANCE[2] * blue) / LUMINANCE[1]
    return torch.cat([red, green, blue], dim=1)


def mean_colour(first: Tensor, second: Tensor) -> Tensor:
    """The mean of two differences of colour, each weighed by its distance from grey (one half).

    Example:
        >>> float(mean_colour(torch.tensor(0.5), torch.tensor(0.7))) == float(torch.tensor(0.7))
        True
    """
    near, far = (first - 0.5).abs(), (second - 0.5).abs()
    total = near + far
    mean = (first * near + second * far) / total.clamp_min(1e-12)
    return torch.where(total > 0, mean, torch.full_like(mean, 0.5))


def fuse_luminance(first: Tensor, second: Tensor, fuse_plane: FusePair) -> Tensor:
    """Two RGB pictures by a network that knows luminance only; colours are their weighed mean."""
    parts, others = split_colour(first), split_colour(second)
    luminance = fuse_plane(parts[0], others[0])
    return join_colour(luminance, mean_colour(parts[1], others[1]), mean_colour(parts[2], others[2]))
