/** The page in Chromium against the stub server. Run by test_page.py, which sets STUB_URL and MIC_WAV. */

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { answer, fresh, inPhase, launch, lines, message, phase, sent, shot, signals, STUB, stub, until } from "./chromium.mjs";

const FRAME = 480; // 20 ms at 24 kHz
const TERMS = { input_hz: 24_000, output_hz: 24_000, playback: "acknowledged", ahead_ms: 500, grace_s: 30, heartbeat_s: 5 };
const OPENED = { type: "opened", version: 1, session_id: "sess_1", generation: 0, token: "t1", terms: TERMS, settings: {} };

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());
beforeEach(() => stub("reset", {}));

const audioFrame = (page) => page.evaluate(() => watch.context.currentTime * watch.context.sampleRate);

async function talking(t, options) {
  const page = await fresh(t, browser, options);
  await page.click("#orb");
  await inPhase(page, "listening");
  return page;
}

test("the page loads under the strict policy, from this server alone", async (t) => {
  const page = await fresh(t, browser);
  assert.equal(await phase(page), "idle");
  assert.deepEqual(
    page.requested.filter((url) => new URL(url).origin !== new URL(STUB).origin),
    [],
  );
  assert.ok(page.requested.length > 5);
  await shot(page, "idle");
});

test("every control has a name", async (t) => {
  const page = await fresh(t, browser);
  const unnamed = await page.$$eval("button, input", (all) =>
    all.filter((one) => !one.textContent.trim() && !one.labels?.length && !one.getAttribute("aria-label")).map((one) => one.id),
  );
  assert.deepEqual(unnamed, []);
});

test("the microphone arrives in frames of 20 ms, with sound in them", async (t) => {
  const page = await talking(t);
  await inPhase(page, "listening");
  const got = await until(async () => {
    const received = await stub("received");
    return received.frames.length >= 75 && received;
  });
  assert.ok(got.frames.every((samples) => samples === FRAME));
  assert.ok(Math.max(...got.rms) > 0.02, `loudest frame ${Math.max(...got.rms)}`);
  assert.ok(got.rms.filter((rms) => rms > 0.01).length > 20);
  assert.deepEqual(got.protocols, [["duplex.v1"]]);
  await page.waitForFunction(() => Number(getComputedStyle(document.body).getPropertyValue("--mine")) > 0.2);
  await shot(page, "talking");

  await page.click("#orb");
  await inPhase(page, "idle");
  const stopped = (await stub("received")).frames.length;
  await page.waitForTimeout(300);
  const later = await stub("received");
  assert.ok(later.frames.length - stopped <= 2, "the microphone goes on after stop");
  assert.equal(later.open, 1, "to stop talking is not to hang up");
});

test("starting is shown until the session exists, and nothing is sent before", async (t) => {
  await stub("mode", { meet: "wait" });
  const page = await fresh(t, browser);
  await page.click("#orb");
  await inPhase(page, "starting");
  await page.waitForTimeout(200);
  const { frames, events } = await stub("received");
  assert.deepEqual([frames.length, events.map(({ type }) => type)], [0, ["open"]]);
  assert.equal(events[0].playback, "acknowledged");
  await stub("emit", [OPENED]);
  await inPhase(page, "listening");
});

