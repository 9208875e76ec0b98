"""Reliefs, read back by libraries of others."""

import itertools
import sys

import cv2
import meshio
import numpy as np
import pygltflib
import pytest
import trimesh
from PIL import Image as PillowImage

import allfocus
from allfocus.depth.files import encode_depth
from allfocus.depth.units import Length
from allfocus.errors import InputError, MissingDependencyError, OutputError
from allfocus.images.calibrated_files import FusedPlanes, encode_ome_tiff, write_ome_zarr
from allfocus.images.dimensions import Channel, Dimensions
from allfocus.images.ome_xml import FusedFrom
from allfocus.relief import views, writing
from allfocus.relief.writing import write_relief

HEIGHT, WIDTH, PIXEL, RISE = 30, 40, 2.0, 0.5
"""Pixels; micrometres of a pixel, and of the rise from one column to the next."""


@pytest.fixture
def files(tmp_path):
    """A picture and its depth in micrometres: a ramp with a hole and a step, the first frame nearest."""
    columns = np.arange(WIDTH, dtype=np.float32)
    depth = np.broadcast_to(columns * RISE, (HEIGHT, WIDTH)).copy()
    depth[:, 30:] += 50
    depth[10:14, 5:9] = np.nan
    picture = np.zeros((HEIGHT, WIDTH, 3), np.float32)
    picture[..., 0] = columns / (WIDTH - 1)
    picture[..., 1] = np.linspace(0, 1, HEIGHT)[:, None]
    allfocus.write_image(picture, tmp_path / "picture.png")
    data = encode_depth(depth, tmp_path / "depth.tif", unit="um", pixel_size=Length(PIXEL, "um"))
    (tmp_path / "depth.tif").write_bytes(data)
    return tmp_path, depth


def write(files, name, **options):
    folder, _ = files
    return write_relief(folder / "picture.png", folder / "depth.tif", folder / name, **options)


def require_heights(points, depth):
    """Every vertex, in millimetres, lies at a pixel and has its height."""
    columns = np.rint(points[:, 0] * 1000 / PIXEL).astype(int)
    rows = HEIGHT - 1 - np.rint(points[:, 1] * 1000 / PIXEL).astype(int)
    assert np.allclose(points[:, 0], columns * PIXEL / 1000, atol=1e-7)
    expected = (np.nanmax(depth) - depth[rows, columns]) / 1000
    assert np.isfinite(expected).all()
    assert np.allclose(points[:, 2], expected, atol=1e-6)


def test_glb_is_in_metres_with_its_texture_for_trimesh_and_pygltflib(files):
    (path,) = write(files, "model.glb")
    mesh = trimesh.load(path, force="mesh", process=False)
    require_heights(np.asarray(mesh.vertices) * 1000, files[1])
    assert mesh.extents[:2] * 1000 == pytest.approx([(WIDTH - 1) * PIXEL / 1000, (HEIGHT - 1) * PIXEL / 1000])
    texture = mesh.visual.material.baseColorTexture
    assert texture.size == (WIDTH, HEIGHT)
    # The first row of the texture is the top of the picture: trimesh turns v upside down.
    top = np.argmax(mesh.vertices[:, 1])
    assert mesh.visual.uv[top][1] > 0.9
    scene = pygltflib.GLTF2().load(str(path))
    accessor = scene.accessors[scene.meshes[0].primitives[0].attributes.POSITION]
    assert accessor.count == len(mesh.vertices)
    assert np.allclose(accessor.max, np.asarray(mesh.vertices).max(axis=0))


@pytest.mark.parametrize("name", ["model.obj", "model.ply"])
def test_obj_and_ply_are_in_millimetres_for_trimesh_and_meshio(files, name):
    path = write(files, name)[0]
    mine = trimesh.load(path, force="mesh", process=False, maintain_order=True)
    other = meshio.read(path)
    for points, faces in ((mine.vertices, mine.faces), (other.points, other.cells_dict["triangle"])):
        require_heights(np.asarray(points), files[1])
        assert len(faces) == len(mine.faces)


def test_obj_names_a_texture_that_lies_beside_it(files):
    path, material, texture = write(files, "model.obj")
    assert material.name in path.read_text()
    assert texture.name in material.read_text()
    with PillowImage.open(texture) as picture:
        assert picture.size == (WIDTH, HEIGHT)


def test_ply_has_the_colours_of_the_picture(files):
    mesh = trimesh.load(write(files, "model.ply")[0], force="mesh", process=False)
    columns = np.rint(np.asarray(mesh.vertices)[:, 0] * 1000 / PIXEL)
    assert np.allclose(mesh.visual.vertex_colors[:, 0], np.rint(255 * columns / (WIDTH - 1)), atol=1)


