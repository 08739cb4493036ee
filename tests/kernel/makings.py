"""What engines make: each turn has words and a sound of its own, so all that comes out anywhere shows whose it is."""

from __future__ import annotations

import re
from collections.abc import Callable

from duplex.connector.payload import Payload, Text, Transcript, Voiced
from duplex.session.fence import Fence
from duplex.session.port import Audio


class Makings:
    """Everything that was made, by the fence under which it was.

    Attributes:
        final: what users have said or typed, in the end.
        thoughts: text of answers.
        sounds: of answers, by chunk: samples and characters at its end.
    """

    def __init__(self, *, expect: Callable[[bool, str], None]) -> None:
        self.final: set[str] = set()
        self.thoughts: dict[Fence, str] = {}
        self.sounds: dict[Fence, list[tuple[int, int]]] = {}
        self._expect = expect
        self._tags: dict[Fence, int] = {}
        self._fences: dict[int, Fence] = {}

    def tag(self, fence: Fence) -> int:
        """A number of the turn's own, from 1; its samples are this number."""
        tag = self._tags.setdefault(fence, len(self._tags) + 1)
        self._fences[tag] = fence
        return tag

    def words_thought(self, fence: Fence, number: int) -> str:
        return f"a{self.tag(fence)}.{number} "

    def words_said(self, fence: Fence, *, others: bool = False) -> str:
        return f"u{self.tag(fence)}{'x' if others else ''}."

    def made(self, stage: str, fence: Fence, payload: Payload) -> None:
        """A stage has made this."""
        match payload:
            case Text(text=text) if stage == "think":
                self.thoughts[fence] = self.thoughts.get(fence, "") + text
            case Transcript(final=True, text=text):
                self.final.add(text)
            case Voiced(samples=samples, text_end=text_end):
                sounds = self.sounds.setdefault(fence, [])
                sounds.append((len(samples) + (sounds[-1][0] if sounds else 0), text_end))
            case _:
                pass

    def maker(self, audio: Audio) -> Fence:
        """Under which fence it was made, whatever it says."""
        return self._fences[int(audio.pcm[0])]

    def thinker(self, text: str) -> Fence | None:
        """Whose words these are; None for no words."""
        tags = {int(tag) for tag in re.findall(r"a(\d+)\.", text)}
        self._expect(len(tags) <= 1, f"words of several answers in one: {text!r}")
        return self._fences[tags.pop()] if tags else None
