"""The command line: exit codes, one sentence for each failure, and no import that a command does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from duplex.cli import main
from duplex.models.manifest import bundled


@pytest.mark.parametrize("words", [[], ["nonsense"], ["models"], ["models", "fetch", "--nonsense"]])
def test_wrong_usage_is_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("usage: duplex")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["serve", "--port", "x"], "duplex: http.port is 'x' (from --port): give a whole number from 0 to 65535"),
        (["serve", "--host", "0.0.0.0"], "duplex: http.host is '0.0.0.0', which other machines can reach"),
        (["models", "fetch", "nope"], "duplex: there is no model file 'nope': the keys are "),
        (["models", "list", "--config", "/no/such"], "duplex: the configuration file /no/such cannot be read"),
    ],
)
def test_a_failure_is_1_and_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    said = capsys.readouterr()
    assert said.err.startswith(sentence)
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_models_of_an_empty_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "list", "--models-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().out.count("absent") == len(list(bundled().files()))
    assert main(["models", "verify", "--models-dir", str(tmp_path)]) == 1


@pytest.mark.parametrize(("flag", "code", "word"), [("--models-dir", 0, "warning"), ("--cache-dir", 1, "wrong")])
def test_other_weights_are_wrong_only_in_the_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str, code: int, word: str
) -> None:
    directory = tmp_path if flag == "--models-dir" else tmp_path / "models"
    for _, file in bundled().files():
        (directory / file.key).parent.mkdir(parents=True, exist_ok=True)
        (directory / file.key).write_bytes(b"other weights")
    assert main(["models", "verify", flag, str(tmp_path)]) == code
    assert capsys.readouterr().out.count(word) == len(list(bundled().files()))


def test_models_needs_no_model_library() -> None:
    """`duplex models` must work before anything heavy does, and quickly."""
    heavy = (
        "numpy, onnxruntime, xllamacpp, tokenizers, soxr, starlette, uvicorn, websockets, duplex.server, duplex.client"
    )
    program = (
        "import sys; from duplex.cli import main; main(['models', 'list']); "
        f"print([name for name in '{heavy}'.split(', ') if name in sys.modules], file=sys.stderr)"
    )
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_the_module_is_the_command() -> None:
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "duplex", "--version"], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout == "duplex 0.1.0\n"