test("a turn: the user's words stand before the answer though they come after it; no gap in the sound", async (t) => {
  await stub("mode", { turns: { resp_1: TURN } });
  const page = await talking(t);
  await page.waitForTimeout(500);
  await stub("emit", [{ type: "speech_started", item_id: "user_1", at_ms: 0 }]);
  await inPhase(page, "hearing");
  await page.waitForTimeout(300);
  await stub("emit", [
    { type: "speech_stopped", item_id: "user_1", at_ms: 900 },
    { type: "committed", item_id: "user_1", previous_item_id: null },
  ]);
  await inPhase(page, "thinking");
  await stub("emit", answer("resp_1", "bot_1", { epoch: 1, after: "user_1", text: "The tallest one is Everest.", tone: 440, seconds: 1.5 }));
  await inPhase(page, "speaking");
  await stub("emit", [
    message("user_1", "user", null),
    { type: "transcribed", item_id: "user_1", text: "Which is the tallest mountain?", audio_ms: 900 },
  ]);
  await inPhase(page, "listening");
  assert.deepEqual(await lines(page), [
    ["user", "Which is the tallest mountain?"],
    ["assistant", "The tallest one is Everest."],
  ]);

  const sound = await page.evaluate((hz) => {
    const { samples } = watch.recording();
    const loud = [];
    samples.forEach((sample, i) => Math.abs(sample) > 0.01 && loud.push(i));
    const [first, last] = [loud[0], loud.at(-1)];
    // A sine obeys x[n+1] = 2cos(w)x[n] - x[n-1]; a gap, a lost or a doubled sample does not.
    const twoCos = 2 * Math.cos((2 * Math.PI * hz) / watch.context.sampleRate);
    let worst = 0;
    for (let i = first + 2; i < last - 1; i++) {
      worst = Math.max(worst, Math.abs(samples[i + 1] - twoCos * samples[i] + samples[i - 1]));
    }
    return { length: last - first, worst, rate: watch.context.sampleRate };
  }, 440);
  assert.equal(sound.rate, 24_000);
  assert.ok(Math.abs(sound.length - 36_000) < 20, `played ${sound.length} samples of 36000`);
  assert.ok(sound.worst < 1e-3, `a break of ${sound.worst} in the sine`);

  const voiceMs = Number(await page.textContent("#voice-ms"));
  assert.ok(voiceMs > 0 && voiceMs < 5000, `voice to voice ${voiceMs} ms`);
  await page.waitForSelector("#rows .row.stage");
  const rows = await page.$$eval("#rows .row .name", (all) => all.map((one) => one.textContent));
  assert.deepEqual([...rows].sort(), ["end of turn", "heard here", "hear", "talk", "think"].sort());
  assert.equal((await signals(page, "truncate")).length, 0, "an answer heard whole is not truncated");
  const played = (await sent(page, "played")).map(({ samples }) => samples);
  assert.equal(played.at(-1), 36_000, "the server is told of all of it");
  assert.ok(played.every((samples, i) => !i || samples > played[i - 1]), `${played} goes back`);
  assert.ok(played.length >= 10 && played.length <= 17, `told ${played.length} times in 1.5 s`);
  await shot(page, "turn");
});

test("an interruption silences at once, says how much was played, and late audio is not played", async (t) => {
  const page = await talking(t);
  const text = "One two three four five six seven eight nine ten eleven twelve.";
  await stub("emit", answer("resp_1", "bot_1", { epoch: 1, text, tone: 440, seconds: 4, open: true }));
  await page.waitForFunction(() => watch.peak(0) > 0.25);
  await page.waitForTimeout(700);
  await stub("emit", [
    { type: "speech_started", item_id: "user_1", at_ms: 0 },
    { type: "interrupted", response_id: "resp_1", item_id: "bot_1", epoch: 1, samples: 12_000 },
    { tone: 880, seconds: 0.5, epoch: 1 }, // late, of the condemned answer
    ...answer("resp_1", "bot_1", { epoch: 1, status: "cancelled", heard: "One two", end: true }),
  ]);
  await inPhase(page, "hearing");
  const asked = await until(async () => (await signals(page, "retrieve"))[0]);
  assert.equal(asked.signal.item_id, "bot_1");
  const { item } = message("bot_1", "assistant", "One two three four");
  await stub("emit", [{ type: "item_retrieved", item: { ...item, status: "incomplete" } }]);
  await page.waitForTimeout(300);
  const heard = await page.evaluate(() => {
    const at = watch.events.find(({ type }) => type === "interrupted").frame;
    const { first, samples } = watch.recording();
    const start = samples.findIndex((sample) => Math.abs(sample) > 0.01);
    let end = samples.length - 1;
    while (Math.abs(samples[end]) < 1e-4) end--;
    return { lateMs: (end + first - at) / 24, played: end - start };
  });
  assert.ok(heard.lateMs < 40, `old audio went on for ${heard.lateMs} ms`);
  const told = (await sent(page, "played")).at(-1);
  assert.ok(Math.abs(told.samples - heard.played) < 128, `told ${told.samples}, recorded ${heard.played}`);
  assert.ok(told.samples > 0.3 * 24_000 && told.samples < 3 * 24_000);
  const unheard = await page.textContent(".line.assistant .unheard");
  assert.equal(unheard.trim(), "five six seven eight nine ten eleven twelve.", "the server's words are the line");
  assert.equal((await lines(page)).find(([role]) => role === "assistant")[1], text);
  assert.equal((await signals(page, "cancel")).length, 0, "the server knows: it heard the user itself");
  assert.equal((await signals(page, "truncate")).length, 0, "and it has been told how far the listener was");

  await stub("emit", [
    { type: "speech_stopped", item_id: "user_1", at_ms: 900 },
    ...answer("resp_2", "bot_2", { epoch: 2, text: "Yes?", tone: 660, seconds: 0.4 }),
  ]);
  const from = await audioFrame(page);
  await page.waitForFunction((from) => watch.peak(from) > 0.25, from);
  await shot(page, "interrupted");
});

