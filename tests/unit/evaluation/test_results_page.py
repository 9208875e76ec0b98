"""The script that writes the tables into docs/results.md."""

import pytest
from scripts import load_script


@pytest.fixture(scope="module")
def script():
    return load_script("benchmarks/results.py")


def test_only_what_is_between_the_markers_is_replaced(script, tmp_path):
    page = tmp_path / "results.md"
    page.write_text(f"# Results\n\nby hand\n\n{script.BEGIN}\nold\n{script.END}\n\nalso by hand\n")
    script.replace_part(page, f"{script.BEGIN}\nnew\n{script.END}")
    expected = f"# Results\n\nby hand\n\n{script.BEGIN}\nnew\n{script.END}\n\nalso by hand\n"
    assert page.read_text() == expected
    script.replace_part(page, f"{script.BEGIN}\nnew\n{script.END}")
    assert page.read_text() == expected


def test_each_generated_part_of_a_page_has_markers_of_its_own(script, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n<!-- a:begin -->\nold\n<!-- a:end -->\n\n{script.BEGIN}\nkept\n{script.END}\n")
    script.replace_part(page, "<!-- a:begin -->\nnew\n<!-- a:end -->")
    assert page.read_text() == (
        f"# Page\n\n<!-- a:begin -->\nnew\n<!-- a:end -->\n\n{script.BEGIN}\nkept\n{script.END}\n"
    )


def test_a_page_without_markers_gets_them(script, tmp_path):
    script.replace_part(tmp_path / "docs/results.md", f"{script.BEGIN}\nnew\n{script.END}")
    assert (tmp_path / "docs/results.md").read_text() == f"# Results\n\n{script.BEGIN}\nnew\n{script.END}\n"
