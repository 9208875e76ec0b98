"""Running the shipped network, or one's own: one level of a stack -> its decision, by onnxruntime without torch."""

import functools
import importlib.resources
import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import AllfocusError, InputError
from allfocus.fusion.accelerators import (
    ACCELERATORS,
    DeviceVerdict,
    Inputs,
    NetworkRun,
    compare,
    first_line,
    remembered,
    require_provider,
)
from allfocus.fusion.decisions import VEIL_CHANNELS
from allfocus.fusion.network_checks import read_network, require_finite
from allfocus.network.contract import graph_inputs
from allfocus.network.graph_file import graph_of

Kind = Literal["whole", "context", "refine", "inner-context", "inner-refine"]
"""A graph of the network, of those in the contract."""
ONNX = "-onnx"
"""Ends the name of a device that onnxruntime runs and that torch could run too."""
_FALLBACKS: list[str] = []
"""Sentences about accelerators that were not used; facts about this process."""


def choose_device(asked: str) -> str:
    """Returns what the network runs on: ``cpu``, ``cuda`` (torch), ``cuda-onnx``, or another of onnxruntime's.

    Args:
        asked: ``cpu``, a name of :data:`.accelerators.ACCELERATORS`, or ``auto`` for the first of them that is there,
            gives the results of the processor, and is no slower.

    Raises:
        InputError: an accelerator was asked for and cannot be used.

    Example:
        >>> choose_device("cpu")
        'cpu'
    """
    if asked == "cpu":
        return "cpu"
    if asked == "auto":
        return next((device for device in accelerators_here() if _is_worth_it(device)), "cpu")
    if asked != "cuda":
        require_provider(asked)
        return asked
    if _torch_finds_a_gpu():
        return "cuda"
    if ACCELERATORS["cuda"].provider is not None:
        return f"cuda{ONNX}"
    raise InputError(
        "device cuda was asked for, but neither torch nor onnxruntime finds a GPU; install torch with CUDA "
        "(allfocus[train]) or onnxruntime-gpu, or use cpu",
        code="no-gpu",
    )


def accelerators_here() -> list[str]:
    """Returns the devices that ``auto`` tries: those that are installed, and for which there are signs of hardware."""
    found = ["cuda"] if ACCELERATORS["cuda"].shown_by() and _torch_finds_a_gpu() else []
    for one in ACCELERATORS.values():
        if one.shown_by() and one.provider is not None:
            found.append(f"cuda{ONNX}" if one.name == "cuda" else one.name)
    return found


def fallback_notices() -> list[str]:
    """Returns a sentence for each accelerator that this process would have used, and why it did not."""
    return list(_FALLBACKS)


def judge_device(device: str, *, fresh: bool = False) -> DeviceVerdict:
    """Returns how a device does beside the processor, with the shipped network; remembered from the first time.

    Args:
        device: from :func:`accelerators_here`.
        fresh: compare again.
    """
    verdict = _judge(device, 0, None, "context", fresh=fresh)
    return replace(verdict, timed=ACCELERATORS[device.removesuffix(ONNX)].timed)


def _torch_finds_a_gpu() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


@functools.cache
def _is_worth_it(device: str) -> bool:
    verdict = judge_device(device)
    if not verdict.is_worth_it and not verdict.known:  # once is enough; `allfocus doctor` tells it again
        _tell(f"the network runs on the processor, not on {device}: {verdict.reason}")
    return verdict.is_worth_it


def _tell(sentence: str) -> None:
    if sentence not in _FALLBACKS:
        _FALLBACKS.append(sentence)
        logging.getLogger("allfocus").warning(sentence)


def _judge(device: str, threads: int, weights: str | None, kind: Kind, *, fresh: bool = False) -> DeviceVerdict:
    """Returns how one graph of a network does on a device beside the processor."""

    def runner(place: str) -> NetworkRun:
        if place == "cuda":
            return lambda inputs: _run_torch(inputs, kind)
        session = _open_session(place, threads, weights, kind)
        return lambda inputs: session.run(None, inputs)

    return remembered(
        device,
        kind,
        _weights_file(weights).read_bytes(),
        lambda: compare(lambda: runner(device), lambda: runner("cpu"), graph_inputs(kind)),
        fresh=fresh,
    )


