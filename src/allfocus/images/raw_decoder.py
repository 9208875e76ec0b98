"""Camera RAW files -> samples, through rawpy (LibRaw), which the extra ``raw`` installs.

Every frame is developed the same way, so that the frames of a stack fit together: 16 bits, the white balance that the
camera recorded, no automatic brightness, the sRGB primaries and curve; the sRGB profile is attached.
"""

from typing import Any, BinaryIO

from allfocus.errors import MissingDependencyError
from allfocus.images.colour_profile import srgb_profile
from allfocus.images.decoded import DecodedPicture, Header, ends_too_early, require_pixels
from allfocus.images.exif import FileSlices, block_of_tiff, find_layout, read_numbers, walk_directories

SIGNATURES = (b"FUJIFILMCCD-RAW", b"IIU\x00", b"IIRO", b"IIRS", b"MMOR", b"FOVb")
"""First bytes of Fujifilm, Panasonic, Olympus and Sigma files."""

CANON = (b"II*\x00", b"CR\x02")
PHOTOMETRIC, DNG_VERSION = 262, 50706
SENSOR_PHOTOMETRICS = (32803, 34892)
"""Colour filter array, and linear samples of a sensor."""

SEGMENT_PAIRS = ((273, 279), (324, 325))
"""Tags of the positions and lengths of strips, and of tiles."""
SEGMENT_TAGS = tuple(tag for pair in SEGMENT_PAIRS for tag in pair)

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
    """The header of a RAW file: the size of the picture it will be developed to."""
    _require_segments(FileSlices(file))
    with _open_raw(file) as raw:
        height, width = _upright_size(raw)
    return [Header(width, height, channels=3, bit_depth=16)]


def decode_raw(file: BinaryIO, page: int, max_pixels: int) -> DecodedPicture:
    """The developed picture of a RAW file, 16-bit sRGB, upright."""
    _require_segments(FileSlices(file))
    with _open_raw(file) as raw:
        height, width = _upright_size(raw)
        require_pixels(width, height, max_pixels)
        samples = raw.postprocess(output_bps=16, use_camera_wb=True, no_auto_bright=True, gamma=SRGB_CURVE)
    return DecodedPicture(
        samples,
        icc_profile=srgb_profile(),
        exif=block_of_tiff(FileSlices(file)),
        orientation=1,  # LibRaw has turned the picture already
        notices=("developed with the camera's white balance",),
    )


def _open_raw(file: BinaryIO) -> Any:
    try:
        import rawpy
    except ImportError as error:
        raise MissingDependencyError(
            "a camera RAW file needs rawpy, which is not installed: pip install 'allfocus[raw]'"
        ) from error
    file.seek(0)
    return rawpy.imread(file)


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


def _upright_size(raw: Any) -> tuple[int, int]:
    height, width = raw.sizes.height, raw.sizes.width
    return (width, height) if raw.sizes.flip in ROTATED else (height, width)


def _either_order(value: bytes) -> set[int]:
    # The byte order is that of the file; a photometric of the one order is no known number in the other.
    return {int.from_bytes(value, "little"), int.from_bytes(value, "big")}
