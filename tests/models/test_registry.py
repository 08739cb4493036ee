"""Model families of any package are found, and what is wrong with one is said in a sentence that names the package."""

from __future__ import annotations

import asyncio
import sys
import tomllib
from pathlib import Path

import pytest

from duplex.config import ServerConfig
from duplex.errors import ConfigError, FamilyError
from duplex.models.family import Family
from duplex.models.registry import BUILT_IN, GROUP, family, found
from duplex.server import Server

ROOT = Path(__file__).parents[2]
TOY = """
from duplex.orchestrator.graph import StageGraph, StageSpec
from duplex.connector.payload import Kind

class Toy:
    name = {name!r}
    instructions, voices, transcriber = "", ("v",), "t"
    graph = StageGraph(name="toy", edges=[], stages=[StageSpec(
        name="listen", lifetime="session", accepts={{Kind.PCM}}, gives={{Kind.SPEECH}}, final_output=True)])

    def build(self, stages, resources):
        raise NotImplementedError

FAMILY = Toy()
"""


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, *, family: str, package: str = "toys", source: str) -> None:
    """Put a package with one entry point on the path, as pip would."""
    module = f"module_of_{package}"
    info = folder / f"{package}-1.2.dist-info"
    info.mkdir(parents=True)
    (folder / f"{module}.py").write_text(source)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{family} = {module}:FAMILY\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, module, raising=False)


def test_the_voice_is_declared_where_every_family_is() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    assert declared == {BUILT_IN.name: BUILT_IN.value}


def test_the_voice_is_a_family() -> None:
    voice = family("voice")
    assert isinstance(voice, Family)
    assert (voice.name, voice.graph.name) == ("voice", "voice")
    assert voice.graph.plan(voice.graph.stages)[-1] == "code2wav"


def test_a_family_of_another_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, family="toy", source=TOY.format(name="toy"))
    assert {"toy", "voice"} <= found().keys()
    assert list(family("toy").graph.stages) == ["listen"]


def test_finding_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, family="toy", source="raise SystemError")
    assert found()["toy"].value == "module_of_toys:FAMILY"


def refusal(name: str) -> str:
    with pytest.raises(FamilyError) as caught:
        family(name)
    return str(caught.value)


def test_an_unknown_name_is_answered_with_those_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, family="toy", source=TOY.format(name="toy"))
    assert refusal("tpy").startswith(
        "there is no model family `tpy`: did you mean toy? There are toy (toys 1.2), voice ("
    )
    assert refusal("x").startswith(
        "there is no model family `x`: install its package, or choose one of toy (toys 1.2), "
    )


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("import absent_module", "cannot be imported (ModuleNotFoundError: No module named 'absent_module')"),
        ("x = = 1", "cannot be imported (SyntaxError: invalid syntax"),
        ("raise ValueError('two\\nlines')", "cannot be imported (ValueError: two)"),
        ("", "cannot be imported (AttributeError: module 'module_of_toys' has no attribute 'FAMILY')"),
        ("FAMILY = 3", "is no family, module_of_toys:FAMILY being int"),
        (TOY.format(name="other"), "calls itself `other`"),
        (
            TOY.format(name="toy").replace("{Kind.PCM}", "frozenset()"),
            "cannot be imported (GraphError: graph toy: stage `listen` accepts nothing: name a payload kind in",
        ),
    ],
)
def test_a_broken_family_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, complaint: str
) -> None:
    install(tmp_path, monkeypatch, family="toy", source=source)
    said = refusal("toy")
    assert said.startswith(f"the model family `toy` of toys 1.2 {complaint}")
    assert said.endswith(": repair or reinstall toys 1.2, or choose another with --model")
    assert "\n" not in said


def test_one_name_in_two_packages_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("toys", "games"):
        install(tmp_path / package, monkeypatch, family="toy", package=package, source="")
    assert refusal("voice") == "the model family `toy` is in games 1.2 and in toys 1.2: uninstall one"


@pytest.mark.anyio
async def test_a_family_without_a_conversation_is_refused_by_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, family="toy", source=TOY.format(name="toy"))
    with pytest.raises(ConfigError, match="family `toy` has no stage code2wav, endpoint, hear, talk, think, which a"):
        Server(ServerConfig(model="toy"), asyncio.TaskGroup())
    with pytest.raises(FamilyError, match="there is no model family `tooy`: did you mean toy"):
        Server(ServerConfig(model="tooy"), asyncio.TaskGroup())
