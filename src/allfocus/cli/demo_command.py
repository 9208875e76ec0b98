"""``allfocus demo``: renders a stack, fuses it, and measures how much that helped."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allfocus.cli.known_names import complete_method, complete_scene
from allfocus.cli.paths import PATH
from allfocus.cli.printing import (
    device_option,
    echo,
    json_option,
    overwrite_option,
    print_json,
    print_table,
    progress_bar,
)
from allfocus.errors import AllfocusError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from allfocus.scenes.rendering import Scene

    Pixels = NDArray[np.float32]

SMALLEST_GAIN = 8.0
"""dB over the best single frame below which the demo reports failure: something is then wrong with the installation."""


@dataclass(frozen=True)
class DemoScores:
    """How near each picture comes to the truth."""

    frames: list[tuple[float, float]]
    """(PSNR in dB, SSIM) of each single frame."""

    fused: tuple[float, float]
    """(PSNR in dB, SSIM) of the fused picture."""

    @property
    def best_frame(self) -> int:
        """The number of the single frame with the highest PSNR."""
        return max(range(len(self.frames)), key=lambda number: self.frames[number][0])

    @property
    def gain(self) -> float:
        """PSNR of the fused picture above that of the best single frame, in dB."""
        return self.fused[0] - self.frames[self.best_frame][0]


@click.command(short_help="Render a stack, fuse it, measure the gain.")
@click.option("-o", "--output", type=PATH, default="demo", show_default=True, help="The folder.")
@click.option(
    "--scene",
    "scene_name",
    default="desk",
    show_default=True,
    shell_complete=complete_scene,
    help="The scene to render.",
)
@click.option(
    "--method",
    default="ips",
    show_default=True,
    shell_complete=complete_method,
    help="How to fuse; see allfocus methods.",
)
@device_option
@overwrite_option
@json_option
def demo(output: Path, scene_name: str, method: str, device: str, overwrite: bool, as_json: bool) -> None:
    """Render a stack, fuse it, and print PSNR and SSIM against the ground truth, beside the best single frame."""
    import allfocus
    from allfocus.images.writing import check_output
    from allfocus.scenes.writing import write_scene
    from allfocus.stack.result import decision_picture

    written = ["truth.png", "fused.png", "before_after.png"]
    for name in [*written, "decision_map.png"] if os.path.exists(output) else []:
        check_output(output / name, overwrite=overwrite)
    with progress_bar() as progress:
        progress("rendering", 0, 1)
        rendered = allfocus.render_scene(scene_name)
        paths = write_scene(rendered, output, overwrite=overwrite)
        progress("rendering", 1, 1)
        result = allfocus.fuse_files(
            paths,
            output / "fused.png",
            method=method,
            overwrite=overwrite,
            device=device,
            progress=progress,
        )
    fused = allfocus.read_image(output / "fused.png").pixels  # what the user will see, rounding included
    scores = score_demo(rendered, fused)
    if result.decision is not None:
        decision = decision_picture(result.decision, len(paths))
        allfocus.write_image(decision, output / "decision_map.png", overwrite=overwrite)
        written.append("decision_map.png")
    comparison = before_and_after(rendered.frames[scores.best_frame], fused, rendered.truth)
    allfocus.write_image(comparison, output / "before_after.png", overwrite=overwrite)
    if as_json:
        print_json(_as_dictionary(scores, output, method))
    else:
        _print_scores(scores, method)
        echo(f"frames          {output / 'frames'}")
        for name in written:
            echo(f"{Path(name).stem.replace('_', ' '):<15} {output / name}")
    if not scores.gain >= SMALLEST_GAIN:
        raise AllfocusError(
            f"the fused picture is only {scores.gain:.2f} dB above the best single frame where {SMALLEST_GAIN:g} dB or "
            f"more are expected; {method} does not work well here, try another of allfocus methods"
        )


def score_demo(rendered: "Scene", fused: "Pixels") -> DemoScores:
    """PSNR and SSIM of each frame and of the fused picture against the truth."""
    import allfocus

    def against_truth(picture: "Pixels") -> tuple[float, float]:
        values = allfocus.score(picture, rendered.frames, reference=rendered.truth, metrics=["PSNR", "SSIM"])
        return values["PSNR"], values["SSIM"]

    return DemoScores([against_truth(frame) for frame in rendered.frames], against_truth(fused))


def before_and_after(frame: "Pixels", fused: "Pixels", truth: "Pixels") -> "Pixels":
    """One picture to look at: a single frame beside the fused picture, and below both the part that gained most.

    Args:
        frame: ``(H, W, 3)``, 0..1.
        fused: The same shape.
        truth: The same shape; tells where the gain is.
    """
    import numpy as np
    from PIL import Image as PillowImage
    from PIL import ImageDraw
    from PIL.Image import Resampling

    from allfocus.images.conversion import from_integers, to_integers

    height, width = frame.shape[:2]
    side_y, side_x = height // 4, width // 4
    top, left = _largest_gain(((frame - truth) ** 2).mean(2) - ((fused - truth) ** 2).mean(2), side_y, side_x)
    margin, caption = 8, 24
    canvas = PillowImage.new("RGB", (2 * width + 3 * margin, 2 * (height + caption) + margin), "white")
    draw = ImageDraw.Draw(canvas)
    for column, (title, pixels) in enumerate((("one frame of the stack", frame), ("fused by allfocus", fused))):
        x = margin + column * (width + margin)
        whole = PillowImage.fromarray(to_integers(pixels, 8))
        part = whole.crop((left, top, left + side_x, top + side_y)).resize((width, height), Resampling.NEAREST)
        ImageDraw.Draw(whole).rectangle((left, top, left + side_x - 1, top + side_y - 1), outline="red")
        draw.text((x, 6), title, fill="black")
        canvas.paste(whole, (x, caption))
        draw.text((x, caption + height + 6), "the red part, four times larger", fill="black")
        canvas.paste(part, (x, 2 * caption + height))
    return from_integers(np.asarray(canvas))


def _largest_gain(gain: "Pixels", side_y: int, side_x: int) -> tuple[int, int]:
    """Top and left of the window in which the sum of ``gain`` is largest."""
    import numpy as np

    sums = np.pad(gain.astype(np.float64).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    windows = sums[side_y:, side_x:] - sums[:-side_y, side_x:] - sums[side_y:, :-side_x] + sums[:-side_y, :-side_x]
    top, left = np.unravel_index(int(windows.argmax()), windows.shape)
    return int(top), int(left)


def _as_dictionary(scores: DemoScores, output: Path, method: str) -> dict[str, Any]:
    return {
        "method": method,
        "folder": output,
        "frames": [{"psnr": psnr, "ssim": ssim} for psnr, ssim in scores.frames],
        "fused": {"psnr": scores.fused[0], "ssim": scores.fused[1]},
        "best_frame": scores.best_frame,
        "gain": scores.gain,
    }


def _print_scores(scores: DemoScores, method: str) -> None:
    rows = [[f"frame {number}", f"{psnr:.2f}", f"{ssim:.4f}"] for number, (psnr, ssim) in enumerate(scores.frames)]
    rows.append([f"fused ({method})", f"{scores.fused[0]:.2f}", f"{scores.fused[1]:.4f}"])
    print_table(["against the truth", "PSNR dB", "SSIM"], rows, numbers=True)
    echo(f"{scores.gain:+.2f} dB over the best single frame (frame {scores.best_frame})\n", lines=True)
