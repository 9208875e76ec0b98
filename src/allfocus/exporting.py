"""A trained network -> an ONNX file in its place: a result like every other, which replaces nothing unasked.

Loaded only by ``allfocus.export_onnx``; it imports PyTorch at its top, so that a missing one is told as such.
"""

import dataclasses
import os
import tempfile
from pathlib import Path

from allfocus.errors import ExportError
from allfocus.files.placing import StagedFiles
from allfocus.files.protection import InputFiles
from allfocus.images.writing import check_output
from allfocus.network import onnx_export


def export_onnx(
    checkpoint: str | os.PathLike[str], output: str | os.PathLike[str], *, overwrite: bool = False
) -> onnx_export.ExportReport:
    """What was written: the `ips` network in `checkpoint` as ONNX, proven to compute what torch does.

    Args:
        checkpoint: A weights file, or the folder of a run.
        output: The file to write.
        overwrite: Replace it if it exists; the weights themselves are never replaced.

    Raises:
        InputError: the checkpoint cannot be read, or holds `ips-paper`, which runs in torch only.
        OutputError: the output exists, or cannot be written.
        ExportError: the ONNX file computes something else than torch; it is not left behind.
    """
    source, target = Path(checkpoint), Path(output)
    read = [source, source / "weights.safetensors"]
    InputFiles(read).refuse([target])
    check_output(target, overwrite=overwrite, picture=False)
    with tempfile.TemporaryDirectory(prefix="allfocus-export-") as folder:
        made = Path(folder) / "network.onnx"
        try:
            report = onnx_export.export_onnx(source, made)
        except ExportError as error:
            raise ExportError(error.message.replace(str(made), str(target))) from error
        with StagedFiles(overwrite=overwrite, inputs=read) as files:
            files.add(target, made.read_bytes())
    return dataclasses.replace(report, path=target)
