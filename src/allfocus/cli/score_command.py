"""``allfocus score``: every metric of one fused picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from allfocus.cli.printing import json_option, print_json, print_table

if TYPE_CHECKING:
    from numpy.typing import NDArray


@click.command(short_help="Score one fused picture.")
@click.argument("fused", type=click.Path(path_type=Path))
@click.option(
    "--source",
    "sources",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path),
    help="A frame it was made of; give the option once for each.",
)
@click.option("--reference", type=click.Path(path_type=Path), help="The truth, for PSNR and SSIM.")
@click.option(
    "--protocol",
    type=click.Choice(["grey", "rgb-mean"]),
    default="grey",
    show_default=True,
    help="Score the grey picture, or each channel and then the mean.",
)
@json_option
def score(
    fused: Path, sources: tuple[Path, ...], reference: Path | None, protocol: Literal["grey", "rgb-mean"], as_json: bool
) -> None:
    """Score the picture FUSED with every metric that its sources and reference allow."""
    import allfocus

    values = allfocus.score(
        _levels(fused),
        [_levels(source) for source in sources],
        reference=None if reference is None else _levels(reference),
        protocol=protocol,
    )
    if as_json:
        print_json({"fused": fused, "sources": sources, "reference": reference, "protocol": protocol, "scores": values})
    else:
        print_table(["metric", protocol], [[name, f"{value:.6f}"] for name, value in values.items()], numbers=True)


def _levels(path: Path) -> "NDArray[Any]":
    """The picture as the integers its file holds, which is what the metrics are defined on."""
    from allfocus.images.reading import read_image
    from allfocus.images.writing import to_integers

    image = read_image(path)
    return to_integers(image.pixels, image.bit_depth)
