"""What the documents show is run: every command of the README, its Python, and links to files."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from outspan.cli import COMMANDS as NAMES
from outspan.cli import cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (outspan .*)$", README, flags=re.MULTILINE)
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples, as a reader who follows along has them."""
    place = tmp_path_factory.mktemp("reader") / "examples"
    shutil.copytree(ROOT / "examples", place)
    return place


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_runs_as_shown(command: str, folder: Path) -> None:
    arguments = shlex.split(command, comments=True)
    shown = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout or shown.stderr  # what goes to a file is reported on standard error


def test_the_readme_names_every_command() -> None:
    shown = {shlex.split(command)[1] for command in COMMANDS}
    assert shown == set(NAMES)


def test_the_python_of_the_readme_runs_and_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.rstrip().endswith("0.36")
    assert "NO_CLAIM None None courtesy" in printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(compile(block, page.name, "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_figure_of_the_example_that_fools_it_is_the_measured_one() -> None:
    import outspan

    evidence = [
        (ROOT / "examples" / name).read_text(encoding="utf-8") for name in ("report.md", "minutes.txt")
    ]
    one = outspan.check("Norda acquired Alba in August.", evidence).claims[0].measurement
    (written,) = re.findall(r"claim +Norda acquired Alba in August\. +energy (0\.\d+)", README)
    assert one.energy == pytest.approx(float(written), abs=5e-4)


CONTEXT = click.Context(cli)


def _leaves(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        return [path]
    found = []
    for name in command.list_commands(CONTEXT):
        sub = command.get_command(CONTEXT, name)
        assert sub is not None
        found += _leaves(sub, (*path, name))
    return found


@pytest.mark.parametrize("path", _leaves(cli), ids=" ".join)
def test_every_command_has_json_and_an_example(path: tuple[str, ...]) -> None:
    command: click.Command = cli
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(CONTEXT, name)
        assert found is not None
        command = found
    assert any("--json" in option.opts for option in command.params)
    assert (command.epilog or "").startswith("Example: outspan " + " ".join(path))
