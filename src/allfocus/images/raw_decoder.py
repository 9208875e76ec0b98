"""Camera RAW files -> samples, through rawpy (LibRaw), which the extra ``raw`` installs.

Every frame is developed the same way, so that the frames of a stack fit together: 16 bits, one white balance, nothing
that depends on what the frame shows (no automatic brightness or white point), no correction of the lens. By default the
colours are sRGB, whose profile is attached; for a DNG they stay those of the camera (see
:mod:`allfocus.images.camera_colour`).
"""

from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError, MissingDependencyError
from allfocus.images.camera_colour import EXPONENT, CameraColour, Development, Triple, camera_profile
from allfocus.images.colour_profile import srgb_profile
from allfocus.images.decoded import DecodedPicture, Header, ends_too_early, require_pixels
from allfocus.images.hot_pixels import fill_hot_pixels
from allfocus.images.raw_blocks import block_of_raw
from allfocus.images.tiff_directories import read_entries, read_fractions, read_numbers, walk_directories
from allfocus.images.tiff_layout import FileSlices, TiffEntry, find_layout

if TYPE_CHECKING:
    from rawpy import RawPy

SIGNATURES = (b"FUJIFILMCCD-RAW", b"IIU\x00", b"IIRO", b"IIRS", b"MMOR", b"FOVb")
"""First bytes of Fujifilm, Panasonic, Olympus and Sigma files."""

CANON = (b"II*\x00", b"CR\x02")
PHOTOMETRIC, DNG_VERSION = 262, 50706
SENSOR_PHOTOMETRICS = (32803, 34892)
"""Colour filter array, and linear samples of a sensor."""

SEGMENT_PAIRS = ((273, 279), (324, 325))
"""Tags of the positions and lengths of strips, and of tiles."""
SEGMENT_TAGS = tuple(tag for pair in SEGMENT_PAIRS for tag in pair)

MAKER, MODEL, CAMERA_MODEL = 271, 272, 50708
COLOUR_ENTRIES = frozenset({50721, 50722, 50723, 50724, 50727, 50730, 50778, 50779, 50964, 50965})
"""Colour and forward matrices, camera calibrations, analog balance, baseline exposure, calibration illuminants."""

FIRST_MATRIX, SECOND_MATRIX = 50721, 50722
SMALLEST_DETERMINANT = 1e-6

SRGB_CURVE = (2.4, 12.92)
ROTATED = (5, 6)


def is_raw_signature(head: bytes) -> bool:
    """Whether the first 16 bytes are those of a RAW format that is not plain TIFF."""
    canon = head.startswith(CANON[0]) and head[8:11] == CANON[1]
    return canon or head[4:12] == b"ftypcrx " or head.startswith(SIGNATURES)


def is_raw_tiff(file: BinaryIO) -> bool:
    """Whether a TIFF file holds samples of a sensor (DNG, NEF, ARW, PEF ...), whatever its name says."""
    for entries in walk_directories(FileSlices(file)):
        for tag, _, count, value in entries:
            if tag == DNG_VERSION:
                return True
            if tag == PHOTOMETRIC and count == 1 and _either_order(value[:2]) & set(SENSOR_PHOTOMETRICS):
                return True
    return False


def read_raw_headers(file: BinaryIO) -> list[Header]:
    """The header of a RAW file: the size of the picture it will be developed to, and the camera's colours."""
    _require_segments(FileSlices(file))
    with _open_raw(file) as raw:
        height, width = _upright_size(raw)
        grey = raw.num_colors == 1
        camera = _camera_colour(raw, FileSlices(file))
    return [Header(width, height, channels=1 if grey else 3, bit_depth=16, camera=camera)]


def decode_raw(file: BinaryIO, page: int, max_pixels: int, development: Development | None = None) -> DecodedPicture:
    """The developed picture of a RAW file, 16 bits, upright; sRGB, or in the camera's colours."""
    rawpy = require_rawpy()
    how = development or Development()
    _require_segments(FileSlices(file))
    with _open_raw(file) as raw:
        height, width = _upright_size(raw)
        require_pixels(width, height, max_pixels)
        camera = _camera_colour(raw, FileSlices(file))
        balance = how.balance or camera.balance
        own = how.in_camera_colours
        if own and raw.num_colors != 3:
            raise InputError(f"its sensor sees {raw.num_colors} colours, and a DNG is written from three; choose .tif")
        if how.hot is not None and _has_bayer_filter(raw) and how.hot.shape == raw.raw_image_visible.shape:
            # In place: LibRaw develops what is in its own memory.
            mosaic = raw.raw_image_visible
            mosaic[...] = np.rint(fill_hot_pixels(mosaic.astype(np.float32), how.hot)).astype(mosaic.dtype)
        samples = raw.postprocess(
            output_bps=16,
            demosaic_algorithm=rawpy.DemosaicAlgorithm[how.demosaic.upper()],
            user_wb=[*balance, balance[1]],
            no_auto_bright=True,
            # LibRaw would take the brightest value of a frame for white, so each frame would get another exposure.
            adjust_maximum_thr=0.0,
            highlight_mode=rawpy.HighlightMode.Ignore if own else rawpy.HighlightMode.Clip,
            output_color=rawpy.ColorSpace.raw if own else rawpy.ColorSpace.sRGB,
            gamma=(EXPONENT, 0) if own else SRGB_CURVE,
        )
    return DecodedPicture(
        samples.reshape(samples.shape[:2]) if samples.shape[2:] == (1,) else samples,
        icc_profile=None if samples.shape[2:] != (3,) else camera_profile() if own else srgb_profile(),
        exif=block_of_raw(file),
        orientation=1,  # LibRaw has turned the picture already
        camera=CameraColour(balance, camera.matrix, camera.model, camera.entries) if own else None,
    )


