"""The line of every value in a TOML document, whichever way it is written."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from duplex.orchestrator.toml_lines import Path, line_of, lines_of

TEXT = r'''# [no.header] = here
title = "a # b"   # c
many = """
x = 1
\""" [no.header]
"""""
raw = """it's "quoted" text"""  # one line
literal = 'c:\'

[owner]
"a.b" . c = 1
born = 1979-05-27 07:32:00
lines = [
    "one",  # ]

    [2, 3,
     4],
    { deep = 5, more = [ 6 ] },
]

[[stage]]
name = "a"
[stage.budget]
cpu = 1
[[stage]]
empty = []
budget = { cpu = 1, gpu.zero = """
2""" }
[[stage.part]]
[[stage.part]]
z = TRIPLE
literal = """
more"""TRIPLE
y = 1
'''.replace("TRIPLE", "'" * 3)
EXPECTED: dict[Path, int] = {
    ("title",): 2,
    ("many",): 3,
    ("raw",): 7,
    ("literal",): 8,
    ("owner",): 10,
    ("owner", "a.b"): 11,
    ("owner", "a.b", "c"): 11,
    ("owner", "born"): 12,
    ("owner", "lines"): 13,
    ("owner", "lines", 0): 14,
    ("owner", "lines", 1): 16,
    ("owner", "lines", 1, 0): 16,
    ("owner", "lines", 1, 1): 16,
    ("owner", "lines", 1, 2): 17,
    ("owner", "lines", 2): 18,
    ("owner", "lines", 2, "deep"): 18,
    ("owner", "lines", 2, "more"): 18,
    ("owner", "lines", 2, "more", 0): 18,
    ("stage",): 21,
    ("stage", 0): 21,
    ("stage", 0, "name"): 22,
    ("stage", 0, "budget"): 23,
    ("stage", 0, "budget", "cpu"): 24,
    ("stage", 1): 25,
    ("stage", 1, "empty"): 26,
    ("stage", 1, "budget"): 27,
    ("stage", 1, "budget", "cpu"): 27,
    ("stage", 1, "budget", "gpu"): 27,
    ("stage", 1, "budget", "gpu", "zero"): 27,
    ("stage", 1, "part"): 29,
    ("stage", 1, "part", 0): 29,
    ("stage", 1, "part", 1): 30,
    ("stage", 1, "part", 1, "z"): 31,
    ("stage", 1, "part", 1, "y"): 34,
}


def test_every_way_to_write_a_value() -> None:
    assert EXPECTED.keys() | {()} == paths(tomllib.loads(TEXT))
    assert lines_of(TEXT) == EXPECTED
    assert lines_of(TEXT.replace("\n", "\r\n")) == EXPECTED


def test_what_has_no_line_has_that_of_what_is_around_it() -> None:
    lines = lines_of("\na = 1\n[[b]]\n")
    assert line_of(lines, ("b", 0, "absent", 3)) == 3
    assert line_of(lines, ("absent",)) == line_of(lines, ()) == 1


def paths(value: object, path: Path = ()) -> set[Path]:
    """Every path in what tomllib has read."""
    parts: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, list):
        parts = list(enumerate(value))
    return {path}.union(*(paths(inner, (*path, part)) for part, inner in parts))


TEXTS = st.text(alphabet="ab#[]{}=,.'\"\\\n ", max_size=8)
QUOTED = TEXTS.map(lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"')
ENDS = st.sampled_from(['"""', '""""', '"""""'])
LONG = st.builds(lambda text, end: '"""' + text.replace("\\", "\\\\").replace('"', '\\"') + end, TEXTS, ENDS)
LITERAL = TEXTS.map(lambda text: "'" + text.replace("'", "").replace("\n", "") + "'")
SCALARS = st.one_of(QUOTED, LONG, LITERAL, st.sampled_from(["1", "-1.5e3", "true", "1979-05-27 07:32:00", "inf"]))
GAPS = st.sampled_from(["", " ", "\n", " # ] } = [[x]]\n  "])
KEYS = st.one_of(st.sampled_from(["a", "b-1", "3"]), QUOTED, LITERAL)


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    elements = draw(st.lists(inner, max_size=3))
    return "[" + "".join(draw(GAPS) + element + draw(GAPS) + "," for element in elements) + draw(GAPS) + "]"


@st.composite
def tables(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    pairs = [f"k{index}.{draw(KEYS)} = {draw(inner)}" for index in range(draw(st.integers(0, 2)))]
    return "{ " + ", ".join(pairs) + " }"


VALUES = st.recursive(SCALARS, lambda inner: arrays(inner) | tables(inner), max_leaves=6)


@given(values=st.lists(VALUES, max_size=6), gaps=st.data())
def test_random_documents(values: list[str], gaps: st.DataObject) -> None:
    """The line of each key is the one on which it was written, and no value is overlooked or made up."""
    text, expected = "", {}
    for index, value in enumerate(values):
        text += gaps.draw(st.sampled_from(["", "\n", "# k = [\n"])) + gaps.draw(
            st.sampled_from(["", f"[t{index}]\n", "[[rows]]\n"])
        )
        expected[f"k{index}x"] = text.count("\n") + 1
        text += f"k{index}x = {value}\n"
    lines = lines_of(text)
    assert {path[-1]: line for path, line in lines.items() if path[-1] in expected} == expected
    assert lines.keys() | {()} == paths(tomllib.loads(text))
