"""The widget: which layers, decided by which, and what comes out; the work goes on beside napari and can be ended."""

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers import Image
from napari.qt.threading import create_worker
from napari.utils.notifications import show_error, show_info
from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFormLayout,
    QListWidget,
    QListWidgetItem,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from allfocus.errors import AllfocusError
from allfocus.fusion.methods import list_methods
from allfocus.napari_plugin.fusing import LayerData, Planes, fuse_planes_of_layers

if TYPE_CHECKING:
    from napari.components import ViewerModel

TOGETHER = "all channels together"
LENGTHS = {"nanometer": "nm", "micrometer": "um", "millimeter": "mm", "centimeter": "cm", "meter": "m"}
"""Units of length of napari, as depth is labelled."""
KEPT = ("colormap", "blending", "gamma", "contrast_limits", "opacity")
"""Of the look of a layer, what the fused one has too."""


class Ended(Exception):  # noqa: N818 (no error: somebody pressed Cancel)
    """The work was ended on request."""


class FuseWidget(QWidget):  # type: ignore[misc]  # Qt has no types here
    """Fuses the planes of the ticked layers into new layers.

    Args:
        napari_viewer: The viewer that it belongs to.
    """

    progressed = Signal(str, int, int)
    """Step, how much of it is done, and how much there is; sent from the thread that works."""

    def __init__(self, napari_viewer: "ViewerModel") -> None:
        super().__init__()
        self.viewer = napari_viewer
        self.layers = QListWidget()
        self.decide_by, self.method = QComboBox(), QComboBox()
        self.align, self.depth, self.filled = (
            QCheckBox("Align the planes"),
            QCheckBox("Depth"),
            QCheckBox("Close holes"),
        )
        self.start, self.cancel = QPushButton("Fuse"), QPushButton("Cancel")
        self.bar = QProgressBar()
        self._ended = threading.Event()
        self.worker: Any = None
        self._lay_out()
        self.start.clicked.connect(self.fuse)
        self.cancel.clicked.connect(self._ended.set)
        self.progressed.connect(self._show_progress)
        for event in ("inserted", "removed"):
            getattr(self.viewer.layers.events, event).connect(self.list_layers)
        self.list_layers()

    def _lay_out(self) -> None:
        for method in list_methods():
            if not method.missing and method.abilities.decides:
                self.method.addItem(method.name)
        self.method.setCurrentText("ips")
        self.depth.setChecked(True)
        self.cancel.setEnabled(False)
        form = QFormLayout()
        form.addRow("Channels", self.layers)
        form.addRow("Decide by", self.decide_by)
        form.addRow("Method", self.method)
        layout = QVBoxLayout(self)
        layout.addLayout(form)
        for own in (self.align, self.depth, self.filled, self.start, self.cancel, self.bar):
            layout.addWidget(own)

    def list_layers(self, event: object = None) -> None:
        """Lists the layers that have planes; those that fit the first are ticked, as channels of one stack."""
        fitting = [layer for layer in self.viewer.layers if isinstance(layer, Image) and layer.ndim >= 3]
        if [layer.name for layer in fitting] == [self.layers.item(row).text() for row in range(self.layers.count())]:
            return  # what was chosen stays chosen when results are added
        self.layers.clear()
        self.decide_by.clear()
        self.decide_by.addItem(TOGETHER)
        for layer in fitting:
            item = QListWidgetItem(layer.name)
            same = layer.level_shapes[0] if layer.multiscale else layer.data.shape
            first = fitting[0].level_shapes[0] if fitting[0].multiscale else fitting[0].data.shape
            ticked = tuple(same) == tuple(first) and (layer is fitting[0] or not layer.rgb)
            item.setCheckState(Qt.CheckState.Checked if ticked else Qt.CheckState.Unchecked)
            self.layers.addItem(item)
            self.decide_by.addItem(layer.name)

    def chosen(self) -> list[Image]:
        """The layers that are ticked."""
        items = [self.layers.item(row) for row in range(self.layers.count())]
        names = [item.text() for item in items if item.checkState() == Qt.CheckState.Checked]
        return [self.viewer.layers[name] for name in names if name in self.viewer.layers]

    def fuse(self) -> None:
        """Begins to fuse, beside napari."""
        layers = self.chosen()
        names = [layer.name for layer in layers]
        asked = self.decide_by.currentText()
        if asked != TOGETHER and asked not in names:
            show_error(f"{asked} is to decide, but it is not ticked")
            return
        options = {
            "decide_by": None if asked == TOGETHER else names.index(asked),
            "method": self.method.currentText(),
            "align": self.align.isChecked(),
            "depth": self.depth.isChecked(),
            "filled": self.filled.isChecked(),
        }
        point = self.viewer.dims.current_step
        self._ended.clear()
        self._set_busy(True)
        self.worker = create_worker(self._work, layers, point, options, _start_thread=False)
        self.worker.returned.connect(self._show)
        self.worker.finished.connect(lambda: self._set_busy(False))
        self.worker.start()

    def _work(self, layers: list[Image], point: tuple[int, ...], options: dict[str, Any]) -> list[LayerData] | str:
        """In the thread that works: what came out, or why nothing did."""

        def progress(step: str, done: int, count: int) -> None:
            if self._ended.is_set():
                raise Ended
            self.progressed.emit(step, done, count)

        try:
            return fuse_planes_of_layers([planes_of(layer, point) for layer in layers], progress=progress, **options)
        except Ended:
            return ""
        except AllfocusError as error:
            return error.told(lambda name, state: None)

    def _show(self, outcome: list[LayerData] | str) -> None:
        if isinstance(outcome, str):
            if outcome:
                show_error(outcome)
            else:
                show_info("ended; nothing was changed")
            return
        for pixels, look, _ in outcome:
            self.viewer.add_image(pixels, **look)

    def _show_progress(self, step: str, done: int, count: int) -> None:
        self.bar.setFormat(f"{step} %p%")
        self.bar.setMaximum(count)
        self.bar.setValue(done)

    def _set_busy(self, busy: bool) -> None:
        self.start.setEnabled(not busy)
        self.cancel.setEnabled(busy)
        if not busy:
            self.bar.reset()


def planes_of(layer: Image, point: tuple[int, ...]) -> Planes:
    """Returns the planes of a layer at the time (and what else has a slider) that is shown.

    Args:
        layer: With planes along the third last axis.
        point: Where the sliders of the viewer stand.
    """
    data = layer.data[0] if layer.multiscale else layer.data
    ahead = layer.ndim - 3
    beyond = len(point) - layer.ndim
    where = tuple(point[beyond + axis] for axis in range(ahead))
    unit = LENGTHS.get(str(layer.units[-3]), "")
    step = float(layer.scale[-3])
    look = {name: getattr(layer, name) for name in KEPT if not (layer.rgb and name in ("colormap", "contrast_limits"))}
    look |= {"scale": layer.scale[-2:], "translate": layer.translate[-2:], "units": layer.units[-2:]}
    known = bool(unit) or step != 1
    pixels = np.asarray(data[where] if where else data)
    return Planes(layer.name, pixels, step if known else None, unit or "units", {**look, "rgb": bool(layer.rgb)})
