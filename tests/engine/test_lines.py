"""What a process prints becomes lines, however it comes; a flood costs little."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duplex.engine.lines import Lines

PIECES = [b"a", b"word ", b"\n", b"\r\n", "ä".encode(), b"\x1b[31m", b"0123456789"]
printed = st.lists(st.sampled_from(PIECES)).map(b"".join)


@given(printed, st.lists(st.integers(1, 7)))
def test_it_does_not_matter_in_which_pieces_it_comes(data: bytes, sizes: list[int]) -> None:
    whole, pieces = Lines(longest=12), Lines(longest=12)
    expected = [*whole.feed(data, 0.0), *whole.flush()]
    told: list[str] = []
    rest = data
    for size in sizes:
        told += pieces.feed(rest[:size], 0.0)
        rest = rest[size:]
    assert [*told, *pieces.feed(rest, 0.0), *pieces.flush()] == expected
    assert all(len(line) <= 13 and "\x1b" not in line and "\n" not in line for line in expected)


def test_lines_are_whole_and_empty_ones_are_not_told() -> None:
    lines = Lines()
    assert lines.feed(b"one\n\n  \ntw", 0.0) == ["one"]
    assert lines.feed(b"o\nthree", 0.0) == ["two"]
    assert lines.flush() == ["three"]
    assert lines.flush() == []


def test_a_long_line_is_cut_and_the_next_one_is_not() -> None:
    lines = Lines(longest=4)
    assert lines.feed(b"abcdef", 0.0) == []
    assert lines.feed(b"ghi\nabcd\n", 0.0) == ["abcd…", "abcd"]


def test_of_a_flood_the_first_are_told_and_the_others_counted() -> None:
    lines = Lines(most=2)
    assert lines.feed(b"1\n2\n3\n4\n5", 0.0) == ["1", "2"]
    assert lines.feed(b"6\n7\n", 0.9) == []
    assert lines.feed(b"8\n", 1.0) == ["(4 more lines)", "8"]
    assert lines.feed(b"9\n10\n", 1.5) == ["9"]
    assert lines.flush() == ["(1 more lines)"]


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 2)), max_size=20), st.integers(1, 5))
def test_every_line_is_told_or_counted_and_no_more_than_may(chunks: list[tuple[int, float]], most: int) -> None:
    lines, now, fed = Lines(most=most), 0.0, 0
    told: list[str] = []
    for count, pause_s in chunks:
        now += pause_s
        fed += count
        new = lines.feed(b"x\n" * count, now)
        assert new.count("x") <= most
        told += new
    told += lines.flush()
    omitted = sum(int(line[1:].split()[0]) for line in told if line != "x")
    assert told.count("x") + omitted == fed
