"""What sources learn of each other."""

import torch

from allfocus.network.exchange import compare_sources


def test_sources_are_compared_with_the_mean_of_those_that_compete():
    as_it_is = torch.nn.Conv2d(8, 8, 1, bias=False)
    with torch.no_grad():
        as_it_is.weight.copy_(torch.eye(8)[:, :, None, None])
    features = torch.rand(3, 8, 16, 16, generator=torch.Generator().manual_seed(2))
    alike = compare_sources(features, 3, None, as_it_is)
    torch.testing.assert_close(alike, features - features.mean(0), rtol=0, atol=1e-6)
    competing = torch.tensor([1.0, 1.0, 0.0])[None, :, None, None].expand(1, 3, 16, 16)
    two = compare_sources(features, 3, competing, as_it_is)
    torch.testing.assert_close(two, features - features[:2].mean(0), rtol=0, atol=1e-6)
