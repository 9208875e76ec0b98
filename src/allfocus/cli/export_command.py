"""``allfocus export``: a trained network -> ONNX, proven equal."""

import os
from pathlib import Path

import click

from allfocus.cli.paths import PATH
from allfocus.cli.printing import echo, json_option, overwrite_option, print_json


@click.command(short_help="Export trained weights to ONNX.")
@click.argument("run", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="The .onnx file to write.")
@overwrite_option
@json_option
def export(run: Path, output: Path, overwrite: bool, as_json: bool) -> None:
    """Export the weights of RUN (a folder of allfocus train, or a .safetensors file) and prove that they agree."""
    import allfocus

    report = allfocus.export_onnx(weights_of_run(run), output, overwrite=overwrite)
    if as_json:
        content = {"output": output, "largest_difference": report.largest_difference, "opset": report.opset}
        print_json({**content, "parameters": report.parameters})
    else:
        echo(
            f"{output}: {report.parameters} parameters, opset {report.opset}, "
            f"largest difference from torch {report.largest_difference:.1e}"
        )


def weights_of_run(run: Path) -> Path:
    """The weights file that a run leaves, or the file itself when one is named.

    Raises:
        InputError: there are no weights.
    """
    from allfocus.errors import InputError

    weights = run / "weights.safetensors" if os.path.isdir(run) else run
    if not os.path.isfile(weights):
        raise InputError(f"{weights}: no such file; give the folder of a finished run or a .safetensors file")
    return weights