test("Esc silences the answer and cancels it; the session goes on", async (t) => {
  const page = await talking(t);
  await stub("emit", answer("resp_1", "bot_1", { epoch: 1, text: "La la la.", tone: 440, seconds: 3, open: true }));
  await inPhase(page, "speaking");
  await page.waitForTimeout(300);
  await page.keyboard.press("Escape");
  await inPhase(page, "listening");
  const [cancel] = await until(async () => {
    const found = await signals(page, "cancel");
    return found.length && found;
  });
  assert.equal(cancel.signal.response_id, "resp_1");
  await stub("emit", answer("resp_1", "bot_1", { epoch: 1, text: "La la la.", end: true })); // it was done already
  await until(async () => (await signals(page, "truncate")).length === 1);
  const played = (await sent(page, "played")).at(-1).samples;
  assert.equal((await signals(page, "truncate"))[0].signal.audio_end_ms, Math.floor(played / 24));
  const { open, frames } = await stub("received");
  assert.equal(open, 1);
  await until(async () => (await stub("received")).frames.length > frames.length + 10);
});

test("the end of an answer that is all sent is cut where Esc was pressed", async (t) => {
  const page = await talking(t);
  await stub("emit", answer("resp_1", "bot_1", { epoch: 1, text: "La la la.", tone: 440, seconds: 3 }));
  await inPhase(page, "speaking");
  await page.waitForTimeout(300);
  await page.keyboard.press("Escape");
  await inPhase(page, "listening");
  await until(async () => (await signals(page, "truncate")).length === 1);
  assert.equal((await signals(page, "cancel")).length, 0);
});

test("what is written is answered, and waits for the answer that is still being made", async (t) => {
  const page = await fresh(t, browser);
  await page.fill("#text", "Good morning");
  await page.keyboard.press("Enter");
  const said = async () => (await stub("received")).events.filter(({ type }) => type === "update" || type === "signal");
  const first = await until(async () => {
    const events = await said();
    return events.length >= 2 && events;
  });
  assert.deepEqual(first.map(({ type }) => type), ["update", "signal"]);
  assert.deepEqual([first[0].item.role, first[0].item.text], ["user", "Good morning"]);
  assert.deepEqual(first[1].signal, { kind: "respond" });
  const { item_id } = first[0].item;
  await stub("emit", answer("resp_1", "bot_1", { epoch: 1, after: item_id, text: "Good", tone: 440, seconds: 1, open: true }));
  await inPhase(page, "speaking");
  await page.fill("#text", "Shorter, please");
  await page.keyboard.press("Enter");
  await until(async () => (await signals(page, "cancel")).length);
  assert.equal((await signals(page, "respond")).length, 1);
  await stub("emit", answerEnd("resp_1", "bot_1", "cancelled"));
  await until(async () => (await signals(page, "respond")).length === 2);
  assert.deepEqual((await lines(page)).map(([role]) => role), ["user", "assistant", "user"]);
});

test("a full server: its own words, and another try", async (t) => {
  await stub("mode", { meet: "full" });
  const page = await fresh(t, browser);
  await page.click("#orb");
  await inPhase(page, "full");
  assert.equal(await page.textContent("#hint"), "All 4 places are taken; try again in 30 seconds.");
  assert.equal(await page.textContent("#orb-words"), "Try again");
  await shot(page, "full");
  await stub("mode", { meet: "welcome" });
  await page.click("#orb");
  await inPhase(page, "listening");
});

