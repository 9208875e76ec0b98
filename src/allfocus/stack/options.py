"""What the fusion of a stack of files can be told: the only home of its options.

Command line, batch, studio (its HTTP body and its page), report, ``fuse_files`` and the command to copy are made from
the class below, and from :class:`allfocus.stack.outputs.FuseOutputs` for the files to write. A new option is one field
with its help text; ``tests/contracts/test_options.py`` sees to it that every front end has it. Nothing heavy is
imported here, because ``allfocus --help`` shows all of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, TypedDict

from allfocus.errors import InputError
from allfocus.fusion.devices import DEVICES
from allfocus.images.limits import DEMOSAICS, MAX_PIXELS, Compression, Storing
from allfocus.stack.option_fields import BATCH, STUDIO, About, described, document, option
from allfocus.stack.outputs import AnyPath, FuseOutputs, describe_outputs

CHOSEN_ON_COMING = "chosen when a file comes in"
CHOSEN_ON_SAVING = "chosen when a result is saved"
NOT_MEASURED_IN = "maps are looked at there, not measured in"
SHOWN_AS_READ = "frames are shown and painted with there as they are read"
SERVERS_OWN = "a setting of the server, not of its clients"
ALL_FUSED = "all are fused there, and each can be hidden"


class Demands(TypedDict):
    """What is asked of a method; see ``fusion.method_choice.require_method``."""

    device: str
    prefer: str | None
    unveil: bool
    linear_light: bool | None
    maps: bool
    veil_map: bool


class AlignmentWishes(TypedDict):
    """How frames are aligned; see ``stack.frames.align_frames``."""

    skip_bad: bool
    reference: int | None
    brightness: bool


@dataclass(frozen=True)
class FuseOptions:
    """How a stack is fused. It names no files, so the same options serve any number of stacks.

    Raises:
        InputError: a value is none of its choices, or beyond its limits.

    Example:
        >>> FuseOptions(method="dsift", align=False).quality
        95
    """

    method: str = option(
        "ips", "How to fuse: a name that `allfocus methods` lists, or the .onnx file of a network of your own",
        title="Method",
    )  # fmt: skip
    align: bool = option(
        True, "Align the frames: correct shift, rotation and focus breathing",
        title="Align the frames", flags="--align/--no-align",
    )  # fmt: skip
    crop: bool = option(
        True, "Crop aligned frames to the area that all of them show, or keep the size of the reference frame",
        title="Crop to the common area", rare=True, flags="--crop/--keep-size",
    )  # fmt: skip
    reference: int | None = option(
        None, "The frame, counted from 1, onto which the others are aligned; by default the middle one",
        title="Reference frame", limits=(1, None), metavar="NUMBER",
        absent={STUDIO: "there it is always the middle frame"},
    )  # fmt: skip
    brightness: bool = option(
        True, "Bring all frames to the brightness and white balance of the reference, where aligning finds they differ",
        title="Match brightness", rare=True, flags="--brightness/--no-brightness",
    )  # fmt: skip
    prefer: str | None = option(
        None, "Which end of the stack wins where frames conflict; the first frame counts as nearest",
        title="In doubt, prefer", ability="prefers",
        choices={"near": "the first frames: whole hairs and feelers", "far": "the last frames: calm backgrounds"},
    )  # fmt: skip
    skip_bad: bool = option(
        False, "Leave out frames that are damaged or do not belong, and name them, instead of stopping",
        title="Leave out bad frames", flags="--skip-bad",
    )  # fmt: skip
    cull: bool = option(
        False, "Leave out frames that add nothing, because others are sharper wherever focus matters, and name them",
        title="Leave out frames that add nothing", rare=True, flags="--cull",
    )  # fmt: skip
    dark: str | None = option(
        None, "A picture taken without light (lens cap on, the same exposure), which is subtracted from every frame",
        title="Dark frame", metavar="FILE", absent={STUDIO: SHOWN_AS_READ},
    )  # fmt: skip
    hot_pixels: bool = option(
        False, "Fill the hot pixels of the sensor from around them: what stands out in every frame, or in the dark one",
        title="Fill hot pixels", flags="--hot-pixels",
        absent={STUDIO: SHOWN_AS_READ},
    )  # fmt: skip
    fill_rims: bool = option(
        True, "Where frames end in black or white, as other software leaves aligned ones, take what other frames show",
        title="Fill empty rims", rare=True, flags="--fill-rims/--no-fill-rims",
    )  # fmt: skip
    position: str | None = option(
        None, "Which position of a file with several: its name, or its number from 1; all makes a series of them",
        title="Position", metavar="NAME", absent={STUDIO: CHOSEN_ON_COMING},
    )  # fmt: skip
    time: str | None = option(
        None, "Which point in time of a file with several: its number from 1; all makes a series of them",
        title="Point in time", metavar="NUMBER", absent={STUDIO: CHOSEN_ON_COMING},
    )  # fmt: skip
    channels: str | None = option(
        None, "Only these channels of a file with several: names or numbers from 1, with commas; by default all",
        title="Channels", metavar="NAMES", absent={STUDIO: ALL_FUSED},
    )  # fmt: skip
    decide_by: str = option(
        "all", "By which channels the plane of each pixel is decided, for all channels alike: names, numbers or all; "
        "each decides every channel by itself",
        title="Decide by", metavar="NAMES",
    )  # fmt: skip
    pairs: str = option(
        "raw", "Which file to take of a shot that lies there twice, as RAW and as JPEG or HEIF",
        title="RAW and JPEG of one shot", rare=True,
        choices={"raw": "the RAW file, developed alike for all frames", "jpeg": "the file that the camera developed"},
    )  # fmt: skip
    demosaic: str = option(
        "ahd", "How camera RAW frames get the colours that each pixel of the sensor did not see",
        title="Demosaicing", choices=DEMOSAICS, absent={STUDIO: SHOWN_AS_READ},
    )  # fmt: skip
    linear_light: bool | None = option(
        None, "Blend in linear light; by default when the frames tell their transfer curve",
        title="Blend in linear light", rare=True, flags="--linear-light/--no-linear-light", ability="linear_light",
    )  # fmt: skip
    unveil: bool = option(
        True, "Remove the haze that blurred foreground lays over what is behind it",
        title="Remove foreground haze", rare=True, flags="--unveil/--no-unveil", ability="unveils",
    )  # fmt: skip
    slabs: tuple[int, int] | None = option(
        None, "Also fuse every SIZE neighbouring frames by themselves, for retouching; slabs share OVERLAP frames",
        title="Slabs", flags="--slab", metavar="SIZE,OVERLAP",
        absent={
            BATCH: "the names of slabs depend on which frames can be read",
            STUDIO: "there they are made of a finished result",
        },
    )  # fmt: skip
    z_step: str | None = option(
        None, "How far neighbouring frames are apart, such as 2.5um: depth is then written in that unit",
        title="Step between frames", metavar="LENGTH", absent={STUDIO: NOT_MEASURED_IN},
    )  # fmt: skip
    pixel_size: str | None = option(
        None, "How far neighbouring pixels are apart, such as 0.8um: written into the depth map",
        title="Size of a pixel", metavar="LENGTH", absent={STUDIO: NOT_MEASURED_IN},
    )  # fmt: skip
    filled: bool = option(
        False, "Close the holes of the depth map, where nothing could be measured, along surfaces",
        title="Depth without holes", flags="--filled", absent={STUDIO: "its relief has no holes"},
    )  # fmt: skip
    bit_depth: int | None = option(
        None, "Bits per channel of the result; by default as the frames",
        title="Bits per channel", absent={STUDIO: CHOSEN_ON_SAVING},
        choices={8: "PNG, TIFF, JPEG, WebP", 16: "PNG, TIFF", 32: "TIFF, floating point"},
    )  # fmt: skip
    quality: int = option(95, "JPEG/WebP quality", title="Quality", limits=(1, 100), absent={STUDIO: CHOSEN_ON_SAVING})
    compression: Compression = option(
        None, "TIFF compression (none, lzw, deflate or zstd) or PNG compression level (0 to 9)",
        title="Compression", metavar="NAME", absent={STUDIO: CHOSEN_ON_SAVING},
    )  # fmt: skip
    max_pixels: int = option(
        MAX_PIXELS,
        "Refuse frames with more pixels than this",
        title="Most pixels",
        limits=(1, None),
        absent={STUDIO: SERVERS_OWN},
    )
    device: str = option(
        "auto", "Where a network runs", title="Device", absent={STUDIO: SERVERS_OWN},
        choices=DEVICES,
    )  # fmt: skip

    threads: int | None = option(
        None, "Use at most so many cores; by default all of them", title="Cores", limits=(1, 1024), metavar="NUMBER",
        absent={STUDIO: SERVERS_OWN, BATCH: "there each process has one core"},
    )  # fmt: skip

    def __post_init__(self) -> None:
        for name, about in describe_options().items():
            value = getattr(self, name)
            if value is None:
                continue
            least, most = about.limits
            if about.choices and value not in about.choices:
                raise InputError(
                    f"{name} = {value!r}; it is one of {', '.join(map(str, about.choices))}", code="bad-option"
                )
            if least is most is None:
                continue
            # Asked for what is right, so that "not a number" is refused too.
            if not (
                isinstance(value, int | float) and (least is None or value >= least) and (most is None or value <= most)
            ):
                raise InputError(f"{name} is {_span(least, most)}; found {value}", code="bad-option")

    def settings(self) -> dict[str, object]:
        """Every option with its value."""
        return {own.name: getattr(self, own.name) for own in fields(self)}

    def alignment(self) -> AlignmentWishes:
        """How frames are aligned, as ``stack.frames.align_frames`` takes it."""
        return {"skip_bad": self.skip_bad, "reference": self.reference, "brightness": self.brightness}

    def storing(self) -> Storing:
        """How the picture is stored, as ``images.writing.encode_image`` takes it."""
        return {"bit_depth": self.bit_depth, "quality": self.quality, "compression": self.compression}

    def demands(self, outputs: FuseOutputs | None = None) -> Demands:
        """What the method must be able to do, as ``fusion.method_choice.require_method`` takes it.

        Args:
            outputs: What is to be written; None where that is not known yet.
        """
        maps = outputs.maps() if outputs is not None else {}
        return {
            "device": self.device,
            "prefer": self.prefer,
            "unveil": self.unveil,
            "linear_light": self.linear_light,
            "maps": bool(maps.keys() & {"decision_map", "depth_map", "error_map", "confidence_map"}),
            "veil_map": "veil_map" in maps,
        }


def _span(least: int | None, most: int | None) -> str:
    return f"{least} or more" if most is None else f"{least} to {most}"


document(FuseOptions)


@cache
def describe_options() -> dict[str, About]:
    """What there is to show of each option of :class:`FuseOptions`, in order."""
    return described(FuseOptions)


def offered(front_end: str) -> dict[str, About]:
    """The options that a front end offers.

    Example:
        >>> "device" in offered("fuse"), "device" in offered("studio")
        (True, False)
    """
    return {name: about for name, about in describe_options().items() if front_end not in about.absent}


def gather(options: FuseOptions | None, output: AnyPath | FuseOutputs, values: Mapping[str, Any]) -> tuple[
    FuseOptions, FuseOutputs
]:  # fmt: skip
    """Options and outputs with single values changed, as ``fuse_files`` takes them.

    Raises:
        TypeError: there is no option or output of that name; the message names the nearest.
    """
    chosen = options or FuseOptions()
    outputs = output if isinstance(output, FuseOutputs) else FuseOutputs(output)
    known = [*describe_options(), *describe_outputs()]
    for name in values:
        if name not in known:
            import difflib  # only for the message, and `allfocus --help` loads this module

            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
            raise TypeError(f"there is no option {name!r}; did you mean {nearest!r}?")
    return (
        replace(chosen, **{name: value for name, value in values.items() if name in describe_options()}),
        replace(outputs, **{name: value for name, value in values.items() if name in describe_outputs()}),
    )
