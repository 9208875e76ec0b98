"""The widget in a viewer of napari without a window."""

import warnings

import numpy as np
import pytest

from allfocus.napari_plugin.reading import sample_stack

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # napari's own
    pytest.importorskip("napari", reason="needs the extra napari")
    from napari.components import ViewerModel
    from qtpy.QtCore import QEventLoop
    from qtpy.QtWidgets import QApplication

    from allfocus.napari_plugin.widget import FuseWidget, planes_of

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def application():
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    yield QApplication.instance() or QApplication([])
    monkeypatch.undo()


@pytest.fixture
def viewer(application):
    viewer = ViewerModel()
    ((planes, about, _),) = sample_stack()
    viewer.add_image(planes[:4, :120, :160], **about)
    viewer.add_image(planes[:4, :120, :160] // 2, **{**about, "name": "GFP", "colormap": "green"})
    viewer.add_labels(np.zeros((120, 160), int))
    return viewer


def run(widget):
    loop = QEventLoop()
    widget.fuse()
    widget.worker.finished.connect(loop.quit)
    loop.exec()
    QApplication.processEvents()


def test_all_channels_are_fused_into_layers_with_their_scale_and_depth_in_units(viewer):
    widget = FuseWidget(viewer)
    assert [widget.layers.item(row).text() for row in range(widget.layers.count())] == ["slanted page", "GFP"]
    widget.decide_by.setCurrentText("GFP")
    run(widget)
    fused, depth = viewer.layers["GFP fused"], viewer.layers["depth (um)"]
    assert fused.data.shape == (120, 160)
    assert fused.colormap.name == "green"
    assert tuple(fused.scale) == tuple(depth.scale) == (0.8, 0.8)
    assert str(depth.units[0]) == "micrometer"
    assert np.nanmax(depth.data) > 2.5
    assert widget.decide_by.currentText() == "GFP"
    assert widget.start.isEnabled()


def test_cancel_ends_the_work_and_leaves_the_layers(viewer, monkeypatch):
    widget = FuseWidget(viewer)
    before = len(viewer.layers)
    monkeypatch.setattr(widget._ended, "clear", widget._ended.set)  # as if Cancel were pressed at once
    run(widget)
    assert len(viewer.layers) == before
    assert widget.start.isEnabled()


def test_planes_are_those_of_the_time_that_is_shown(application):
    viewer = ViewerModel()
    series = np.arange(2 * 3 * 8 * 9).reshape(2, 3, 8, 9).astype(np.uint16)
    layer = viewer.add_image(series, scale=(1, 2, 0.5, 0.5))
    viewer.dims.set_current_step(0, 1)
    planes = planes_of(layer, viewer.dims.current_step)
    assert np.array_equal(planes.pixels, series[1])
    assert planes.step == 2
