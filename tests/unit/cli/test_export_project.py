"""A project that comes from a studio: it is there whole, or not at all, and replaces nothing unasked."""

import io
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

pytest.importorskip("fastapi", reason="the studio needs the extra: pip install 'allfocus[web]'")

from allfocus.cli.export_project_command import _Running, put_project
from allfocus.errors import OutputError
from allfocus.web.door import Door

CONTENT = b"PK" + b"x" * 5000


@pytest.fixture
def studio():
    """A server that promises more of a project than it sends."""

    class Answer(BaseHTTPRequestHandler):
        sent = CONTENT

        def do_GET(self):
            self.send_response(200)
            self.send_header("content-length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(self.sent)

        def log_message(self, *_):
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Answer, _Running(Door(f"http://127.0.0.1:{server.server_port}/", "key"))
        server.shutdown()
        thread.join()


def test_an_answer_that_ends_early_leaves_nothing(studio, tmp_path):
    answer, running = studio
    running.save("job", tmp_path / "whole.allfocus", embed=True, overwrite=False)
    assert (tmp_path / "whole.allfocus").read_bytes() == CONTENT
    for sent in (CONTENT[:3000], b""):
        answer.sent = sent
        with pytest.raises(OutputError, match=r"cut\.allfocus: the studio ended before all of it was there"):
            running.save("job", tmp_path / "cut.allfocus", embed=True, overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == ["whole.allfocus"]


def test_a_file_that_appears_meanwhile_is_kept(tmp_path):
    class Content(io.BytesIO):
        def read(self, size=-1):
            (tmp_path / "p.allfocus").write_bytes(b"of somebody else")
            return super().read(size)

    with pytest.raises(OutputError, match="appeared in the meantime"):
        put_project(Content(CONTENT), tmp_path / "p.allfocus", length=len(CONTENT), overwrite=False)
    assert (tmp_path / "p.allfocus").read_bytes() == b"of somebody else"
    put_project(Content(CONTENT), tmp_path / "p.allfocus", length=len(CONTENT), overwrite=True)
    assert (tmp_path / "p.allfocus").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["p.allfocus"]


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(OutputError, match=r"nowhere/p\.allfocus: could not be written"):
        put_project(io.BytesIO(CONTENT), tmp_path / "nowhere" / "p.allfocus", length=None, overwrite=False)
