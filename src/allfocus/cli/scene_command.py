"""``allfocus scene``: a synthetic stack with its truth."""

from pathlib import Path

import click

from allfocus.cli.examples import examples
from allfocus.cli.known_names import complete_scene
from allfocus.cli.paths import PATH
from allfocus.cli.printing import echo, json_option, overwrite_option, print_json


def parse_size(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, int]:
    """(height, width) of a text like 640x480."""
    width, _, height = value.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise click.BadParameter(f"{value!r} is no size; write it like 640x480", context, parameter)
    return int(height), int(width)


@click.command(
    short_help="Render a synthetic stack with its truth.",
    epilog=examples(
        "allfocus scene desk -o stack --frames 10 --breathing 0.002 --shake 3",
    ),
)
@click.argument("name", shell_complete=complete_scene)
@click.option("-o", "--output", type=PATH, required=True, help="The folder to write into.")
@click.option("--frames", type=int, default=8, show_default=True, help="Number of frames.")
@click.option("--size", callback=parse_size, default="640x480", show_default=True, help="Width x height in pixels.")
@click.option("--aperture", type=float, help="Strength of the blur; the scene's own by default.")
@click.option("--focus", "focus_distances", type=float, multiple=True, help="Distance of focus of a frame; repeat it.")
@click.option("--breathing", type=float, default=0.0, help="Growth of the picture per frame; 0.002 is 0.2 %.")
@click.option("--shake", type=float, default=0.0, help="Largest shift of a frame in pixels.")
@click.option("--noise", type=float, default=0.0, help="Standard deviation at mid-grey; 0..1 is black to white.")
@click.option("--exposure", type=float, default=0.0, help="Largest difference of brightness in stops.")
@click.option("--bit-depth", type=click.Choice(["8", "16"]), default="8", show_default=True, help="Bits per channel.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@overwrite_option
@json_option
def scene(
    name: str,
    output: Path,
    frames: int,
    size: tuple[int, int],
    aperture: float | None,
    focus_distances: tuple[float, ...],
    breathing: float,
    shake: float,
    noise: float,
    exposure: float,
    bit_depth: str,
    seed: int,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Render the scene NAME as a focus stack, with the exact picture that is sharp everywhere.

    There are desk, insect, circuit, slope, foliage, flat and legs.

    Writes frames/frame_00.png ..., truth.png, depth.png (16 bit, near black, far white) and scene.json.
    """
    import allfocus
    from allfocus.scenes.writing import describe_scene, write_scene

    rendered = allfocus.render_scene(
        name,
        frames=frames,
        size=size,
        aperture=aperture,
        focus_distances=focus_distances or None,
        breathing=breathing,
        shake=shake,
        noise=noise,
        exposure=exposure,
        bit_depth=int(bit_depth),
        seed=seed,
    )
    write_scene(rendered, output, overwrite=overwrite)
    if as_json:
        print_json(describe_scene(rendered) | {"folder": output})
    else:
        echo(f"{output}: {len(rendered.frames)} frames of {name!r} in frames/, truth.png, depth.png, scene.json")
