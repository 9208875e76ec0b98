"""The table of fusion methods: ours, the networks of the literature, and those that installed packages offer."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from allfocus.plugins import METHODS_GROUP, Catalogue, add_plugins
from allfocus.rivals.catalogue import RIVALS, Rival

if TYPE_CHECKING:
    pass
from allfocus.fusion.method import EXTRAS, NETWORK_ENDING, WEIGHTS_SIGN, Abilities, Method, method_of

_BLENDS = Abilities(decides=False)
_BLENDS_IN_TURN = Abilities(decides=False, one_at_a_time=True)
_PICKS_IN_TURN = Abilities(one_at_a_time=True)
_SELECTS = Abilities(prefers=True, linear_light=True, unveils=True, streams=True, mends=True, devices=True)


def _method_of_rival(rival: Rival) -> Method:
    return Method(
        rival.name,
        rival.summary,
        rival.paper,
        rival.frames,
        abilities=Abilities(decides=rival.decides, devices=True, weights=bool(rival.files)),
        extra="rivals",
        licence=rival.licence,
        cost=rival.cost,
        files=rival.files,
        origin=rival.origin,
        function=rival.function,
    )


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "ips",
            "our network: weighs the frames of each pixel by how likely they are in focus",
            "Inter-image pixel shuffling (Lin, Ma, Wang 2025), extended",
            "pictures above 1.2 megapixels are decided at half scale",
            abilities=_SELECTS,
            network="ips",
            title="Learned focus (recommended)",
            function="allfocus.fusion.learned:fuse_ips",
        ),
        Method(
            "ips-hard",
            "the same network, every pixel copied from the likeliest frame: for measuring in the result",
            "Inter-image pixel shuffling (Lin, Ma, Wang 2025), extended",
            "farther from the truth than ips where a choice is nearly even",
            abilities=_SELECTS,
            options={"hard": True},
            network="ips",
            title="Learned focus, copies only",
            function="allfocus.fusion.learned:fuse_ips",
        ),
        Method(
            "ips-paper",
            "the paper's own network, for reproduction",
            "Inter-image pixel shuffling (Lin, Ma, Wang 2025)",
            "exactly 2 frames; slow without a GPU",
            abilities=Abilities(frames=(2, 2), decides=False, devices=True),
            extra="train",
            network="ips-paper",
            function="allfocus.fusion.paper:fuse_ips_paper",
        ),
        Method(
            "dsift",
            "dense SIFT as activity, refined by feature matching",
            "Liu, Liu, Wang, Information Fusion 23, 2015",
            "more than 2 frames are fused one after the other",
            abilities=_PICKS_IN_TURN,
            function="allfocus.fusion.dsift:fuse_dsift",
        ),
        Method(
            "dct-corr",
            "correlation of 8x8 blocks with their blurred selves in the DCT domain",
            "Amin-Naji, Aghagolzadeh, 2018",
            function="allfocus.fusion.dct_corr:fuse_dct_corr",
        ),
        Method(
            "laplacian-pyramid",
            "largest Laplacian coefficient at each scale, as published: 4 levels, each channel alone",
            "Burt, Adelson, IEEE Trans. Communications, 1983",
            "halos at depth edges; adds up noise; colours of detail may mix",
            abilities=_BLENDS_IN_TURN,
            title="Pyramid, as published",
            function="allfocus.fusion.laplacian_pyramid:fuse_laplacian_pyramid",
        ),
        Method(
            "laplacian-pyramid-energy",
            "most Laplacian energy over 3x3 pixels at each of all scales, colours together: better on stacks",
            "Burt, Kolczynski, ICCV, 1993",
            "halos at depth edges; adds up noise",
            abilities=_BLENDS_IN_TURN,
            title="Pyramid: all fine detail",
            function="allfocus.fusion.laplacian_pyramid:fuse_laplacian_pyramid_energy",
        ),
        Method(
            "guided-filter",
            "saliency weights smoothed by a guided filter, two scales",
            "Li, Kang, Hu, IEEE Trans. Image Processing 22, 2013",
            abilities=_BLENDS_IN_TURN,
            title="Guided filter: clean edges",
            function="allfocus.fusion.guided_filter:fuse_guided_filter",
        ),
        Method(
            "wavelet",
            "largest coefficient of an undecimated wavelet transform",
            "Starck, Fadili, Murtagh, IEEE Trans. Image Processing 16, 2007",
            abilities=_BLENDS,
            title="Wavelets",
            function="allfocus.fusion.wavelet:fuse_wavelet",
        ),
        Method(
            "depth-map",
            "the sharpest frame of each pixel by a smoothed focus measure",
            "Nayar, Nakagawa, IEEE Trans. PAMI 16, 1994",
            "hard edges between frames",
            abilities=_PICKS_IN_TURN,
            title="Depth map: smooth surfaces",
            function="allfocus.fusion.depth_map:fuse_depth_map",
        ),
        Method(
            "average",
            "the mean of the frames; what fusion must beat",
            abilities=_BLENDS_IN_TURN,
            title="Plain average",
            function="allfocus.fusion.average:fuse_average",
        ),
        *map(_method_of_rival, RIVALS),
    )
}  # fmt: skip


@cache
def method_catalogue() -> Catalogue[Method]:
    """Our methods with those that installed packages offer, and which of these are passed over."""
    return add_plugins(METHODS, METHODS_GROUP, _accept_plugin)


def all_methods() -> dict[str, Method]:
    """Every method by its name: ours, then those that installed packages offer."""
    return method_catalogue().entries


def _accept_plugin(name: str, value: object) -> Method | None:
    if isinstance(value, Method):
        return value if _is_method(value) else None
    return method_of(value, name=name) if callable(value) and WEIGHTS_SIGN not in name else None


def _is_method(method: Method) -> bool:
    """Whether the fields of a method that somebody else made are what they must be."""
    texts = (method.name, method.summary, method.paper, method.limits, method.title, method.licence, method.cost)
    return (
        all(isinstance(text, str) for text in (*texts, method.origin, method.network))
        and not method.name.endswith(NETWORK_ENDING)
        and WEIGHTS_SIGN not in method.name
        and isinstance(method.abilities, Abilities)
        and isinstance(method.options, Mapping)
        and (not method.extra or method.extra in EXTRAS)
        and (bool(method.files) or not method.abilities.weights)
        and (callable(method.function) or (isinstance(method.function, str) and ":" in method.function))
    )


def list_methods() -> list[Method]:
    """Returns all methods, our default first; those that cannot run with what is installed say why in `missing`."""
    return list(all_methods().values())