test("the queue: the number, then a conversation; or the server's own words", async (t) => {
  await stub("mode", { meet: "wait" });
  const page = await fresh(t, browser);
  await page.click("#orb");
  await inPhase(page, "starting");
  await stub("emit", [{ type: "queued", position: 2, eta_s: null }]);
  await inPhase(page, "queued");
  assert.equal(await page.textContent("#hint"), "You are number 2 in the queue.");
  assert.equal(await page.textContent("#orb-words"), "Leave the queue");
  await shot(page, "queued");
  await stub("emit", [{ type: "queued", position: 1, eta_s: 12 }]);
  await until(async () => (await page.textContent("#hint")) === "You are next in the queue. It may take 15 seconds.");
  await stub("emit", [OPENED]);
  await inPhase(page, "listening");
  await page.reload();
  await page.click("#orb");
  await inPhase(page, "starting");
  await stub("emit", [
    { type: "queued", position: 1, eta_s: null },
    { type: "closed", reason: "queue_timeout", message: "No place became free." },
  ]);
  await inPhase(page, "full");
  assert.equal(await page.textContent("#hint"), "No place became free.");
});

test("a handshake refused without a word is found out over HTTP", async (t) => {
  await stub("mode", { meet: "reject" });
  const page = await fresh(t, browser, { allowed: [/40[13]|426|503/] });
  await page.click("#orb");
  await inPhase(page, "full");
  assert.equal(await page.textContent("#hint"), "All 4 places are taken; try again in 30 seconds.");
  await stub("mode", { meet: "mute" });
  await page.click("#orb");
  await inPhase(page, "refused");
  assert.match(await page.textContent("#hint"), /allow this origin/);
  await stub("mode", { meet: "loading" });
  await page.click("#orb");
  await inPhase(page, "reconnecting");
  assert.match(await page.textContent("#hint"), /loading its models/);
  await stub("mode", { meet: "key" });
  await inPhase(page, "key");
  await stub("mode", { meet: "welcome" });
  await page.click("#open-settings");
  await page.fill("#key", "sk-test");
  await page.click("#settings button");
  await page.click("#orb");
  await inPhase(page, "listening");
  const { protocols } = await stub("received");
  assert.deepEqual(protocols.at(-1), ["duplex.v1", "openai-insecure-api-key.sk-test"]);
});

async function acquainted(page) {
  await stub("emit", [
    message("user_1", "user", "My name is Ada."),
    ...answer("resp_1", "bot_1", { epoch: 1, after: "user_1", text: "Hello Ada.", tone: 440, seconds: 0.2 }),
  ]);
  await inPhase(page, "speaking");
  await inPhase(page, "listening");
}

test("a broken connection comes back by itself, and the session is resumed", async (t) => {
  const page = await talking(t);
  await acquainted(page);
  await stub("drop", {});
  const resume = await until(async () => (await stub("received")).events.find(({ type }) => type === "resume"));
  assert.deepEqual([resume.session_id, resume.token], ["sess_1", "t1"]);
  assert.ok(resume.seen >= 8, `it has seen ${resume.seen}`);
  await inPhase(page, "listening");
  assert.deepEqual((await page.evaluate(() => watch.phases)).slice(-2), ["reconnecting", "listening"]);
  assert.equal((await sent(page, "update")).length, 0, "the session knows what was said");
  assert.equal((await lines(page)).length, 2);
});

test("a session that is gone is followed by another, which is told what was said", async (t) => {
  const page = await talking(t);
  await acquainted(page);
  await stub("mode", { meet: "forgetful" });
  await stub("drop", {});
  const told = await until(async () => {
    const found = await sent(page, "update");
    return found.length === 2 && found;
  });
  await inPhase(page, "listening");
  assert.deepEqual(
    told.map(({ item }) => [item.role, item.text]),
    [
      ["user", "My name is Ada."],
      ["assistant", "Hello Ada."],
    ],
  );
  assert.equal((await lines(page)).length, 2);
});