def test_holes_and_edges_of_depth_stay_open(files):
    mesh = trimesh.load(write(files, "model.ply")[0], force="mesh", process=False)
    middles = mesh.triangles_center * 1000 / PIXEL
    rows = HEIGHT - 1 - middles[:, 1]
    assert not ((middles[:, 0] > 5) & (middles[:, 0] < 8) & (rows > 10) & (rows < 13)).any()
    assert not ((middles[:, 0] > 29) & (middles[:, 0] < 30)).any()
    assert len(mesh.split(only_watertight=False)) == 2


def test_an_edge_that_is_a_few_pixels_wide_is_open_too(files):
    folder, depth = files
    soft = np.nan_to_num(depth, nan=5.0)
    soft[:, 30:] -= 50
    soft += np.clip((np.arange(WIDTH) - 25) * 10, 0, 50).astype(np.float32)  # five pixels of two thirds of a step
    data = encode_depth(soft, folder / "soft.tif", unit="um", pixel_size=Length(PIXEL, "um"), step=15.0)
    (folder / "soft.tif").write_bytes(data)
    (path,) = write_relief(folder / "picture.png", folder / "soft.tif", folder / "soft.ply")
    mesh = trimesh.load(path, force="mesh", process=False)
    assert len(mesh.split(only_watertight=False)) == 2
    assert not (
        (mesh.triangles_center[:, 0] * 1000 / PIXEL > 25) & (mesh.triangles_center[:, 0] * 1000 / PIXEL < 30)
    ).any()


def test_edges_are_joined_when_asked_for(files):
    mesh = trimesh.load(write(files, "model.ply", join=True)[0], force="mesh", process=False)
    assert len(mesh.split(only_watertight=False)) == 1


def test_stl_is_closed_and_its_walls_look_outwards(files):
    (path,) = write(files, "model.stl")
    body = trimesh.load(path)  # joins equal corners
    assert body.is_watertight
    assert body.is_winding_consistent
    assert body.volume > 0
    assert body.extents[:2] == pytest.approx([(WIDTH - 1) * PIXEL / 1000, (HEIGHT - 1) * PIXEL / 1000], rel=1e-5)
    assert len(meshio.read(path).cells_dict["triangle"]) == len(body.faces)


def test_a_cloud_has_every_measured_pixel(files):
    cloud = trimesh.load(write(files, "cloud.ply", points=True)[0])
    assert isinstance(cloud, trimesh.PointCloud)
    assert len(cloud.vertices) == np.isfinite(files[1]).sum()
    require_heights(np.asarray(cloud.vertices), files[1])


@pytest.mark.parametrize("most", [2, 50, 500])
def test_fewer_triangles_have_the_same_size_and_heights_of_the_map(files, most):
    mesh = trimesh.load(write(files, "model.ply", most_faces=most, join=True)[0], force="mesh", process=False)
    assert len(mesh.faces) <= most
    require_heights(np.asarray(mesh.vertices), files[1])
    assert mesh.extents[:2] == pytest.approx([(WIDTH - 1) * PIXEL / 1000, (HEIGHT - 1) * PIXEL / 1000], rel=1e-5)


def test_the_first_frame_may_be_the_far_one_and_heights_exaggerated(files):
    mesh = trimesh.load(write(files, "model.ply", first="far", exaggerate=3.0)[0], force="mesh", process=False)
    right, left = np.argmax(mesh.vertices[:, 0]), np.argmin(mesh.vertices[:, 0])
    rise = mesh.vertices[right][2] - mesh.vertices[left][2]
    assert rise == pytest.approx(3 * np.ptp(files[1][0]) / 1000, rel=1e-5)


def test_a_grey_map_needs_a_range_and_sizes_made_up_are_told(files):
    folder, depth = files
    share = (depth - np.nanmin(depth)) / np.nanmax(depth)
    (folder / "grey.png").write_bytes(encode_depth(share, folder / "grey.png", unit="fraction"))
    told = []
    write_relief(folder / "picture.png", folder / "grey.png", folder / "a.ply", notice=told.append)
    assert len(told) == 2
    options = {"pixel_size": "2um", "depth_range": f"{np.nanmax(depth)}um", "join": True}
    told.clear()
    write_relief(folder / "picture.png", folder / "grey.png", folder / "b.ply", notice=told.append, **options)
    assert not told
    mesh = trimesh.load(folder / "b.ply", force="mesh", process=False)
    assert mesh.extents[2] == pytest.approx(np.nanmax(depth) / 1000, rel=1e-4)


