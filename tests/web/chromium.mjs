/** What the page's tests share: the browser, the stub's controls, and answers as the wire brings them. */

import { chromium } from "playwright-core";

export const STUB = process.env.STUB_URL;
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
  page.setDefaultTimeout(8000);
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
export async function stub(what, body) {
  const options = body && { method: "POST", body: JSON.stringify(body) };
  const reply = await fetch(`${STUB}/_stub/${what}`, options);
  if (!reply.ok) throw new Error(`the stub answers ${reply.status} to ${what}`);
  return reply.json();
}

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
 * An answer as the server sends it, in the order of the protocol; `open`: without its end, `end`: its end alone.
 */
export function answer(response, item, { after = null, text = "", tone, seconds, open, end, status = "completed" }) {
  const ids = { response_id: response, item_id: item, output_index: 0, content_index: 0 };
  const whole = { id: item, type: "message", role: "assistant", content: [] };
  const start = [
    { type: "response.created", response: { id: response, status: "in_progress" } },
    { type: "response.output_item.added", response_id: response, output_index: 0, item: whole },
    { type: "conversation.item.added", previous_item_id: after, item: whole },
    { type: "response.output_audio_transcript.delta", ...ids, delta: text },
    { ...ids, tone, seconds },
  ];
  const finish = [
    { type: "response.output_audio.done", ...ids },
    ...(text ? [{ type: "response.output_audio_transcript.done", ...ids, transcript: text }] : []),
    { type: "response.output_item.done", response_id: response, output_index: 0, item: whole },
    { type: "response.done", response: { id: response, status, output: [whole] } },
  ];
  if (end) return finish;
  return open ? start : [...start, ...finish];
}
