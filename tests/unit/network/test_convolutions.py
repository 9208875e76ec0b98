"""However a convolution is written, its values are those of the plain one."""

import torch
from torch.nn import functional

from allfocus.network.convolutions import convolve_both, convolve_cells, convolve_to_pixels


def test_one_convolution_of_pixels_is_that_of_their_cells():
    frames, weight, bias = torch.rand(2, 3, 3, 16, 24), torch.randn(5, 12, 3, 3), torch.randn(5)
    cells = functional.pixel_unshuffle(frames.flatten(0, 1) - 0.5, 2)
    expected = functional.conv2d(cells, weight, bias, padding=1)
    torch.testing.assert_close(convolve_cells(frames, weight, bias, None), expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(convolve_cells(frames, weight, bias, torch.ones(1, 1, 8, 12)), expected)


def test_the_pixels_of_four_cells_at_once_are_those_of_each():
    layer, features = torch.nn.Conv2d(6, 4, 3, padding=1), torch.randn(2, 6, 8, 12)
    expected = functional.pixel_shuffle(layer(features), 2)
    torch.testing.assert_close(convolve_to_pixels(features, layer), expected, atol=1e-5, rtol=0)


def test_two_maps_are_convolved_as_if_they_were_joined():
    layer, first, second = torch.nn.Conv2d(7, 3, 3, padding=1), torch.randn(2, 5, 6, 8), torch.randn(2, 2, 6, 8)
    expected = layer(torch.cat([first, second], dim=1))
    torch.testing.assert_close(convolve_both(first, second, layer), expected, atol=1e-5, rtol=0)
