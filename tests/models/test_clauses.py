"""models/voice/clauses: where an answer is cut, and that nothing of it is lost."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.models.voice.clauses import Clause, ClauseSplitter, Ending


def split(*pieces: str) -> list[Clause]:
    splitter = ClauseSplitter()
    clauses = [clause for piece in pieces for clause in splitter.feed(piece)]
    return clauses + splitter.finish()


def texts(text: str) -> list[str]:
    return [clause.text.strip() for clause in split(text)]


def test_the_first_clause_ends_at_the_first_mark() -> None:
    assert texts("Well sure, I can help you with that, of course, today.")[0] == "Well sure,"


def test_a_first_clause_is_given_as_soon_as_the_next_word_begins() -> None:
    splitter = ClauseSplitter()
    assert splitter.feed("Of course") == []
    assert splitter.feed("!") == []
    assert splitter.feed(" I") == [Clause(text="Of course!", start=0, end=10, ending=Ending.SENTENCE)]


def test_one_word_is_too_short_for_a_comma_but_not_for_a_sentence() -> None:
    assert texts("Well, yes I do.") == ["Well, yes I do."]
    assert texts("Sure! Yes I do.") == ["Sure!", "Yes I do."]


def test_without_marks_the_first_clause_ends_between_words() -> None:
    clauses = texts("the old house on the hill was built by my grandfather and his brother long ago")
    assert clauses[0] == "the old house"


def test_a_cut_without_a_mark_is_not_after_a_clinging_word() -> None:
    first = texts("one two three of the seven eight nine ten")[0]
    assert first == "one two three"


def test_a_cut_before_a_joining_word_is_not_after_a_clinging_one() -> None:
    first = texts("one two three is in seven eight nine ten")[0]
    assert first == "one two three"


def test_the_first_clause_does_not_wait_for_a_number() -> None:
    assert texts("The moon is about 238,855 miles away")[0] == "The moon"
    assert texts("It is 5 miles away")[0] == "It is 5 miles away", "there is nothing before it to say alone"


def test_later_clauses_are_longer() -> None:
    text = "Yes, I do. " + "One two, " * 20
    lengths = [len(clause.split()) for clause in texts(text)]
    assert lengths[0] <= 3
    assert max(lengths) >= 12
    assert max(lengths) <= 14


@pytest.mark.parametrize(
    "whole",
    [
        "Ask Dr. Smith.",
        "It is 3.14 so far.",
        "The U.S. Army came.",
        "J. K. Rowling wrote it.",
        "See e.g. Berlin.",
        "It is 7:30 p.m. there.",
        "He asked approx. ten people.",
    ],
)
def test_it_is_one_clause(whole: str) -> None:
    assert texts(whole) == [whole]


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ('He said "Stop!" Then he left.', ['He said "Stop!"', "Then he left."]),
        ("**Note.** Read it.", ["**Note.**", "Read it."]),
        ("One\nTwo\n\nThree", ["One", "Two", "Three"]),
        ("1. Take bread\n2. Eat it", ["1. Take bread", "2. Eat it"]),
        ("- bread\n- butter", ["- bread", "- butter"]),
        ("Is it? Yes it is!", ["Is it?", "Yes it is!"]),
        ("I think so — maybe not", ["I think so —", "maybe not"]),
        ("So it is. or not", ["So it is.", "or not"]),
        ("Let me see... okay then", ["Let me see...", "okay then"]),
        ("😀 ! Good day. Bye.", ["😀 ! Good day.", "Bye."]),
        ("It is (perhaps). Yes.", ["It is (perhaps).", "Yes."]),
        ("你好。世界！", ["你好。", "世界！"]),  # noqa: RUF001
    ],
)
def test_it_is_cut(text: str, clauses: list[str]) -> None:
    assert texts(text) == clauses


def test_the_ending_is_told() -> None:
    text = "Well sure, it is. Word" + " word" * 14 + "\nthe end"
    endings = [clause.ending for clause in split(text)]
    assert endings == [Ending.PAUSE, Ending.SENTENCE, Ending.SENTENCE, Ending.LAST]
    assert split("It is so. and so on")[0].ending is Ending.PAUSE
    assert [clause.ending for clause in split("word " * 10)] == [Ending.NONE, Ending.LAST]


def test_nothing_gives_nothing() -> None:
    assert split("", "") == []


def test_a_run_without_spaces_is_cut_somewhere() -> None:
    assert max(len(clause.text) for clause in split("x" * 5000)) <= 300


_alphabet = st.sampled_from(
    [
        *"ab AB.,!?;:\n\"')(1*- ",
        "  ",
        "\n\n",
        "Dr. ",
        "e.g. ",
        "3.14",
        "…",
        "😀",
        "word ",
        "the ",
        "and ",
        "。",
        "\u200d",
        "\x00",
    ]
)
_text = st.lists(_alphabet, max_size=120).map("".join)


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({cut % (len(text) + 1) for cut in cuts} | {0, len(text)})
    return [text[one:other] for one, other in itertools.pairwise(places)]


@given(_text, st.lists(st.integers(0, 10_000), max_size=20))
def test_clauses_cover_the_text_whatever_its_pieces(text: str, cuts: list[int]) -> None:
    clauses = split(*pieces(text, cuts))
    assert "".join(clause.text for clause in clauses) == text
    position = 0
    for clause in clauses:
        assert (clause.start, clause.end) == (position, position + len(clause.text))
        assert clause.text
        position = clause.end
    assert clauses == split(*text)
    assert clauses == split(text)


@given(_text)
def test_every_clause_but_the_last_has_a_word(text: str) -> None:
    for clause in split(text)[:-1]:
        assert any(character.isalnum() for character in clause.text)


@given(st.lists(st.text("abc", min_size=1, max_size=6), min_size=60, max_size=120))
def test_no_clause_is_endless(words: list[str]) -> None:
    lengths = [len(clause.text.split()) for clause in split(" ".join(words))]
    assert lengths[0] <= 8
    assert max(lengths) <= 30