def read_mosaic(file: BinaryIO) -> NDArray[np.float32] | None:
    """What each pixel of a sensor below a Bayer filter saw, (H, W), not turned, black at 0 and white at 1.

    None for sensors of other kinds.
    """
    _require_segments(FileSlices(file))
    with _open_raw(file) as raw:
        if not _has_bayer_filter(raw):
            return None
        black = float(np.mean(raw.black_level_per_channel))
        scaled = (raw.raw_image_visible.astype(np.float32) - black) / max(float(raw.white_level) - black, 1.0)
    return np.asarray(scaled, np.float32)


def _has_bayer_filter(raw: "RawPy") -> bool:
    flat = raw.raw_type == require_rawpy().RawType.Flat
    return bool(flat and raw.raw_pattern is not None and raw.raw_pattern.shape == (2, 2))


def _open_raw(file: BinaryIO) -> "RawPy":
    file.seek(0)
    opened: RawPy = require_rawpy().imread(file)
    return opened


def require_rawpy() -> ModuleType:
    """The package that reads camera RAW.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import rawpy
    except ImportError as error:
        raise MissingDependencyError(
            "a camera RAW file needs rawpy, which is not installed: pip install 'allfocus[raw]'"
        ) from error
    return rawpy


def _camera_colour(raw: "RawPy", data: FileSlices) -> CameraColour:
    entries = _colour_entries(data)
    known = raw.rgb_xyz_matrix[:3]
    matrix = _matrix_of(entries, data) or (tuple(float(value) for value in known.flat) if known.any() else ())
    return CameraColour(_balance(raw), matrix, _model(data), tuple(entries))


def _balance(raw: "RawPy") -> Triple:
    """The white balance that the camera recorded, else that of daylight, with green at 1."""
    for found in (raw.camera_whitebalance, raw.daylight_whitebalance):
        red, green, blue = (float(value) for value in found[:3])
        if red > 0 and green > 0 and blue > 0:
            return red / green, 1.0, blue / green
    return 1.0, 1.0, 1.0


def _first_entries(data: FileSlices) -> list[TiffEntry]:
    found = find_layout(data)
    return [] if found is None else read_entries(data, found[1], found[0])


def _colour_entries(data: FileSlices) -> list[TiffEntry]:
    """How a DNG describes its colours; none where it has no colour matrix."""
    entries = [entry for entry in _first_entries(data) if entry[0] in COLOUR_ENTRIES]
    return entries if any(entry[0] == FIRST_MATRIX for entry in entries) else []


def _matrix_of(entries: list[TiffEntry], data: FileSlices) -> tuple[float, ...]:
    """The colour matrix of a DNG: that for daylight where it has two; empty where it has none that can be used."""
    found = find_layout(data)
    if found is None:
        return ()
    matrices = {tag: read_fractions(kind, value, found[0]) for tag, kind, _, value in entries}
    for tag in (SECOND_MATRIX, FIRST_MATRIX):
        matrix = matrices.get(tag, ())
        if len(matrix) == 9 and abs(np.linalg.det(np.reshape(matrix, (3, 3)))) > SMALLEST_DETERMINANT:
            return matrix
    return ()


def _model(data: FileSlices) -> str:
    """Maker and model; a DNG has a name of its own for both."""
    texts = {
        tag: value.split(b"\x00")[0].decode("ascii", "replace").strip()
        for tag, kind, _, value in _first_entries(data)
        if kind == 2 and tag in (MAKER, MODEL, CAMERA_MODEL)
    }
    maker, model = texts.get(MAKER, ""), texts.get(MODEL, "")
    plain = model if model.casefold().startswith(maker.casefold()) else f"{maker} {model}"
    return (texts.get(CAMERA_MODEL) or plain.strip() or "camera")[:64]


def _require_segments(data: FileSlices) -> None:
    """Raise InputError when strips or tiles lie outside the file: LibRaw would fill what is missing with black."""
    found = find_layout(data)
    if found is None:
        return
    for entries in walk_directories(data):
        values = {tag: read_numbers(kind, value, found[0]) for tag, kind, _, value in entries if tag in SEGMENT_TAGS}
        for offsets, lengths in SEGMENT_PAIRS:
            for offset, length in zip(values.get(offsets, ()), values.get(lengths, ()), strict=False):
                if offset + length > len(data):
                    raise ends_too_early()


def _upright_size(raw: "RawPy") -> tuple[int, int]:
    height, width = raw.sizes.height, raw.sizes.width
    return (width, height) if raw.sizes.flip in ROTATED else (height, width)


def _either_order(value: bytes) -> set[int]:
    # The byte order is that of the file; a photometric of the one order is no known number in the other.
    return {int.from_bytes(value, "little"), int.from_bytes(value, "big")}
