"""Where the weights of rebuilt networks lie, and their tensors: authors' files as they are, and ours.

Authors' files are not part of allfocus, as few of their licences allow it. They are looked for in the folder that the
environment variable ``ALLFOCUS_RIVALS`` names, or named by the user. Three kinds are read: PyTorch (``.pth``, plain
tensors only: no code in the file is run), TensorFlow 1 checkpoints (``.index``), and safetensors.
"""

import math
import os
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.files.opening import open_plain, parse_json
from allfocus.rivals.tensorflow_checkpoint import DATA_ENDING, INDEX_ENDING, read_checkpoint

if TYPE_CHECKING:
    from torch import Tensor

FOLDER_VARIABLE = "ALLFOCUS_RIVALS"
MOST_BYTES = 1 << 30
MOST_HEADER_BYTES = 1 << 20

Tensors = dict[str, NDArray[np.float32]]


def find_weights(names: Sequence[str]) -> Path | None:
    """The first of these files that lies in the folder ``ALLFOCUS_RIVALS``; None when none does.

    Example:
        >>> find_weights(["no-such-file.pth"]) is None
        True
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return None
    return next((path for name in names if (path := Path(folder, name)).is_file()), None)


def files_of(weights: Path) -> list[Path]:
    """All files that belong to weights: of a TensorFlow checkpoint two, otherwise one.

    Example:
        >>> [path.name for path in files_of(Path("u2fusion.index"))]
        ['u2fusion.index', 'u2fusion.data-00000-of-00001']
    """
    if weights.suffix != INDEX_ENDING:
        return [weights]
    return [weights, weights.with_name(weights.name.removesuffix(INDEX_ENDING) + DATA_ENDING)]


def read_weights(path: Path, *, prefix: str = "") -> Tensors:
    """The tensors in a file by their names, as float32.

    Args:
        path: A file that ends in ``.pth``, ``.pt``, ``.safetensors`` or ``.index``.
        prefix: Of a TensorFlow checkpoint, only the tensors whose names begin so.

    Raises:
        InputError: there is no such file, it is of another kind, damaged, too large, or holds values that are not
            finite numbers.
    """
    if path.suffix == INDEX_ENDING or path.name.endswith(DATA_ENDING):
        tensors = read_checkpoint(path, prefix=prefix)
    else:
        _require_file(path)
        readers = {".pth": _read_pytorch, ".pt": _read_pytorch, ".safetensors": _read_safetensors}
        if path.suffix not in readers:
            raise _refusal(path, f"it ends in none of {', '.join([*readers, INDEX_ENDING])}")
        tensors = readers[path.suffix](path)
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise _refusal(path, f"{_short(repr(name))} holds values that are not finite numbers")
    return tensors


def _require_file(path: Path) -> None:
    with open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
    if size > MOST_BYTES:
        raise _refusal(path, f"it has {size} bytes; at most {MOST_BYTES} are read")


def _read_pytorch(path: Path) -> Tensors:
    import torch

    _require_small_archive(path)
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # of zip files, pickles and torch itself, each with errors of its own
        why = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise _refusal(path, f"torch does not take it ({why})") from error
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict) or not content:
        raise _refusal(path, "it holds no tensors by their names")
    for name, tensor in content.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise _refusal(path, "it holds something else than tensors by their names")
        if not _is_plain(tensor):
            raise _refusal(path, f"{_short(repr(name))} is a tensor of a kind that no weights are")
    # Tensors may share their numbers, and one number may stand for all of a tensor: few bytes for gigabytes.
    if (size := 4 * sum(tensor.numel() for tensor in content.values())) > MOST_BYTES:
        raise _refusal(path, f"its tensors have {size} bytes; at most {MOST_BYTES} are read")
    # Networks that were trained on several devices have this before every name.
    return {name.removeprefix("module."): tensor.detach().to(torch.float32).numpy() for name, tensor in content.items()}


def _is_plain(tensor: "Tensor") -> bool:
    """Whether a tensor is nothing but real numbers in memory."""
    import torch

    return (
        tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.is_nested or tensor.is_quantized or tensor.is_neg() or tensor.is_complex())
    )


def _require_small_archive(path: Path) -> None:
    """Refuses an archive that says it unpacks to more than is read: a few bytes can stand for gigabytes of zeros."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return  # the older format, or what torch itself will refuse
    if size > MOST_BYTES:
        raise _refusal(path, f"it unpacks to {size} bytes; at most {MOST_BYTES} are read")


def _read_safetensors(path: Path) -> Tensors:
    """Eight bytes of length, a table in JSON, the numbers; read here, so that torch is all that is needed."""
    with open_plain(path) as file:
        content = file.read(MOST_BYTES)
    try:
        length = struct.unpack("<Q", content[:8])[0]
        if length > min(MOST_HEADER_BYTES, len(content) - 8):
            raise ValueError("its table is longer than the file")
        table = parse_json(content[8 : 8 + length])
        data, taken = memoryview(content)[8 + length :], 0
        tensors = {}
        for name, entry in table.items():
            if name == "__metadata__":
                continue
            start, stop = entry["data_offsets"]
            shape = tuple(entry["shape"])
            if entry["dtype"] != "F32":
                raise ValueError(f"{name!r} is of type {entry['dtype']}; F32 is read")
            if not all(type(side) is int and 0 < side <= MOST_BYTES for side in shape):
                raise ValueError(f"{name!r} has sides that none can have")
            if not 0 <= start <= stop <= len(data) or math.prod(shape) * 4 != stop - start:
                raise ValueError(f"{name!r} does not lie where its table says")
            taken += stop - start
            if taken > len(data):
                raise ValueError("its tensors share their numbers")
            tensors[name] = np.frombuffer(data[start:stop], "<f4").reshape(shape).astype(np.float32)
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise _refusal(path, f"no safetensors, or damaged ({_short(error)})") from error
    if not tensors:
        raise _refusal(path, "it holds no tensors")
    return tensors


def _short(text: object) -> str:
    """What a file says, in a message: as one line, and not all of it."""
    return " ".join(str(text).split())[:200]


def _refusal(path: Path, why: str) -> InputError:
    return InputError(f"cannot be read as weights: {why}", where=path, code="bad-weights")
