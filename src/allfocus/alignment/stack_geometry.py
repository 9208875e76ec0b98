"""Where each frame of a stack lies: the transforms and brightness factors of a stack, and their use on one frame."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.brightness import DARKENED, apply_gains, burnt_out
from allfocus.alignment.transforms import Matrix, largest_rectangle, mask_of_spans, valid_spans, warp_picture
from allfocus.errors import InputError


@dataclass(frozen=True, eq=False)
class StackAlignment:
    """Where each frame of a stack lies, and how bright it is, relative to the reference frame."""

    transforms: tuple[Matrix, ...]
    """3 x 3 for each frame: point (x, y, 1) of the frame to the reference grid, pixel centres at whole numbers."""
    brightness: tuple[tuple[float, ...], ...]
    """For each frame a factor on the light of each channel; 1 where the frame is as bright as the reference, or as most
    frames if that one is odd."""
    confidences: tuple[float, ...]
    """0..1 for each frame: how well it agrees with the others after alignment; 0 for one that does not belong."""
    model: str
    """The model of motion used: a name of ``MODELS``."""
    reference: int
    """Index of the frame that stays as it is."""
    size: tuple[int, int]
    """Height and width of the frames."""
    registered: bool
    """True when no frame has moved by more than the measurement can tell; then all transforms are the identity."""
    warnings: tuple[str, ...] = ()
    """What the user should know, one sentence each; frames are counted from 1."""
    outliers: tuple[int, ...] = ()
    """Indices of the frames that do not show the scene of the others."""
    blanks: tuple[int, ...] = ()
    """Those of the outliers that show nothing at all."""
    dim: tuple[int, ...] = ()
    """Frames that are all but black beside the others, and would only add noise."""
    measured: bool = True
    """False when the frames are too small or too empty for a measurement; then they are taken as registered."""

    @property
    def kept(self) -> tuple[int, ...]:
        """Indices of the frames that belong to the stack."""
        return tuple(index for index in range(len(self.transforms)) if index not in self.outliers)

    def changes(self, index: int) -> bool:
        """Whether ``apply`` would change anything about this frame."""
        return any(gain != 1.0 for gain in self.brightness[index]) or not np.array_equal(
            self.transforms[index], np.eye(3)
        )

    def apply(self, index: int, frame: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """The frame on the reference grid in the brightness of the reference, and where it has pixels.

        A frame that need not change comes back bit for bit. No value leaves the range of the source pixels around it
        (before the brightness is matched) or 0..1; outside the frame its border is repeated. Of a frame that was
        overexposed and is darkened, what was burnt out is no pixel of its own: it would be grey.

        Args:
            index: Which frame of the stack it is, from 0.
            frame: (H, W, 3) or (H, W), float32, 0..1.

        Returns:
            The frame, same shape, and a mask (H, W) that is True where it has pixels of its own.

        Raises:
            InputError: the frame has another size than the stack, or it does not belong to it.
        """
        if index in self.outliers:
            raise InputError(f"frame {index + 1} does not show the scene of the others; leave it out")
        if frame.shape[:2] != self.size:
            raise InputError(
                f"frame {index + 1} is {size_text(frame.shape[:2])}, the stack {size_text(self.size)}; "
                "apply the alignment to the frames it was made from"
            )
        transform, gains = self.transforms[index], self.brightness[index]
        moves = not np.array_equal(transform, np.eye(3))
        result = warp_picture(frame, transform) if moves else frame
        if any(gain != 1.0 for gain in gains):
            result = apply_gains(result, gains)
        inside = mask_of_spans(valid_spans(transform, self.size), self.size[1]) if moves else np.ones(self.size, bool)
        return result, inside if min(gains) > DARKENED else inside & ~burnt_out(result, gains)

    def common_area(self) -> tuple[int, int, int, int]:
        """(top, left, bottom, right), ends excluded: the largest rectangle in which every frame has pixels."""
        return largest_rectangle([valid_spans(self.transforms[index], self.size) for index in self.kept])

    def to_json(self) -> dict[str, Any]:
        """Everything as numbers, texts and lists, ready for ``json.dumps``."""
        return {
            "model": self.model,
            "reference": self.reference,
            "size": list(self.size),
            "registered": self.registered,
            "measured": self.measured,
            "transforms": [transform.tolist() for transform in self.transforms],
            "brightness": [list(gains) for gains in self.brightness],
            "confidences": list(self.confidences),
            "outliers": list(self.outliers),
            "blanks": list(self.blanks),
            "dim": list(self.dim),
            "warnings": list(self.warnings),
            "common_area": list(self.common_area()),
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "StackAlignment":
        """The alignment that ``to_json`` described.

        Raises:
            InputError: something is missing or has the wrong form.
        """
        try:
            transforms = tuple(np.array(item, np.float64).reshape(3, 3) for item in content["transforms"])
            height, width = content["size"]
            result = cls(
                transforms=transforms,
                brightness=tuple(tuple(float(gain) for gain in gains) for gains in content["brightness"]),
                confidences=tuple(float(value) for value in content["confidences"]),
                model=str(content["model"]),
                reference=int(content["reference"]),
                size=(int(height), int(width)),
                registered=bool(content["registered"]),
                warnings=tuple(str(sentence) for sentence in content["warnings"]),
                outliers=tuple(int(index) for index in content["outliers"]),
                blanks=tuple(int(index) for index in content.get("blanks", ())),
                dim=tuple(int(index) for index in content.get("dim", ())),
                measured=bool(content.get("measured", True)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"this is no alignment written by allfocus ({error}); align the frames again") from error
        if not len(result.transforms) == len(result.brightness) == len(result.confidences) > result.reference >= 0:
            raise InputError("the alignment has not one entry for each frame; align the frames again")
        return result


def size_text(size: tuple[int, ...]) -> str:
    """Width and height of a picture, from its height and width, as people write it.

    Example:
        >>> size_text((2000, 3000))
        '3000x2000'
    """
    return f"{size[1]}x{size[0]}"