test("that the session will end is said before, and that it goes on after", async (t) => {
  const page = await talking(t);
  await stub("emit", [{ type: "ending", reason: "idle", in_s: 30 }]);
  await page.waitForSelector("#notice:not([hidden])");
  assert.match(await page.textContent("#notice"), /pauses in 30 seconds, unless you go on/);
  assert.equal(await page.getAttribute("#notice", "data-tone"), "calm");
  await shot(page, "ending");
  await stub("emit", [{ type: "speech_started", item_id: "user_1", at_ms: 0 }]);
  await page.waitForSelector("#notice", { state: "hidden" });
  await stub("emit", [
    { type: "ending", reason: "expired", in_s: 30 },
    { type: "closed", reason: "expired", message: "The session has reached its longest lifetime." },
  ]);
  await until(async () => (await stub("received")).events.filter(({ type }) => type === "open").length === 2);
  await inPhase(page, "listening");
});

test("the space bar talks and stops, but writes spaces where one writes", async (t) => {
  const page = await fresh(t, browser);
  await page.keyboard.press(" ");
  await inPhase(page, "listening");
  await page.keyboard.press(" ");
  await inPhase(page, "idle");
  await page.focus("#text");
  await page.keyboard.type("a b");
  assert.equal(await page.inputValue("#text"), "a b");
  assert.equal(await phase(page), "idle");
});

test("an error of the server is shown", async (t) => {
  const page = await talking(t);
  await stub("emit", [{ type: "error", code: "failed", message: "The speech stage has failed.", id: null }]);
  await page.waitForSelector("#notice:not([hidden])");
  assert.equal(await page.textContent("#notice"), "The speech stage has failed.");
});

test("a microphone that is denied is said so, and writing still works", async (t) => {
  const stern = await launch({ deny: true });
  const page = await fresh(t, stern);
  t.after(() => stern.close());
  await page.click("#orb");
  await inPhase(page, "denied");
  assert.match(await page.textContent("#hint"), /Allow it/);
  await shot(page, "denied");
  await page.fill("#text", "Hello");
  await page.keyboard.press("Enter");
  await until(async () => (await signals(page, "respond")).length === 1);
});

test("over plain HTTP from elsewhere the reason is said, and answers come in writing", async (t) => {
  const page = await fresh(t, browser, { url: STUB.replace("127.0.0.1", "elsewhere.test") });
  await page.click("#orb");
  await inPhase(page, "insecure");
  assert.match(await page.textContent("#title"), /HTTPS or localhost/);
  await page.fill("#text", "Hello");
  await page.keyboard.press("Enter");
  const [ask] = await until(async () => {
    const found = await signals(page, "respond");
    return found.length && found;
  });
  assert.equal(ask.signal.modality, "text");
});

test("it fits a phone, and is dark where the user likes it dark", async (t) => {
  await stub("mode", { turns: { resp_1: TURN } });
  const page = await talking(t, { viewport: { width: 390, height: 844 }, colorScheme: "dark" });
  await stub("emit", [
    message("user_1", "user", "What is a fence for?"),
    ...answer("resp_1", "bot_1", {
      epoch: 1,
      after: "user_1",
      text: "It names every byte of a turn, so that nothing of an old answer is ever heard in a new one.",
      tone: 300,
      seconds: 1,
    }),
  ]);
  await inPhase(page, "speaking");
  await shot(page, "narrow-dark");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${wide} px wider than the screen`);
  const [text, orb] = [await page.locator("#text").boundingBox(), await page.locator("#orb").boundingBox()];
  assert.ok(text.y + text.height <= 844 && orb.y >= 0);
});

const TURN = {
  response_id: "resp_1",
  marks: [
    { name: "end_of_turn", ms: 15 },
    { name: "never", ms: null },
  ],
  stages: [
    { name: "hear", submitted_ms: -320, first_input_ms: -300, first_output_ms: 35, finished_ms: 38 },
    { name: "think", submitted_ms: -40, first_input_ms: 40, first_output_ms: 120, finished_ms: 900 },
    { name: "talk", submitted_ms: null, first_input_ms: 150, first_output_ms: 260, finished_ms: null },
    { name: "code2wav", submitted_ms: null, first_input_ms: null, first_output_ms: null, finished_ms: null },
  ],
};

function answerEnd(response, item, status) {
  return answer(response, item, { epoch: 1, status, end: true });
}
