"""Fusing a whole stack on an NVIDIA GPU: frames are sent over once, and only the result comes back.

The steps themselves are tensors (:mod:`allfocus.network.gpu_fusion`); this module brings the plan of the CPU path and
the frames of a source to them. Needs torch, so it is imported only when a GPU is used.
"""

import functools
import importlib.resources
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from allfocus.fusion import blending
from allfocus.fusion.frame_source import FrameSource, decision_scale
from allfocus.fusion.inference import three_channels, weights_folder
from allfocus.fusion.windows import cut_windows, mean_matrices
from allfocus.network import gpu_fusion
from allfocus.network.checkpoint import load_network

if TYPE_CHECKING:
    from allfocus.fusion.blending import Curve
    from allfocus.fusion.learned import Plan

WORKING_BYTES = 12_000_000_000
"""Memory that fusing takes beside the frames and the result."""
CURVE_ENTRIES = 65536
"""Values at which a transfer curve is handed over: every level of 16 bits."""


def fits_memory(source: FrameSource) -> bool:
    """Returns whether a stack, its result and what fusing takes fit the free memory of the GPU."""
    free, _ = torch.cuda.mem_get_info()
    pixels = int(np.prod(source.shape))
    return pixels * (2 * len(source) + 12) + WORKING_BYTES < free


def fuse_on_gpu(
    plan: "Plan",
    source: FrameSource,
    *,
    curve: "Curve | None" = None,
    device: str = "cuda",
    progress: Callable[[int, int], None] | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.int16], NDArray[np.float32], NDArray[np.float32]]:
    """Returns picture, decision, depth and confidence as the CPU path does, but for rounding."""
    frames, reduced = _send(source, plan.scale, device)
    valid = None
    everything = (slice(0, plan.size[0]), slice(0, plan.size[1]))
    if source.read_valid(0, everything) is not None:
        masks = [np.asarray(source.read_valid(index, everything), bool) for index in range(len(source))]
        valid = torch.from_numpy(np.stack(masks)).to(device)
    picture, decision, depth, confidence = gpu_fusion.fuse_windows(
        frames,
        reduced,
        load_shipped(device),
        gpu_fusion.prepare_batches(window_tasks(plan), device),
        settings(),
        scale=plan.scale,
        prior=None if plan.prior is None else torch.from_numpy(plan.prior).to(device),
        lean=plan.lean,
        decisiveness=plan.decisiveness,
        valid=valid,
        curve=None if curve is None else _sample(curve, device),
        progress=progress,
    )
    image = picture.permute(1, 2, 0) if len(source.shape) == 3 else picture[0]
    return image.contiguous().cpu().numpy(), decision.cpu().numpy(), depth.cpu().numpy(), confidence.cpu().numpy()


