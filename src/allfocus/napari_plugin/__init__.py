"""The plug-in for napari: stacks of microscopes opened calibrated, and fused where they are looked at."""
