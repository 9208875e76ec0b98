"""Synthetic focus stacks with exact ground truth: procedural scenes through a thin lens."""
