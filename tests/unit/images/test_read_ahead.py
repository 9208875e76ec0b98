"""What is made ahead is what would have been made when it was asked for, and no more than was allowed."""

import contextlib
import threading

import pytest

from allfocus.images.read_ahead import ReadAhead


class Workshop:
    """Makes the square of a number; notes which were made, in which thread, and how many at once."""

    def __init__(self, *, breaks_at: int | None = None) -> None:
        self.made: list[int] = []
        self.elsewhere: set[int] = set()
        self.breaks_at = breaks_at
        self.at_work = self.most_at_work = 0
        self._lock = threading.Lock()

    def make(self, number: int) -> int:
        with self._lock:
            self.made.append(number)
            self.at_work += 1
            self.most_at_work = max(self.most_at_work, self.at_work)
            if threading.current_thread() is not threading.main_thread():
                self.elsewhere.add(number)
        if number == self.breaks_at:
            raise ValueError(f"{number} cannot be made")
        with self._lock:
            self.at_work -= 1
        return number**2


def test_what_is_expected_is_made_once_each_in_other_threads():
    shop = Workshop()
    ahead = ReadAhead(shop.make)
    with ahead.expecting(range(20), most=3):
        assert [ahead.take(number) for number in range(20)] == [number**2 for number in range(20)]
    assert sorted(shop.made) == list(range(20))
    assert shop.elsewhere == set(range(20))
    assert shop.most_at_work <= 3


def test_no_more_is_made_than_was_allowed_before_one_is_taken():
    shop = Workshop()
    ahead = ReadAhead(shop.make)
    with ahead.expecting(range(20), most=4):
        pass
    assert len(shop.made) <= 4


@pytest.mark.parametrize("order", [[0, 1, 2, 5, 6], [3, 4, 5, 0, 1], [7, 0, 6, 1], [0, 0, 1, 1, 1], [5, 9, 2]])
def test_another_order_than_expected_gives_the_same(order):
    shop = Workshop()
    ahead = ReadAhead(shop.make)
    with ahead.expecting(range(8), most=2):
        assert [ahead.take(number) for number in order] == [number**2 for number in order]


def test_what_was_passed_over_makes_room_for_what_comes():
    shop = Workshop()
    ahead = ReadAhead(shop.make)
    with ahead.expecting(range(8), most=2):
        assert ahead.take(5) == 25
        assert ahead.take(6) == 36
        assert ahead.take(7) == 49
    assert {6, 7} <= shop.elsewhere


def test_an_error_comes_where_the_thing_is_asked_for():
    shop = Workshop(breaks_at=2)
    ahead = ReadAhead(shop.make)
    with ahead.expecting(range(4), most=4):
        assert (ahead.take(0), ahead.take(1)) == (0, 1)
        with pytest.raises(ValueError, match="2 cannot be made"):
            ahead.take(2)
        assert ahead.take(3) == 9


def test_an_error_in_what_nobody_asks_for_is_none():
    ahead = ReadAhead(Workshop(breaks_at=1).make)
    with ahead.expecting(range(4), most=4):
        assert ahead.take(0) == 0


def test_without_leave_everything_is_made_when_it_is_asked_for():
    shop = Workshop()
    ahead = ReadAhead(shop.make)
    with ahead.expecting(range(4), most=0):
        assert shop.made == []
        assert [ahead.take(number) for number in range(4)] == [0, 1, 4, 9]
    assert not shop.elsewhere


def test_when_it_ends_no_thread_is_left():
    before = threading.active_count()
    ahead = ReadAhead(Workshop().make)
    with contextlib.suppress(RuntimeError), ahead.expecting(range(50), most=4):
        ahead.take(0)
        raise RuntimeError
    assert threading.active_count() == before
    assert ahead.take(3) == 9
