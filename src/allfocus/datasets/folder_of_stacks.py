"""Any folder of focus stacks: one folder a scene, its pictures are the frames."""

from allfocus.datasets.layouts import find_stack_folders
from allfocus.datasets.samples import Dataset

FOLDER = Dataset(
    name="folder",
    title="a folder of stacks",
    summary="your own stacks: one folder each with two or more frames of one size, and maybe the true picture",
    find=find_stack_folders,
    layout="scene/frame_1.png, scene/frame_2.png ... and, where known, scene/reference.png",
    citation="none: your own pictures",
    licence="yours",
    where="your own camera",
    sources_each=None,
)
