/** The page in Chromium against real sessions. Run by test_page.py, which sets KERNEL_URL and MIC_WAV. */

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { fresh, inPhase, KERNEL, kernel, launch, lines, sent, shot, signals, until } from "./chromium.mjs";

const WORDS = "One two three four five six seven eight nine ten eleven twelve.".split(" ");
const WORD = 4800; // samples

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());
beforeEach(() => kernel("reset", {}));

const played = async (page) => (await sent(page, "played")).at(-1)?.samples ?? 0;

async function counting(t) {
  const page = await fresh(t, browser, { url: KERNEL });
  await page.click("#orb");
  await inPhase(page, "listening");
  await page.fill("#text", "Count to twelve.");
  await page.keyboard.press("Enter");
  await inPhase(page, "speaking");
  await until(async () => (await played(page)) > WORD);
  return page;
}

/** Samples that left for the loudspeaker, silence not counted, and the worst break in their sine. */
const recorded = (page) =>
  page.evaluate(() => {
    const { samples } = watch.recording();
    const loud = [];
    samples.forEach((sample, i) => Math.abs(sample) > 1e-4 && loud.push(i));
    const [first, last] = [loud[0], loud.at(-1)];
    const twoCos = 2 * Math.cos((2 * Math.PI * 440) / 24_000);
    let worst = 0;
    for (let i = first + 2; i < last - 1; i++) {
      worst = Math.max(worst, Math.abs(samples[i + 1] - twoCos * samples[i] + samples[i - 1]));
    }
    return { length: last - first + 1, worst };
  });

async function answerOf(page) {
  const id = (await sent(page, "played")).at(-1).item_id;
  const { histories } = await kernel("state");
  return histories.flat().find((item) => item.id === id);
}

/** The server's history has exactly what the page says that it has played, and the page shows those words. */
async function agrees(page) {
  await until(async () => (await signals(page, "retrieve")).length);
  await page.waitForTimeout(200);
  const samples = await played(page);
  const { length } = await recorded(page);
  assert.ok(Math.abs(samples - length) < 128, `it says that it played ${samples}, and ${length} were recorded`);
  const item = await answerOf(page);
  assert.equal(item.audio_ms, Math.floor(samples / 24));
  const heard = WORDS.slice(0, Math.floor(samples / WORD)).join(" ");
  assert.equal(item.text, heard);
  const bubble = await page.$eval(".line.assistant .bubble", (line) => [line.firstChild.textContent, line.textContent]);
  assert.deepEqual(bubble, [heard, WORDS.join(" ")], "what was not heard is shown as that");
}

test("a user who speaks into an answer: the server's history is what the page has played", async (t) => {
  const page = await counting(t);
  await kernel("speak", { on: true });
  await inPhase(page, "hearing");
  await agrees(page);
  await kernel("speak", { on: false });
  await inPhase(page, "speaking");
  assert.deepEqual((await lines(page)).map(([role]) => role), ["user", "assistant", "user", "assistant"]);
  await shot(page, "barge-in");
});

test("Esc: the server's history is what the page has played", async (t) => {
  const page = await counting(t);
  await page.keyboard.press("Escape");
  await inPhase(page, "listening");
  await agrees(page);
});

test("a user who speaks into the end of an answer that is all sent", async (t) => {
  const page = await counting(t);
  await page.waitForFunction(() => watch.events.some(({ type }) => type === "response_done"));
  assert.ok((await played(page)) < 12 * WORD, "some of it is still to be played");
  await kernel("speak", { on: true });
  await inPhase(page, "hearing");
  await agrees(page);
});

test("an answer that is heard whole is kept whole", async (t) => {
  const page = await counting(t);
  await inPhase(page, "listening");
  assert.equal(await played(page), 12 * WORD);
  const item = await answerOf(page);
  assert.deepEqual([item.status, item.text, item.audio_ms], ["completed", WORDS.join(" "), 2400]);
  assert.equal((await page.$$(".unheard")).length, 0);
});

test("a connection that breaks in an answer: the same session goes on, without a gap in the sound", async (t) => {
  const page = await counting(t);
  await kernel("drop", {});
  await page.waitForFunction(() => watch.phases.at(-2) === "reconnecting" && watch.phases.at(-1) === "speaking");
  await inPhase(page, "listening");
  const { length, worst } = await recorded(page);
  assert.ok(Math.abs(length - 12 * WORD) < 20, `played ${length} samples of ${12 * WORD}`);
  assert.ok(worst < 1e-3, `a break of ${worst} in the sine`);
  const { counters, histories } = await kernel("state");
  assert.deepEqual([counters.sessions_opened, counters.sessions_resumed], [1, 1]);
  assert.equal(histories[0].at(-1).text, WORDS.join(" "));
  assert.equal((await lines(page)).length, 2);
});

test("what is said while the connection is broken is heard when it is back", async (t) => {
  const page = await fresh(t, browser, { url: KERNEL, allowed: [/ERR_INTERNET_DISCONNECTED/] });
  await page.click("#orb");
  await inPhase(page, "listening");
  await page.context().setOffline(true); // holds new connections back
  await kernel("drop", {});
  await inPhase(page, "reconnecting");
  await page.fill("#text", "Are you there?");
  await page.keyboard.press("Enter");
  await page.waitForTimeout(500);
  assert.equal((await kernel("state")).connected, 0);
  await page.context().setOffline(false);
  await inPhase(page, "speaking");
  const { histories, counters } = await kernel("state");
  assert.equal(histories[0][0].text, "Are you there?");
  assert.equal(counters.sessions_opened, 1);
});

test("a server without a place: the queue's number, and then a conversation", async (t) => {
  await kernel("occupy", { places: 4 });
  const page = await fresh(t, browser, { url: KERNEL });
  await page.click("#orb");
  await inPhase(page, "queued");
  assert.match(await page.textContent("#hint"), /^You are next in the queue\./);
  await kernel("occupy", { places: 3 });
  await inPhase(page, "listening");
});

test("a page that is left gives its place back at once", async (t) => {
  const page = await fresh(t, browser, { url: KERNEL, allowed: [/favicon/] });
  await page.click("#orb");
  await inPhase(page, "listening");
  await page.goto(`${KERNEL}/healthz`);
  await until(async () => (await kernel("state")).histories.length === 0);
  await page.goto(KERNEL); // for what is looked at in the end
});