class TensorFusion:
    """Fuses stacks of one shape from GPU memory to GPU memory, again and again, without waiting in between.

    For programs that have their frames on the GPU already: cameras on a line, video, a batch of pairs. All frames are
    looked at everywhere, so a stack should have few of them. The first call records the work as a CUDA graph; later
    calls replay it, and return the same tensors, overwritten.

    Args:
        shape: (frames, channels, height, width); channels 1 or 3.
        dtype: uint8, int16 that holds the bits of uint16, or floating point in 0..1.
        device: a CUDA device; on ``cpu`` the work is done as it is called.
        network: the `ips` network on that device, for example compiled; by default the shipped one.
    """

    def __init__(
        self,
        shape: tuple[int, int, int, int],
        dtype: torch.dtype = torch.uint8,
        *,
        device: str = "cuda",
        network: nn.Module | None = None,
    ) -> None:
        from allfocus.fusion.learned import Plan, context_factor

        count, _, height, width = shape
        self._network = load_shipped(device) if network is None else network
        self._frames = torch.zeros(shape, dtype=dtype, device=device)
        scale = decision_scale(height, width)
        size = (-(-height // scale), -(-width // scale))
        windows = cut_windows(*size)
        plan = Plan((height, width), scale, windows, [list(range(count))] * len(windows), None, count)
        self._scale = scale
        self._factor = context_factor(count, size[0] * size[1])
        self._batches = gpu_fusion.prepare_batches(window_tasks(plan), device)
        reduced = [-(-side // self._factor) for side in size]
        rows, columns = mean_matrices(windows, (reduced[0], reduced[1]), size)
        self._rows, self._columns = torch.from_numpy(rows).to(device), torch.from_numpy(columns).to(device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: tuple[Tensor, Tensor, Tensor, Tensor] | None = None

    def __call__(self, frames: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns picture (C, H, W), decision, depth and confidence (H, W) of frames (frames, C, H, W)."""
        self._frames.copy_(frames)
        if not self._frames.is_cuda:
            return self._fuse()
        if self._graph is None:
            self._record()
        assert self._graph is not None
        assert self._result is not None
        self._graph.replay()
        return self._result

    def _record(self) -> None:
        # Twice on a stream of its own first, as CUDA graphs want it: what is set up on first use must not be recorded.
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._fuse()
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._result = self._fuse()

    def _fuse(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        reduced = gpu_fusion.reduce_frames(gpu_fusion.from_levels(self._frames), self._scale)
        reduced = reduced.expand(-1, 3, -1, -1)
        small = reduced
        for _ in range(self._factor.bit_length() - 1):
            small = gpu_fusion.reduce_frames(small, 2)
        context = gpu_fusion.see_whole(small, self._network, settings())
        prior = torch.einsum("rph,fhw,cqw->rcfpq", self._rows, context, self._columns).flatten(0, 1)
        return gpu_fusion.fuse_windows(
            self._frames, reduced, self._network, self._batches, settings(), scale=self._scale, prior=prior
        )


def run_on_gpu(frames: Sequence[NDArray[np.float32]], device: str = "cuda") -> list[NDArray[np.float32]]:
    """Returns the selection logits (H, W) of each frame (H, W[, 3])."""
    stack = torch.from_numpy(np.stack([three_channels(frame) for frame in frames])).to(device)
    logits = gpu_fusion.run_padded(load_shipped(device), stack.permute(0, 3, 1, 2)[None])
    return list(logits[0].cpu().numpy())


@functools.cache
def load_shipped(device: str) -> nn.Module:
    """Returns the shipped `ips` network on a device, in the layout in which it convolves fastest."""
    with importlib.resources.as_file(weights_folder() / "ips.safetensors") as path:
        network, _ = load_network(path, device=device)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


@functools.cache
def settings() -> gpu_fusion.Settings:
    """Returns the constants of the CPU path."""
    # Imported here because learned imports this module.
    from allfocus.fusion import learned

    return gpu_fusion.Settings(
        evidence_window=blending.EVIDENCE_WINDOW,
        evidence_noise=blending.EVIDENCE_NOISE,
        settling_levels=blending.SETTLING_LEVELS,
        prior_weight=float(blending.PRIOR_WEIGHT),
        largest_margin=blending.LARGEST_MARGIN,
        negligible=float(blending.NEGLIGIBLE),
        never=float(learned.NEVER),
    )


def window_tasks(plan: "Plan") -> list[gpu_fusion.WindowTask]:
    """Returns the windows of a plan as the GPU path wants them."""
    from allfocus.fusion.learned import at_full_scale

    tasks = []
    for number, (window, chosen) in enumerate(zip(plan.windows, plan.chosen, strict=True)):
        target = at_full_scale(window.reach, plan)
        rows, columns = (
            slice(side.start - own.start * plan.scale, side.stop - own.start * plan.scale)
            for side, own in zip(target, window.area, strict=True)
        )
        fading = plan.fading(window)
        tasks.append(
            gpu_fusion.WindowTask(
                area=window.area,
                inside=(rows, columns),
                target=target,
                rows=fading[0],
                columns=fading[1],
                chosen=chosen,
                number=number,
            )
        )
    return tasks


def _send(source: FrameSource, scale: int, device: str) -> tuple[Tensor, Tensor]:
    """Returns the frames (frames, C, H, W) and reduced ones (frames, 3, h, w) on the device."""
    frames, reduced = [], []
    for levels in _levels(source):
        # Pinned memory is sent while the next frame is read.
        sent = _as_tensor(levels, pin=device == "cuda").to(device, non_blocking=True)
        frame = sent.permute(2, 0, 1) if sent.dim() == 3 else sent[None]
        small = gpu_fusion.reduce_frames(gpu_fusion.from_levels(frame)[None], scale)
        frames.append(frame)
        reduced.append(small.expand(-1, 3, -1, -1))
    return torch.stack(frames), torch.cat(reduced)


def _levels(source: FrameSource) -> Iterator[NDArray[Any]]:
    everything = (slice(0, source.shape[0]), slice(0, source.shape[1]))
    for index in range(len(source)):
        yield source.read_levels(index, everything)


def _as_tensor(levels: NDArray[Any], *, pin: bool) -> Tensor:
    """Returns an array as a tensor; 16 bits as int16 with the same bits, because torch can do little with uint16."""
    plain = np.ascontiguousarray(levels)
    tensor = torch.from_numpy(plain.view(np.int16) if plain.dtype == np.uint16 else plain)
    return tensor.pin_memory() if pin else tensor


def _sample(curve: "Curve", device: str) -> Tensor:
    values = np.linspace(0, 1, CURVE_ENTRIES, dtype=np.float32)
    return torch.from_numpy(np.asarray(curve.to_linear(values), np.float32)).to(device)
