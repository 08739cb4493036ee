/** What the page's tests share: the browser, the stub's controls, and answers as the wire brings them. */

import { chromium } from "playwright-core";

export const STUB = process.env.STUB_URL; // decides nothing
export const KERNEL = process.env.KERNEL_URL; // real sessions over scripted engines
const SHOTS = process.env.SHOTS_DIR; // where pictures of the page go, if they are wanted

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--use-fake-device-for-media-stream",
  `--use-file-for-fake-audio-capture=${process.env.MIC_WAV}`,
  "--autoplay-policy=no-user-gesture-required",
  "--host-resolver-rules=MAP elsewhere.test 127.0.0.1",
];

export function launch({ deny = false } = {}) {
  const asked = deny ? "--deny-permission-prompts" : "--use-fake-ui-for-media-stream";
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    args: [...FLAGS, asked],
  });
}

/**
 * A page of its own, which fails its test where it throws or logs an error.
 *
 * @param {{url?: string, allowed?: RegExp[]}} options `allowed`: errors that the test brings about itself; the rest goes to Playwright
 */
export async function fresh(t, browser, { url = STUB, allowed = [], ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1180, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000); // several times what an idle machine needs
  page.requested = [];
  const errors = [];
  page.on("request", (request) => page.requested.push(request.url()));
  page.on("pageerror", (error) => errors.push(error.stack));
  page.on("console", (message) => {
    const words = message.text();
    const tolerated = [/\/v1\/turns\//, ...allowed].some((one) => one.test(words) || one.test(message.location().url));
    if (message.type() === "error" && !tolerated) errors.push(words);
  });
  t.after(async () => {
    errors.push(...(await page.evaluate(() => watch.violations)));
    await context.close();
    if (errors.length) throw new Error(errors.join("\n"));
  });
  await page.addInitScript({ path: new URL("./browser/watch.js", import.meta.url).pathname });
  await page.goto(url);
  return page;
}

/** Ask the stub (`received`), or tell it something. */
export const stub = (what, body) => ask(`${STUB}/_stub/${what}`, body);

/** Ask the server with real sessions (`state`), or tell it something. */
export const kernel = (what, body) => ask(`${KERNEL}/_kernel/${what}`, body);

async function ask(url, body) {
  const options = body && { method: "POST", body: JSON.stringify(body) };
  const reply = await fetch(url, options);
  if (!reply.ok) throw new Error(`${url} answers ${reply.status}`);
  return reply.json();
}

export const phase = (page) => page.evaluate(() => document.body.dataset.phase);
export const inPhase = (page, wanted) => page.waitForFunction((wanted) => document.body.dataset.phase === wanted, wanted);
export const lines = (page) =>
  page.$$eval("#lines .line", (all) =>
    all.map((line) => [line.classList.contains("user") ? "user" : "assistant", line.querySelector(".bubble").textContent]),
  );
export const sent = (page, type) =>
  page.evaluate((type) => globalThis.watch.sent.filter(({ event }) => event.type === type).map(({ event }) => event), type);
/** Signals of a kind that the page has sent. */
export const signals = async (page, kind) => (await sent(page, "signal")).filter(({ signal }) => signal.kind === kind);

/** The first truthy answer of `ask`, or an error after some seconds. */
export async function until(ask) {
  for (let tries = 0; tries < 160; tries++) {
    const found = await ask();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`never: ${ask}`);
}

export async function shot(page, name) {
  if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name}.png` });
}

/**
 * An answer as the server sends it, in the order of the protocol; `open`: without its end, `end`: its end alone; `heard`:
 * the words that the server takes for heard, of one that was cancelled.
 */
export function answer(response_id, item_id, how) {
  const { epoch, after = null, text = "", tone, seconds, open, end, status = "completed", heard = "" } = how;
  const whole = status === "completed";
  const item = (status, text) => ({ item_id, role: "assistant", status, parts: [{ kind: "audio", text, audio_ms: 0 }] });
  const made = { response_id, epoch, modality: "audio", reason: whole ? "" : "turn_detected", error: "" };
  const done = item(whole ? "completed" : "incomplete", whole ? text : heard);
  const start = [
    { type: "response_created", response: { ...made, status: "in_progress", item: null } },
    { type: "response_item", response_id, item_id, previous_item_id: after },
    { type: "item_added", item: item("in_progress", ""), previous_item_id: after },
    { type: "response_text", response_id, item_id, text },
    { tone, seconds, epoch },
  ];
  const finish = [
    { type: "item_done", item: done, previous_item_id: after },
    { type: "response_done", response: { ...made, status, item: done } },
  ];
  if (end) return finish;
  return open ? start : [...start, ...finish];
}

/** A user's message as the server tells of it; spoken, and its words not known yet, where `text` is null. */
export function message(item_id, role, text, after = null) {
  const parts = [{ kind: text === null ? "audio" : "text", text, audio_ms: 0 }];
  return { type: "item_added", item: { item_id, role, status: "completed", parts }, previous_item_id: after };
}
