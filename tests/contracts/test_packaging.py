"""What is handed out: the ways to install it agree with pyproject.toml, and pages and completions with the commands."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from allfocus.cli.main import SECTIONS, allfocus
from allfocus.cli.man_pages import man_page, page_names
from allfocus.version import __version__

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
OTHER_NAMES = {"opencv-python-headless": "py-opencv"}
"""Packages that conda knows under another name."""


def test_every_command_stands_in_one_section_of_the_help():
    listed = [command.name for commands in SECTIONS.values() for command in commands]
    assert sorted(listed) == sorted(allfocus.commands)


def test_the_bare_command_prints_its_help(run_command):
    done = run_command()
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout == run_command("--help").stdout
    assert all(f"\n  {name} " in done.stdout for name in allfocus.commands)


def test_the_package_runs_as_a_module():
    search = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT / "src"))))
    done = subprocess.run(
        [sys.executable, "-m", "allfocus", "--version"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": search},
        check=False,
    )
    assert done.stdout == f"allfocus, version {__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_is_a_script_that_it_understands(run_command, shell, tmp_path):
    done = run_command("completion", shell)
    assert done.returncode == 0
    assert "_ALLFOCUS_COMPLETE" in done.stdout
    program = shutil.which(shell)
    if program:
        script = tmp_path / "script"
        script.write_text(done.stdout)
        assert subprocess.run([program, "-n", script], check=False).returncode == 0


def test_completion_knows_commands_options_and_values(run_command):
    def complete(*words: str) -> list[str]:
        asked = {"COMP_WORDS": " ".join(["allfocus", *words]), "COMP_CWORD": str(len(words))}
        done = run_command(environment={"_ALLFOCUS_COMPLETE": "bash_complete", **asked})
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert complete("fu") == ["fuse"]
    assert complete("fuse", "--dep") == ["--depth-map"]
    assert "openvino" in complete("fuse", "--device", "o")
    assert complete("fuse", "--method", "ips-p") == ["ips-paper"]
    assert complete("batch", "--preset", "mac") == ["macro"]
    assert complete("score", "--metric", "ps") == ["PSNR"]
    assert complete("evaluate", "--dataset", "real") == ["real-mff"]
    assert complete("demo", "--scene", "des") == ["desk"]
    assert complete("man", "ba") == ["batch"]


@pytest.mark.parametrize("name", [None, *allfocus.commands])
def test_the_manual_page_of_every_command_has_all_its_options(name):
    page = man_page(allfocus, name)
    command = allfocus if name is None else allfocus.commands[name]
    for parameter in command.params:
        for flag in [*parameter.opts, *parameter.secondary_opts] if parameter.param_type_name == "option" else []:
            assert flag.replace("-", "\\-") in page
    assert "\\fB\\-h, \\-\\-help\\fR\n" in page
    assert "\n\n" not in page, "troff makes a gap of an empty line"
    assert page.startswith(".TH ")
    assert not re.search(r"^\.(?!TH|SH|TP|PP|B|BR|nf|fi)", page, re.MULTILINE)


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff here")
@pytest.mark.parametrize("name", [None, "fuse", "completion"])
def test_groff_has_nothing_to_say_about_a_manual_page(name):
    command = ["groff", "-man", "-ww", "-Tutf8", "-K", "utf8"]
    done = subprocess.run(command, input=man_page(allfocus, name), capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert "SYNOPSIS" in re.sub(".\x08", "", done.stdout)  # bold is a letter, a step back, and the letter again


def test_there_is_a_page_for_the_program_and_for_every_command():
    assert set(page_names(allfocus).values()) == {None, *allfocus.commands}


def test_the_build_makes_pages_which_takes_click():
    wheel = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert "custom" in wheel["hooks"]
    assert any(text.startswith("click") for text in PYPROJECT["build-system"]["requires"])


def test_the_conda_recipe_asks_for_what_pyproject_asks_for():
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    asked = [Requirement(text) for text in PROJECT["dependencies"]]
    wanted = {f"{OTHER_NAMES.get(one.name, one.name.lower())} {one.specifier}" for one in asked}
    run = set(recipe["requirements"]["run"])
    assert run == wanted | {f"python {PROJECT['requires-python']}"}
    assert recipe["context"]["version"] == __version__
    assert recipe["build"]["python"]["entry_points"] == [f"allfocus = {PROJECT['scripts']['allfocus']}"]


def test_a_release_is_tried_on_every_system_and_python_that_are_promised():
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    matrix = release["jobs"]["try"]["strategy"]["matrix"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert matrix["python"] == named
    assert {system.partition("-")[0] for system in matrix["system"]} == {"ubuntu", "macos", "windows"}
    jobs = release["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["needs"] == "attest"
    assert jobs["attest"]["needs"] == "try"
    tools = [step["run"] for job in jobs.values() for step in job["steps"] if "tools/" in step.get("run", "")]
    assert all((ROOT / path).exists() for text in tools for path in re.findall(r"tools/\w+\.py", text))


def test_the_container_installs_the_wheel_as_nobody_special():
    text = (ROOT / "packaging" / "Containerfile").read_text(encoding="utf-8")
    stages = re.findall(r"^FROM \S+ AS (\w+)$", text, re.MULTILINE)
    assert stages == ["cpu", "cuda"]
    assert text.count("\nUSER 1000\n") == text.count('\nENTRYPOINT ["allfocus"]\n') == len(stages)
