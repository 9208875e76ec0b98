"""Where the weights of rebuilt networks lie, and their tensors: authors' files as they are, and ours.

Authors' files are not part of allfocus, as few of their licences allow it. They are looked for in the folder that the
environment variable ``ALLFOCUS_RIVALS`` names, or named by the user. Three kinds are read: PyTorch (``.pth``, plain
tensors only: no code in the file is run), TensorFlow 1 checkpoints (``.index``), and safetensors.
"""

import json
import math
import os
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.rivals.tensorflow_checkpoint import DATA_ENDING, INDEX_ENDING, read_checkpoint

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
            raise _refusal(path, f"{name!r} holds values that are not finite numbers")
    return tensors


def _require_file(path: Path) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise InputError("there is no such file of weights", where=path, code="no-such-file") from error
    if not path.is_file():
        raise InputError("this is no file of weights", where=path, code="unreadable-file")
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
    tensors = {}
    for name, tensor in content.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise _refusal(path, "it holds something else than tensors by their names")
        # Networks that were trained on several devices have this before every name.
        tensors[name.removeprefix("module.")] = tensor.detach().to(torch.float32).numpy()
    return tensors


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
    content = path.read_bytes()
    try:
        length = struct.unpack("<Q", content[:8])[0]
        if length > min(MOST_HEADER_BYTES, len(content) - 8):
            raise ValueError("its table is longer than the file")
        table = json.loads(content[8 : 8 + length])
        data = memoryview(content)[8 + length :]
        tensors = {}
        for name, entry in table.items():
            if name == "__metadata__":
                continue
            start, stop = entry["data_offsets"]
            shape = tuple(int(side) for side in entry["shape"])
            if entry["dtype"] != "F32":
                raise ValueError(f"{name!r} is of type {entry['dtype']}; F32 is read")
            if not 0 <= start <= stop <= len(data) or math.prod(shape) * 4 != stop - start:
                raise ValueError(f"{name!r} does not lie where its table says")
            tensors[name] = np.frombuffer(data[start:stop], "<f4").reshape(shape).astype(np.float32)
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError) as error:
        raise _refusal(path, f"no safetensors, or damaged ({error})") from error
    if not tensors:
        raise _refusal(path, "it holds no tensors")
    return tensors


def _refusal(path: Path, why: str) -> InputError:
    return InputError(f"cannot be read as weights: {why}", where=path, code="bad-weights")
