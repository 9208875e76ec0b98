"""A finished picture: tones, crop, healed spots and a scale bar, applied to a fused one at full depth."""
