"""What one level hands to the next: who still competes where, put together from the tiles of windows."""

import numpy as np
import pytest

from allfocus.fusion.decisions import (
    EXCLUSION,
    LONELY,
    VEIL_CHANNELS,
    LevelDecisions,
    Tile,
    make_tile,
)
from allfocus.fusion.settings import AS_CHOSEN
from allfocus.fusion.windows import split_core

ORDER = (3, 0, 2, 1)
SIZE = (44, 62)
"""Neither side is a multiple of four or sixteen: the veil has 11 x 16 values."""
WHOLE = (slice(0, SIZE[0]), slice(0, SIZE[1]))


@pytest.fixture
def said():
    """Logits and veil of four frames, as a network says them of a whole level."""
    generator = np.random.default_rng(0)
    logits = generator.normal(0, 3, (4, *SIZE)).astype(np.float32)
    logits[1, :, :40] = -50
    logits[2] = -50
    veil = generator.random((4, VEIL_CHANNELS, 11, 16), dtype=np.float32)
    return logits, veil


def cut(said, area):
    """What the network says of an area of the level."""
    logits, veil = said
    rows, columns = area
    small = slice(rows.start // 4, -(-rows.stop // 4)), slice(columns.start // 4, -(-columns.stop // 4))
    return logits[:, rows, columns], veil[:, :, *small]


def pieces(steps=(16, 32)):
    for top in range(0, SIZE[0], steps[0]):
        for left in range(0, SIZE[1], steps[1]):
            yield slice(top, min(SIZE[0], top + steps[0])), slice(left, min(SIZE[1], left + steps[1]))


def in_tiles(said, areas):
    return LevelDecisions(ORDER, [make_tile(area, ORDER, *cut(said, area)) for area in areas])


def expected_behind(logits):
    return np.maximum(logits - logits.max(axis=0), -EXCLUSION)


def test_a_tile_holds_how_far_frames_are_behind_and_drops_those_that_have_lost_everywhere(said):
    tile = make_tile(WHOLE, ORDER, *said)
    assert tile.area == WHOLE
    assert tile.chosen == (3, 0, 1)
    assert (tile.behind.dtype, tile.veil.dtype) == (np.float32, np.float16)
    np.testing.assert_array_equal(tile.behind, expected_behind(said[0])[[0, 1, 3]])
    assert (tile.behind.max(axis=0) == 0).all()
    assert tile.behind.min() == -EXCLUSION
    np.testing.assert_allclose(tile.veil, said[1][[0, 1, 3]], atol=1e-3)


def test_a_tile_is_a_copy(said):
    """What the network wrote into its own memory must not keep a whole window alive, nor change under the tile."""
    tile = make_tile(WHOLE, ORDER, said[0], said[1][..., ::-1])
    for part in (tile.behind, tile.veil):
        assert part.flags.c_contiguous
    said[0][:] = 0
    assert tile.behind.min() == -EXCLUSION


@pytest.mark.parametrize("beyond", [-0.1, 0.1])
def test_a_frame_is_out_when_it_is_far_behind_with_all_its_neighbours_and_no_sooner(beyond):
    margin = -LONELY + np.float32(beyond)
    logits = np.stack([np.zeros((4, 4)), np.full((4, 4), -margin)]).astype(np.float32)
    veil = np.zeros((2, VEIL_CHANNELS, 1, 1), np.float32)
    area = (slice(0, 4), slice(0, 4))
    assert make_tile(area, (0, 1), logits, veil).chosen == ((0, 1) if beyond < 0 else (0,))


@pytest.mark.parametrize("beyond", [-0.1, 0.0, 0.1])
def test_a_frame_with_company_is_out_when_it_is_the_exclusion_behind_and_no_sooner(beyond):
    logits = np.zeros((2, 4, 4), np.float32)
    logits[1, 1, 1] = -EXCLUSION - np.float32(beyond)
    tile = make_tile((slice(0, 4),) * 2, (0, 1), logits, np.zeros((2, VEIL_CHANNELS, 1, 1), np.float32))
    assert (tile.behind[1, 1, 1] > -EXCLUSION) == (beyond < 0)


@pytest.mark.parametrize(("places", "ahead", "stays"), [(1, 0.1, True), (1, -0.1, False), (9, -0.1, True)])
def test_a_single_pixel_keeps_a_frame_in_the_running_unless_it_is_far_behind(places, ahead, stays):
    logits = np.full((3, 8, 8), -20, np.float32)
    logits[0] = 0
    logits[2, 7, 1] = AS_CHOSEN.lonely_candidate + np.float32(ahead)
    if places > 1:
        logits[2, 5:8, 0:3] = AS_CHOSEN.lonely_candidate + np.float32(ahead)
    veil = np.zeros((3, VEIL_CHANNELS, 2, 2), np.float32)
    tile = make_tile((slice(0, 8), slice(0, 8)), (4, 5, 6), logits, veil)
    assert tile.chosen == ((4, 6) if stays else (4,))
    decisions = LevelDecisions((6, 5, 4), [tile])
    assert decisions.competing((slice(7, 8), slice(1, 2))) == ([6, 4] if stays else [4])
    assert decisions.competing((slice(0, 4), slice(0, 8))) == [4]


def test_a_tile_does_not_depend_on_where_it_was_cut():
    """Given a pixel more on each side, what is lonely beside the cut is judged by its neighbours beyond."""
    logits = 5 * np.random.default_rng(0).standard_normal((3, 12, 16)).astype(np.float32)
    logits[0] += 8
    veil = np.zeros((3, VEIL_CHANNELS, 3, 4), np.float32)
    whole = LevelDecisions((0, 1, 2), [make_tile((slice(0, 12), slice(0, 16)), (0, 1, 2), logits, veil)])
    core = (slice(4, 8), slice(4, 12))
    part = make_tile(core, (0, 1, 2), logits[:, 3:9, 3:13], veil[..., 1:2, 1:3], (slice(1, 5), slice(1, 9)))
    cut = LevelDecisions((0, 1, 2), [part])
    np.testing.assert_array_equal(cut.gather(core, (0, 1, 2))[0], whole.gather(core, (0, 1, 2))[0])
    alone = make_tile(core, (0, 1, 2), logits[:, 4:8, 4:12], veil[..., 1:2, 1:3])
    assert not np.array_equal(alone.behind, part.behind)


@pytest.mark.parametrize("steps", [(44, 62), (16, 32), (32, 16), (16, 16)])
def test_tiles_of_any_size_say_the_same(said, steps):
    whole, tiles = in_tiles(said, [WHOLE]), in_tiles(said, pieces(steps))
    for area in (WHOLE, (slice(8, 40), slice(0, 32)), (slice(16, 44), slice(40, 62)), (slice(0, 1), slice(44, 45))):
        assert tiles.competing(area) == whole.competing(area)
    assert tiles.competing((slice(0, 44), slice(0, 16))) == [3, 1]
    assert tiles.competing((slice(0, 44), slice(40, 62))) == [3, 0, 1]
    for area in ((slice(0, 48), slice(0, 64)), (slice(8, 40), slice(24, 56)), (slice(40, 48), slice(16, 24))):
        for chosen in (ORDER, (1, 3), (3, 2, 0, 1)):
            found, expected = tiles.gather(area, chosen), whole.gather(area, chosen)
            np.testing.assert_array_equal(found[0], expected[0])
            # Of a frame that has lost everywhere in a tile nothing is kept, so only where it competes.
            competes = found[0].reshape(len(chosen), found[0].shape[1] // 4, 4, -1, 4).max(axis=(2, 4)) > -EXCLUSION
            np.testing.assert_array_equal(
                np.where(competes[:, None], found[1], 0), np.where(competes[:, None], expected[1], 0)
            )


def test_what_is_gathered_is_what_was_said_in_the_order_that_is_asked_for(said):
    logits, veil = said
    area = (slice(8, 40), slice(16, 48))
    behind, found_veil = in_tiles(said, pieces()).gather(area, (1, 2, 3))
    places = [ORDER.index(frame) for frame in (1, 2, 3)]
    np.testing.assert_array_equal(behind, expected_behind(logits)[places][:, 8:40, 16:48])
    for place in (0, 2):
        expected = veil[places[place], :, 2:10, 4:12]
        np.testing.assert_allclose(found_veil[place], expected, atol=1e-3)
    # Frame 2 has lost everywhere, so nothing is known of its veil.
    assert (behind[1] == -EXCLUSION).all()
    assert (found_veil[1] == 0).all()
    assert {part.dtype for part in (behind, found_veil)} == {np.dtype(np.float32)}


@pytest.mark.parametrize("steps", [(44, 62), (16, 32)])
def test_beyond_the_level_the_last_row_and_column_are_repeated(said, steps):
    behind, veil = in_tiles(said, pieces(steps)).gather((slice(16, 48), slice(32, 64)), ORDER)
    assert behind.shape == (4, 32, 32)
    assert veil.shape == (4, VEIL_CHANNELS, 8, 8)
    for maps, row, column in ((behind, 28, 30), (veil, 7, 8)):
        for beyond in range(row, maps.shape[-2]):
            np.testing.assert_array_equal(maps[..., beyond, :], maps[..., row - 1, :])
        for beyond in range(column, maps.shape[-1]):
            np.testing.assert_array_equal(maps[..., beyond], maps[..., column - 1])
    assert (behind[:, 28:].max(axis=0) == 0).all()


def test_nobody_competes_where_nothing_was_decided(said):
    decisions = in_tiles(said, [(slice(0, 16), slice(0, 32))])
    assert decisions.competing((slice(16, 40), slice(0, 32))) == []
    assert LevelDecisions(ORDER).competing(WHOLE) == []


def test_tiles_can_be_added_one_by_one(said):
    decisions = LevelDecisions(ORDER)
    for half in split_core((slice(0, 44), slice(0, 62)), AS_CHOSEN.smallest_core):
        decisions.add(make_tile(half, ORDER, *cut(said, half)))
    assert all(isinstance(tile, Tile) for tile in decisions.tiles)
    assert decisions.competing(WHOLE) == [3, 0, 1]
