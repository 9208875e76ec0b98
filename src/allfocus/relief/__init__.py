"""A fused picture and its depth as things to hold and to look at from the side: meshes, point clouds, stereo pairs."""
