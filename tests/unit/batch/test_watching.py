"""When a stack that still grows is complete."""

from allfocus.batch.stacks import Stack
from allfocus.batch.watching import SettledStacks


def test_a_stack_is_given_once_when_it_has_been_quiet_and_again_when_it_changed(tmp_path):
    first, second = tmp_path / "1.png", tmp_path / "2.png"
    first.write_bytes(b"1")
    settled = SettledStacks(tmp_path, settle=5)
    one, two = Stack("a", (first,)), Stack("a", (first, second))
    assert settled.ready([one], 0) == []
    assert settled.unsettled == 1
    second.write_bytes(b"2")
    assert settled.ready([two], 4) == []
    assert settled.ready([two], 8.9) == []
    second.write_bytes(b"22")  # the copy goes on
    assert settled.ready([two], 9) == []
    assert settled.ready([two], 14) == [two]
    assert settled.unsettled == 0
    assert settled.ready([two], 30) == []
    first.write_bytes(b"changed")
    assert settled.ready([two], 40) == []
    assert settled.ready([two], 45) == [two]


def test_old_times_of_copied_files_do_not_make_a_stack_complete(tmp_path):
    import os

    frame = tmp_path / "1.png"
    frame.write_bytes(b"1")
    os.utime(frame, ns=(1, 1))
    assert SettledStacks(tmp_path, settle=5).ready([Stack("a", (frame,))], 1e9) == []


def test_a_stack_with_too_few_frames_or_still_being_fused_waits(tmp_path):
    settled = SettledStacks(tmp_path, settle=0)
    short, plain = Stack("a", (tmp_path / "1.png",), problem="has 1 frames, not 3"), Stack("b", (tmp_path / "2.png",))
    assert settled.ready([short], 0) == []
    assert settled.unsettled == 0
    assert settled.stuck == [short]
    assert settled.ready([], 0) == []
    assert settled.stuck == []
    assert settled.ready([plain], 0, busy=lambda name: name == "b") == []
    assert settled.ready([plain], 1) == [plain]
