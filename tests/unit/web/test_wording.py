"""What clients are told of errors: their own names for files, switches of the page, no path of the server."""

from pathlib import Path

import pytest

from allfocus.errors import InputError, OutputError
from allfocus.stack.frames import strangers
from allfocus.web.wording import status_of, tell_error

WORK = Path("/srv/studio")


def test_a_frame_that_does_not_belong_is_told_with_the_switches_of_the_page():
    assert tell_error(strangers({2: "shot_3.tif"}, []), WORK) == (
        "shot_3.tif: does not seem to belong to the stack (it cannot be aligned with the others); take it out, switch "
        "on “Leave out bad frames” to leave such frames out, or switch off “Align the frames” to fuse the frames as "
        "they are"
    )


def test_files_of_the_work_folder_are_not_named():
    error = OutputError("could not be written (No space left on device)", where=WORK / "jobs" / "ab" / "result.tif")
    assert tell_error(error, WORK) == "could not be written (No space left on device)"
    assert error.where is not None, "the error itself is left as it was"


def test_a_file_is_called_as_the_client_calls_it():
    error = InputError("the file is empty", where=WORK / "temporary" / "0123", code="not-a-picture")
    assert tell_error(error, WORK, called="notes.txt") == "notes.txt: the file is empty"


@pytest.mark.parametrize(
    ("code", "otherwise", "status"),
    [("too-many-pixels", None, 413), ("damaged-picture", None, 415), ("input", None, 400), ("input", 415, 415)],
)
def test_the_status_comes_from_the_code(code, otherwise, status):
    assert status_of(InputError("", code=code), otherwise=otherwise) == status