def test_the_animation_rocks_and_comes_back(files):
    (path,) = write(files, "rock.gif", swing=0.2)
    frames = []
    with PillowImage.open(path) as film:
        assert film.n_frames == views.VIEWS
        for number in range(film.n_frames):
            film.seek(number)
            frames.append(np.asarray(film.convert("RGB"), float))
    steps = [np.abs(one - other).mean() for one, other in itertools.pairwise([*frames, frames[0]])]
    assert max(steps) > 0.5
    assert np.abs(frames[0] - frames[views.VIEWS // 2]).mean() < np.abs(frames[0] - frames[views.VIEWS // 4]).mean()


def test_the_nearer_part_lies_farther_right_for_the_left_eye():
    picture, nearness = np.zeros((20, 60), np.float32), np.zeros((20, 60), np.float32)
    picture[:, 14:17] = picture[:, 44:47] = 1
    nearness[:, 30:] = 1
    pair = views.stereo_pair(picture, nearness, 8.0)
    left, right = pair[10, :60], pair[10, 60:]
    near_left, near_right = (30 + np.argmax(eye[30:]) for eye in (left, right))
    far_left, far_right = (np.argmax(eye[:30]) for eye in (left, right))
    assert near_left - near_right > 2
    assert far_left - far_right < -2


def test_a_film_needs_a_package_and_says_so(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingDependencyError, match=r"\[film\].*\.gif"):
        write(files, "rock.webm")


def test_a_film_rocks_and_another_reader_plays_it(files):
    pytest.importorskip("av", reason="needs the extra film")
    write(files, "rock.webm")
    write(files, "rock.gif")
    film = cv2.VideoCapture(str(files[0] / "rock.webm"))
    pictures = []
    while (read := film.read())[0]:
        pictures.append(read[1][..., ::-1].astype(float))
    assert film.get(cv2.CAP_PROP_FPS) == pytest.approx(views.VIEWS / views.SECONDS, rel=0.02)
    assert len(pictures) == views.SWINGS * views.VIEWS
    with PillowImage.open(files[0] / "rock.gif") as animation:
        first = np.asarray(animation.convert("RGB"), float)
    assert pictures[0].shape == first.shape
    assert np.abs(pictures[0] - first).mean() < 12
    moved = [np.abs(picture - pictures[0]).mean() for picture in pictures]
    assert moved[views.VIEWS // 4] > 2 * moved[views.VIEWS]  # away at a quarter, back after a whole swing


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("model.fbx", {}, "unwritable-format"),
        ("model.stl", {"points": True}, "unwritable-format"),
        ("model.ply", {"pixel_size": "2"}, "bad-option"),
        ("model.ply", {"exaggerate": float("nan")}, "bad-option"),
        ("model.ply", {"most_faces": 1}, "bad-option"),
        ("model.ply", {"first": "left"}, "bad-option"),
    ],
)
def test_what_cannot_be_is_refused_with_a_code(files, name, options, code):
    with pytest.raises(InputError) as caught:
        write(files, name, **options)
    assert caught.value.code == code
    assert not (files[0] / name).exists()


def test_a_map_of_another_size_and_a_coloured_one_are_refused(files):
    folder, depth = files
    (folder / "small.tif").write_bytes(encode_depth(depth[:-1], folder / "small.tif", unit="um"))
    for name, code in (("small.tif", "unequal-frames"), ("picture.png", "unsupported-picture")):
        with pytest.raises(InputError) as caught:
            write_relief(folder / "picture.png", folder / name, folder / "model.ply")
        assert caught.value.code == code


def test_files_that_exist_stay(files):
    write(files, "model.obj")
    before = (files[0] / "model.mtl").read_bytes()
    with pytest.raises(OutputError):
        write(files, "model.obj")
    assert (files[0] / "model.mtl").read_bytes() == before
    write(files, "model.obj", overwrite=True)


@pytest.mark.parametrize("ending", [".ome.zarr", ".ome.tif"])
def test_a_plane_of_any_size_is_reduced_while_it_is_read_and_its_heights_stay_those_of_the_map(
    files, ending, monkeypatch
):
    folder, depth = files
    held = Dimensions("1", depth.shape, "float32", channels=(Channel("depth (um)"),), pixel_size=(PIXEL, PIXEL))
    depth_map = folder / f"large{ending}"
    planes = FusedPlanes((held,), lambda position, time, channel: depth, FusedFrom("", 1), "test")
    if ending == ".ome.zarr":
        write_ome_zarr(planes, depth_map, name="large")
    else:
        depth_map.write_bytes(encode_ome_tiff(planes))
    monkeypatch.setattr(writing, "MOST_PIXELS", 350)
    told = []
    write_relief(folder / "picture.png", depth_map, folder / "large.ply", join=True, notice=told.append)
    assert "one pixel in 2" in told[0]
    vertices = trimesh.load(folder / "large.ply", process=False).vertices
    kept = depth[::2, ::2]
    assert vertices[:, 0].max() == pytest.approx((kept.shape[1] - 1) * 2 * PIXEL / 1000)
    heights = (np.nanmax(kept) - kept[np.isfinite(kept)]) / 1000
    assert np.allclose(np.sort(vertices[:, 2]), np.sort(heights), atol=1e-5)
