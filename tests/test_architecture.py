"""Imports go one way: a module may import only rooms with a lower number than its own."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "outspan"

ROOMS = {
    "errors": 0,
    "canonical": 0,
    "texts": 1,
    "geometry": 1,
    "background": 1,
    "claims": 2,
    "files": 3,
    "measurement": 2,
    "evidence": 2,
    "embedders": 2,
    "frames": 2,
    "sensors": 3,
    "calibration": 3,
    "drift": 4,
    "gate": 4,
    "ledger": 4,
    "replay": 6,
    "checker": 5,
    "bulk": 6,
    "lab": 6,
    "testing": 7,
    "selftest": 7,
    "cli": 8,
}
"""Room to number. A room that is not listed here fails the test: it has to be given its place."""


def imports_of(module: Path) -> set[str]:
    """Rooms of outspan that ``module`` imports, at any depth of its code."""
    rooms = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            rooms |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level <= 1, f"{module.name}: relative import in line {node.lineno} leaves its room"
            if node.level == 0:
                rooms.add(node.module or "")
    return {name.split(".")[1] for name in rooms if name.startswith("outspan.")}


def room_of(module: Path) -> str:
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


DOORS = {PACKAGE / "__init__.py", PACKAGE / "__main__.py"}
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path not in DOORS]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_to_lower_rooms(module: Path) -> None:
    own = room_of(module)
    assert own in ROOMS, f"{own} has no place in the list of rooms"
    for room in imports_of(module) - {own}:
        assert ROOMS[room] < ROOMS[own], f"{own} imports {room}"


def test_geometry_knows_numpy_and_nothing_else() -> None:
    for module in (PACKAGE / "geometry").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for name in names:
                top = name.split(".")[0]
                assert top in sys.stdlib_module_names | {"numpy", "outspan"}, f"{module}: {name}"


def test_importing_outspan_loads_nothing_heavy() -> None:
    probe = (
        "import sys, outspan; heavy = {'onnxruntime', 'onnx', 'tokenizers', 'torch', 'pandas', 'pyarrow', "
        "'matplotlib', 'sklearn', 'huggingface_hub', 'rich', 'numpy'} & set(sys.modules); print(sorted(heavy))"
    )
    shown = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