class LevelOutput(NamedTuple):
    """What the network says of one level in one window."""

    logits: NDArray[np.float32]
    """(n, H, W); a softmax over the frames gives their weights."""
    veil: NDArray[np.float32]
    """(n, 4, H / 4, W / 4); see `allfocus.network.decision.Decision`."""


class Above(NamedTuple):
    """What the level above has decided in the same place, at half the height and width."""

    behind: NDArray[np.float32]
    """(n, H / 2, W / 2)"""
    veil: NDArray[np.float32]
    """(n, 4, H / 8, W / 8)"""


def run_level(
    frames: NDArray[np.float32],
    above: Above | None,
    *,
    device: str,
    threads: int,
    weights: str | None = None,
    refine: bool = False,
    size: tuple[int, int] | None = None,
    release: bool = False,
) -> LevelOutput:
    """Returns what the network says of frames (n, 3, H, W).

    Args:
        frames: two or more; height and width multiples of SIZE_MULTIPLE, values about 0..1 over the whole stack.
        above: the decision of the level above; None at the coarsest level, which sees the picture whole.
        device: from :func:`choose_device`; not ``cuda`` for weights of one's own.
        threads: cores that this run may use.
        weights: an ONNX file that ``allfocus export`` wrote; None for the shipped one.
        refine: decide by the detail of this level alone, and what is above it.
        size: rows and columns of the frames that are of the picture; None for all. What follows is beyond its end.
        release: give the memory that this took back to the system; for runs that take far more than those that follow,
            which would keep it for nothing.

    Raises:
        InputError: a network of one's own gives something that is no number.
    """
    count, _, height, width = frames.shape
    rows, columns = size or (height, width)
    kind: Kind = "whole" if above is None else "refine" if refine else "context"
    # Accelerators are checked graph by graph, so they keep to the few that do for all.
    if above is not None and (rows, columns) == (height, width) and device == "cpu":
        kind = "inner-refine" if refine else "inner-context"
    inside = np.zeros((height, width), np.float32)
    inside[:rows, :columns] = 1
    inputs = {"frames": frames, "inside": inside}
    if above is not None:
        inputs |= {"behind": above.behind, "veil_above": above.veil}
    needed = {name: inputs[name] for name in graph_inputs(kind)}
    found = _run(needed, device, threads, weights, kind, release=release)
    shapes = ((count, height, width), (count, VEIL_CHANNELS, height // 4, width // 4))
    return LevelOutput(*(require_finite(part, shape, weights) for part, shape in zip(found, shapes, strict=True)))


def _run(inputs: Inputs, device: str, threads: int, weights: str | None, kind: Kind, *, release: bool) -> Any:
    """Runs a graph on a device, or on the processor where the device fails, for want of memory for example."""
    stamp = _stamp(weights)
    try:
        if device == "cuda":
            return _run_torch(inputs, kind)
        session = _session(device, threads, weights, kind, stamp)
        return session.run(None, inputs, _releasing()) if release and device == "cpu" else session.run(None, inputs)
    except AllfocusError:
        raise
    except Exception as error:
        if device == "cpu":
            raise
        _tell(f"a part was done on the processor, because {device} failed: {first_line(error)}")
        return _session("cpu", threads, weights, kind, stamp).run(None, inputs)


def _run_torch(inputs: dict[str, NDArray[np.float32]], kind: Kind) -> list[NDArray[np.float32]]:
    import torch

    tensors = {name: torch.from_numpy(part).to("cuda") for name, part in inputs.items()}
    # bfloat16 has the range of float32, and the logits that matter are small numbers.
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        found = _torch_graph(kind)(**tensors)
    return [part.float().cpu().numpy() for part in found]


@functools.cache
def _torch_graph(kind: Kind) -> Any:
    from allfocus.network.checkpoint import load_network
    from allfocus.network.onnx_export import LevelGraph

    with importlib.resources.as_file(weights_folder() / "ips.safetensors") as path:
        network, _ = load_network(path, device="cuda")
    return LevelGraph(network, kind)  # type: ignore[arg-type]  # the shipped weights are those of a StackNetwork


def three_channels(frame: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns (H, W, 3) of a frame in grey or colour."""
    return frame if frame.ndim == 3 else np.repeat(frame[..., None], 3, axis=2)


def weights_folder() -> Traversable:
    """Where the shipped weights lie."""
    return importlib.resources.files("allfocus") / "weights"


def _stamp(weights: str | None) -> tuple[int, int]:
    """Returns what tells a file of weights from one that is written in its place later."""
    if weights is None:
        return 0, 0
    try:
        found = os.stat(weights)
    except OSError:
        return 0, 0  # reading it will say why
    return found.st_mtime_ns, found.st_size


@functools.cache
def _session(device: str, threads: int, weights: str | None, kind: Kind, stamp: tuple[int, int] = (0, 0)) -> Any:
    """Returns what runs a graph on a device, or on the processor where the device does not give the same results."""
    if device == "cpu":
        return _open_session("cpu", threads, weights, kind)
    verdict = _judge(device, threads, weights, kind)
    if not verdict.is_right:
        _tell(f"the network runs on the processor, not on {device}: {verdict.reason}")
        return _session("cpu", threads, weights, kind, stamp)
    return _open_session(device, threads, weights, kind)


def _weights_file(weights: str | None) -> Traversable:
    return weights_folder() / "ips.onnx" if weights is None else Path(weights)


class _OneAtATime:
    """A session that runs one thing at a time, for providers that cannot do more."""

    def __init__(self, session: Any) -> None:
        self._session, self._lock = session, threading.Lock()

    def run(self, names: Sequence[str] | None, inputs: Inputs) -> Any:
        """Run it when nobody else does."""
        with self._lock:
            return self._session.run(names, inputs)


@functools.cache
def _releasing() -> Any:
    """Returns what tells a run to give back the memory of the pool that nothing needs when it is done."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return options


@functools.cache
def _has_common_pool() -> bool:
    """Makes one pool of memory for all graphs of this process; else each would keep its own, a third more in all."""
    import onnxruntime

    kind, use = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, onnxruntime.OrtMemType.DEFAULT
    try:
        onnxruntime.create_and_register_allocator(onnxruntime.OrtMemoryInfo("Cpu", kind, 0, use), None)
    except Exception:  # somebody else in this process has made one, with settings of their own
        return False
    return True


def _open_session(device: str, threads: int, weights: str | None, kind: Kind) -> Any:
    # Imported here so that classical methods do not pay for it.
    import onnxruntime

    providers: list[Any] = ["CPUExecutionProvider"]
    accelerator = None if device == "cpu" else ACCELERATORS[device.removesuffix(ONNX)]
    if accelerator is not None:
        providers.insert(0, (require_provider(accelerator.name), accelerator.options))
    file = _weights_file(weights)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Windows have many sizes; memory kept for each of them would pile up.
    options.enable_mem_pattern = False
    # Threads that wait for work sleep: spinning would cost processor time while other parts of the fusion run.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if accelerator is None and _has_common_pool():
        options.add_session_config_entry("session.use_env_allocators", "1")
    settings: dict[str, Any] = {"providers": providers}
    if accelerator is not None:
        # What it cannot do is told by us, and not on stdout; and nothing else is put in its place unasked.
        options.log_severity_level = 4
        settings["enable_fallback"] = 0
    try:
        # The shipped one is as trusted as the code beside it.
        content = file.read_bytes() if weights is None else read_network(file)
        session = onnxruntime.InferenceSession(graph_of(content, kind), options, **settings)
        names, outputs = [entry.name for entry in session.get_inputs()], len(session.get_outputs())
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error
    except InputError:
        raise
    except KeyError as error:
        raise InputError(f"{file}: is not a network of this version; allfocus export writes one") from error
    except Exception as error:  # onnxruntime has classes of its own for each thing that can be wrong with a file
        if weights is None or accelerator is not None:
            raise
        raise InputError(f"{file}: is no ONNX file that can be run; allfocus export writes one") from error
    if names != list(graph_inputs(kind)) or outputs != len(LevelOutput._fields):
        raise InputError(f"{file}: is not a network that selects among frames; allfocus export writes one")
    if accelerator is None:
        return session
    if session.get_providers()[0] != providers[0][0]:
        raise RuntimeError(f"onnxruntime could not load {providers[0][0]}; its libraries or its driver are missing")
    return _OneAtATime(session) if accelerator.serial else session
