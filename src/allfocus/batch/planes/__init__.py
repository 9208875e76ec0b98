"""Planes larger than the memory: read in tiles, fused block by block, written as OME-Zarr or tiled TIFF."""
