"""``allfocus relief``: a fused picture and its depth -> a mesh, a body to print, a stereo pair or an animation."""

from pathlib import Path
from typing import Any

import click

from allfocus.cli.examples import examples
from allfocus.cli.paths import PATH
from allfocus.cli.printing import echo, json_option, overwrite_option, print_json, print_notice


@click.command(
    short_help="Make a 3D model of a fused picture and its depth.",
    epilog=examples(
        "allfocus relief sharp.tif depth.tif -o beetle.glb",
        "allfocus relief sharp.png depth.png -o beetle.stl --pixel-size 2um --depth-range 1.5mm",
        "allfocus relief sharp.png depth.png -o rocking.gif",
    ),
)
@click.argument("picture", type=PATH)
@click.argument("depth", type=PATH)
@click.option(
    "-o",
    "--output",
    type=PATH,
    required=True,
    help="The file to write: .glb .obj .ply (mesh), .stl (closed body), .gif .webm (rocking), .png .jpg (stereo pair).",
)
@click.option("--pixel-size", metavar="LENGTH", help="How far pixels are apart, such as 1.2um; as the depth map says.")
@click.option("--z-step", metavar="LENGTH", help="How far frames are apart, for a depth map in steps.")
@click.option("--depth-range", metavar="LENGTH", help="How far the last frame is from the first, for a grey depth map.")
@click.option("--first", type=click.Choice(["near", "far"]), default="near", show_default=True, help="Of the frames.")
@click.option("--exaggerate", type=float, default=1.0, show_default=True, help="Factor on heights.")
@click.option("--most-faces", type=int, default=1_000_000, show_default=True, help="Triangles (or points) at the most.")
@click.option("--points", is_flag=True, help="Write a cloud of points with colours (.ply) instead of triangles.")
@click.option("--join", is_flag=True, help="Keep the triangles that span edges of depth.")
@click.option("--swing", type=float, default=0.03, show_default=True, help="How far views move, of the width.")
@overwrite_option
@json_option
def relief(picture: Path, depth: Path, output: Path, overwrite: bool, as_json: bool, **values: Any) -> None:
    """Make a relief of PICTURE, a fused picture, and DEPTH, its depth map from `fuse --depth-map`.

    Holes of the depth map stay holes and edges of depth stay open, but for .stl, which is closed for printing. Lengths
    are millimetres, in .glb metres.
    """
    from allfocus.relief.writing import ReliefOptions, write_relief

    options = ReliefOptions(**values)
    files = write_relief(picture, depth, output, options, overwrite=overwrite, notice=print_notice)
    if as_json:
        print_json({"output": files[0], "outputs": files})
        return
    for path in files:
        echo(path)
