"""What onnxruntime does beside its work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def written_to_home(program: str, home: Path) -> list[Path]:
    """What a fresh interpreter leaves in its user's home."""
    env = {"HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", program], env=env, check=True, timeout=40)
    return [path for path in home.rglob("*") if path.is_file()]


def test_nothing_is_reported_to_anybody(tmp_path: Path) -> None:
    assert written_to_home("import duplex.engine.onnx", tmp_path) == []


def test_onnxruntime_itself_still_reports(tmp_path: Path) -> None:
    """When this fails, `duplex.engine.onnx` need not stop it any more."""
    assert written_to_home("import onnxruntime", tmp_path) != []
