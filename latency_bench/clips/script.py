"""What is said in the clips, and how."""

from __future__ import annotations

from dataclasses import dataclass

PAUSE = "|"
"""In a text: a silence of the line's `pause_ms` goes here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One synthetic utterance.

    Attributes:
        name: of its file.
        text: what is said; a comma or dash shapes the melody, `PAUSE` puts a silence in.
        speed: 1.0 is the voice's own pace.
        snr_db: speech to noise; None for none.
        pause_ms: length of each `PAUSE`.
        hesitates: the pause is where a speaker looks for the next word.
    """

    name: str
    text: str
    speed: float = 1.0
    snr_db: float | None = None
    pause_ms: int = 0
    hesitates: bool = False

    @property
    def group(self) -> str:
        if self.hesitates:
            return "hesitations"
        return "inner_pauses" if PAUSE in self.text else "turns"

    @property
    def words(self) -> str:
        """The text as it should be recognised."""
        return " ".join(self.text.replace(PAUSE, " ").split())

    @property
    def ending(self) -> str:
        return {"?": "rising", ".": "falling"}.get(self.text[-1], "level")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Phrases out of a recording of a person, joined by `pause_ms` of the recording's own silence.

    Attributes:
        name, text: as in `Line`.
        phrases_s: start and end of each phrase in the recording.
    """

    name: str
    text: str
    phrases_s: tuple[tuple[float, float], ...]
    pause_ms: int


LINES = (
    Line(name="capital", text="What is the capital of France, and what is it famous for?"),
    Line(name="egg", text="How do I boil an egg so that it stays soft?", speed=0.95, snr_db=30),
    Line(name="story", text="Tell me a short story about a dog who wanted to see the world.", speed=1.05),
    Line(name="sky", text="Why is the sky blue in the morning, and red in the evening?", speed=0.85, snr_db=35),
    Line(name="dinner", text="What should I cook for dinner tonight?", speed=1.1, snr_db=25),
    Line(name="sleep", text="Please give me some advice for sleeping better.", speed=1.0, snr_db=40),
    Line(name="moon", text="How far away is the moon from the earth?", speed=0.9),
    Line(
        name="guitar",
        text="I would like to learn how to play the guitar, but I do not know where to start.",
        speed=1.15,
        snr_db=30,
    ),
    Line(name="book", text="Can you recommend a good book about history?", speed=1.0, snr_db=28),
    Line(name="language", text="What is the best way to learn a new language at home, without a teacher?", speed=1.1),
    Line(name="tired", text="I feel a little tired today, because I worked late last night.", speed=0.9, snr_db=35),
    Line(name="plants", text="How do plants make their own food?", speed=0.85),
    Line(name="rain", text="If it rains tomorrow, what can I do with my children?", speed=1.05, snr_db=30),
    Line(name="homework", text="Well, I think I need some help with my homework.", speed=0.95),
    Line(name="water", text="My flowers are dying, so how often should I water them?", speed=1.1, snr_db=26),
    Line(name="river", text="When I was young, we used to swim in the river.", speed=1.0, snr_db=32),
    Line(name="violin", text="What is the difference between a violin and a piano?", speed=1.15),
    Line(name="pause_trip", text="I was wondering, | if you could help me plan a trip.", pause_ms=300),
    Line(name="pause_train", text="Can you tell me, | how long the train takes?", speed=1.05, pause_ms=200, snr_db=30),
    Line(name="pause_gift", text="I want to buy a present | for my sister.", speed=1.1, pause_ms=250),
    Line(name="pause_garden", text="Tomorrow morning, | I have to work in the garden.", pause_ms=350, snr_db=28),
    Line(name="pause_music", text="Do you know, | what music is good for dancing?", speed=1.1, pause_ms=150),
    Line(name="pause_key", text="I cannot find the key, | to my front door.", speed=0.95, pause_ms=400, snr_db=35),
    Line(name="pause_coffee", text="Is it bad to drink coffee, | in the evening?", speed=1.1, pause_ms=250, snr_db=26),
    Line(name="pause_name", text="What is the name of | the largest ocean?", speed=1.05, pause_ms=180),
    Line(name="pause_bread", text="I need flour, and water, | and some salt.", speed=1.1, pause_ms=300, snr_db=32),
    Line(name="pause_dog", text="My dog, | does not want to eat.", speed=1.0, pause_ms=200),
)


def _hesitation(name: str, text: str, pause_ms: int, speed: float = 1.0, snr_db: float | None = None) -> Line:
    return Line(name=f"wait_{name}", text=text, pause_ms=pause_ms, speed=speed, snr_db=snr_db, hesitates=True)


HESITATIONS = (
    # A clause is still without its object, or the joint to the next one is spoken: to a listener the turn is not over.
    _hesitation("table", "Could you please reserve, | a table for two?", 400, 1.0, 30),
    _hesitation("milk", "Please remind me to buy milk, | and two loaves of bread.", 500),
    _hesitation("cold", "I would rather stay at home, because, | I have a cold.", 600, 1.05, 32),
    _hesitation("paris", "How long does it take to get to, | Paris by car?", 700, 0.95),
    _hesitation("grandmother", "Last summer I went to visit, | my grandmother.", 800, 1.0, 28),
    _hesitation("cheese", "I would like a sandwich with, | cheese and tomato.", 400, 1.1),
    _hesitation("uncle", "My uncle used to work as a, | doctor in the city.", 500, 0.95, 35),
    _hesitation("window", "Can you explain to me why, | the window does not close?", 600, 1.0),
    _hesitation("phone", "Yesterday I lost my phone, | and my keys as well.", 700, 1.05, 30),
    _hesitation("winter", "I do not like the winter, because, | it is too dark.", 800, 1.1),
    _hesitation("teacher", "I need to speak with, | the teacher of my son.", 400, 1.0),
    _hesitation("seven", "Wake me up tomorrow morning at, | half past seven.", 500, 1.1, 26),
    _hesitation("birthday", "For her birthday I want to give her, | a blue dress.", 600, 1.05),
    _hesitation("radio", "Would you turn the radio off and, | close the door?", 700, 1.0, 33),
    _hesitation("soup", "To make the soup I will need, | three large potatoes.", 800, 0.95),
    _hesitation("airport", "We should leave early, so that, | we get to the airport in time.", 400, 1.15, 30),
    # And these could end where the pause is: only the voice says that they go on.
    _hesitation("swim", "My brother learned how to swim, | when he was nine.", 500, 1.05),
    _hesitation("walk", "I go for a long walk every day, | with my two dogs.", 600, 1.1, 35),
    _hesitation("bicycle", "Where can I repair my bicycle, | on a Sunday?", 700, 1.0),
    _hesitation("letter", "She wrote me a very long letter, | about her new job.", 800, 1.1, 28),
)

RECORDING_WHEEL = "useful-moonshine-onnx==20251121"
RECORDING_FILE = "moonshine_onnx/assets/beckett.wav"
ROOM_S = 5.75
"""From here on nobody speaks in the recording for more than half a second."""

CUTS = (
    Cut(name="human_tried", text="Ever tried, ever failed.", phrases_s=((0.26, 1.26), (1.80, 2.66)), pause_ms=180),
    Cut(name="human_matter", text="No matter, try again.", phrases_s=((3.50, 4.14), (4.84, 5.54)), pause_ms=220),
    Cut(name="human_better", text="Fail again, fail better.", phrases_s=((6.62, 7.30), (8.06, 8.96)), pause_ms=250),
)
