"""Meshes as files: GLB (glTF 2.0, metres), OBJ with material and texture, PLY and STL (millimetres).

Written here because each takes a score of lines, and a library for all of them would weigh more than the package; the
tests read every file with libraries of others.
"""

import io
import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allfocus.images.image import Image
from allfocus.images.writing import encode_image
from allfocus.relief.mesh import Mesh

Files = dict[Path, bytes]

FLOATS, INTEGERS = 5126, 5125
"""Types of numbers in glTF."""
VERTICES, TRIANGLES = 34962, 34963
"""Uses of data in glTF."""


def encode_glb(mesh: Mesh, picture: NDArray[np.float32], path: Path) -> Files:
    """One binary glTF file with the picture as texture; lengths are metres, as glTF wants them."""
    points = (mesh.vertices / 1000).astype(np.float32)
    png = bytes(encode_image(Image(np.clip(picture, 0, 1), bit_depth=8), Path("texture.png")))
    parts = [points.tobytes(), mesh.places.tobytes(), mesh.faces.astype(np.uint32).tobytes(), png]
    views, body = [], b""
    for part, target in zip(parts, (VERTICES, VERTICES, TRIANGLES, None), strict=True):
        view = {"buffer": 0, "byteOffset": len(body), "byteLength": len(part)}
        views.append(view if target is None else {**view, "target": target})
        body += part + b"\0" * (-len(part) % 4)
    low, high = points.min(axis=0).tolist(), points.max(axis=0).tolist()
    count = len(points)
    scene = {
        "asset": {"version": "2.0", "generator": "allfocus"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0, "name": path.stem}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0, "TEXCOORD_0": 1}, "indices": 2, "material": 0}]}],
        "materials": [
            {
                "doubleSided": True,
                "pbrMetallicRoughness": {"baseColorTexture": {"index": 0}, "metallicFactor": 0, "roughnessFactor": 1},
            }
        ],
        "textures": [{"source": 0, "sampler": 0}],
        "samplers": [{"magFilter": 9729, "minFilter": 9987, "wrapS": 33071, "wrapT": 33071}],
        "images": [{"bufferView": 3, "mimeType": "image/png"}],
        "accessors": [
            {"bufferView": 0, "componentType": FLOATS, "count": count, "type": "VEC3", "min": low, "max": high},
            {"bufferView": 1, "componentType": FLOATS, "count": count, "type": "VEC2"},
            {"bufferView": 2, "componentType": INTEGERS, "count": mesh.faces.size, "type": "SCALAR"},
        ],
        "bufferViews": views,
        "buffers": [{"byteLength": len(body)}],
    }
    head = json.dumps(scene, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 4)
    length = 12 + 8 + len(head) + 8 + len(body)
    return {
        path: struct.pack("<4sII", b"glTF", 2, length)
        + struct.pack("<I4s", len(head), b"JSON")
        + head
        + struct.pack("<I4s", len(body), b"BIN\0")
        + body
    }


def encode_obj(mesh: Mesh, picture: NDArray[np.float32], path: Path) -> Files:
    """Three files: the triangles, the material, and the picture as its texture."""
    material, texture = path.with_suffix(".mtl"), path.with_name(f"{path.stem}_texture.png")
    text = io.StringIO()
    text.write(f"# allfocus, millimetres\nmtllib {material.name}\n")
    np.savetxt(text, mesh.vertices, fmt="v %.7g %.7g %.7g")
    # In OBJ the second coordinate of a texture goes up.
    np.savetxt(text, np.stack([mesh.places[:, 0], 1 - mesh.places[:, 1]], 1), fmt="vt %.7f %.7f")
    text.write("usemtl picture\n")
    np.savetxt(text, np.repeat(mesh.faces + 1, 2, axis=1), fmt="f %d/%d %d/%d %d/%d")
    return {
        path: text.getvalue().encode(),
        material: f"newmtl picture\nKa 1 1 1\nKd 1 1 1\nKs 0 0 0\nillum 1\nmap_Kd {texture.name}\n".encode(),
        texture: bytes(encode_image(Image(np.clip(picture, 0, 1), bit_depth=8), texture)),
    }


def encode_ply(mesh: Mesh, picture: NDArray[np.float32], path: Path) -> Files:
    """One binary file with a colour for each vertex; without triangles it is a cloud of points."""
    vertex = np.dtype([("place", "<f4", 3), ("colour", "u1", 3)])
    rows = np.empty(len(mesh.vertices), vertex)
    rows["place"], rows["colour"] = mesh.vertices, mesh.colours
    lines = ["ply", "format binary_little_endian 1.0", "comment allfocus, millimetres", f"element vertex {len(rows)}"]
    lines += [f"property float {axis}" for axis in "xyz"] + [f"property uchar {c}" for c in ("red", "green", "blue")]
    body = rows.tobytes()
    if len(mesh.faces):
        face = np.empty(len(mesh.faces), np.dtype([("count", "u1"), ("corners", "<i4", 3)]))
        face["count"], face["corners"] = 3, mesh.faces
        lines += [f"element face {len(face)}", "property list uchar int vertex_indices"]
        body += face.tobytes()
    return {path: "\n".join([*lines, "end_header", ""]).encode() + body}


def encode_stl(mesh: Mesh, picture: NDArray[np.float32], path: Path) -> Files:
    """One binary file of triangles, without colours."""
    corners = mesh.vertices[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
    rows = np.zeros(len(mesh.faces), np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")]))
    rows["normal"], rows["corners"] = normals, corners
    return {path: b"allfocus, millimetres".ljust(80, b" ") + struct.pack("<I", len(rows)) + rows.tobytes()}


MeshEncoder = Callable[[Mesh, NDArray[np.float32], Path], Files]

MESH_ENCODERS: dict[str, MeshEncoder] = {".glb": encode_glb, ".obj": encode_obj, ".ply": encode_ply, ".stl": encode_stl}
"""Every ending of a mesh that can be written."""
