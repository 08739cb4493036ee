import assert from "node:assert/strict";
import { test } from "node:test";
import { PHASES, phaseOf, wordsOfEnding, wordsOfPlace } from "../../../web/phase.js";
import { kindOf } from "../../../web/client/refusal.js";
import { layout } from "../../../web/waterfall.js";

const CALM = { mic: "on", link: "ready", again: false, refusal: "", hearing: false, answering: false, playing: false };

test("the phase follows from the facts", () => {
  const cases = [
    ["listening", {}],
    ["hearing", { hearing: true, playing: true }],
    ["speaking", { playing: true, answering: true }],
    ["thinking", { answering: true }],
    ["starting", { link: "starting" }],
    ["queued", { link: "queued" }],
    ["queued", { link: "queued", again: true }],
    ["reconnecting", { link: "waiting" }],
    ["reconnecting", { link: "starting", again: true }],
    ["full", { link: "refused", refusal: "full" }],
    ["refused", { link: "refused", refusal: "other" }],
    ["denied", { mic: "denied", link: "closed" }],
    ["thinking", { mic: "denied", answering: true }],
    ["asking", { mic: "asking", link: "closed" }],
    ["idle", { mic: "off" }],
    ["idle", { mic: "off", link: "closed", hearing: true }],
  ];
  for (const [wanted, facts] of cases) assert.equal(phaseOf({ ...CALM, ...facts }), wanted, JSON.stringify(facts));
});

test("every phase says something, in words of its own", () => {
  const titles = Object.values(PHASES).map(({ title, hint, tone, button }) => {
    assert.ok(title && hint && tone && ["start", "stop", "retry"].includes(button));
    return title;
  });
  assert.equal(new Set(titles).size, titles.length);
});

test("who waits is told the number, and how long it will be where that is known", () => {
  assert.equal(wordsOfPlace({ position: 2, etaS: null }), "You are number 2 in the queue.");
  assert.equal(wordsOfPlace({ position: 1, etaS: 0 }), "You are next in the queue. It may take 0 seconds.");
  assert.equal(wordsOfPlace({ position: 3, etaS: 31.2 }), "You are number 3 in the queue. It may take 35 seconds.");
  assert.equal(wordsOfPlace({ position: 9, etaS: 240 }), "You are number 9 in the queue. It may take 4 minutes.");
});

test("an end that was announced is told in words, and another one is the server's to explain", () => {
  assert.match(wordsOfEnding("idle", 29.6), /pauses in 30 seconds/);
  assert.match(wordsOfEnding("idle", 0), /has paused/);
  assert.match(wordsOfEnding("expired", 30), /ends in 30 seconds/);
  assert.match(wordsOfEnding("expired", 0), /longest time/);
  assert.equal(wordsOfEnding("overloaded", 0), "");
});

test("a refusal's kind is told from its words", () => {
  assert.equal(kindOf("session_limit server_error All 4 sessions are in use."), "full");
  assert.equal(kindOf("undefined undefined The server is full."), "full");
  assert.equal(kindOf("invalid_api_key invalid_request_error Wrong key."), "key");
  assert.equal(kindOf("server_full server_error All 4 places are taken."), "full");
  assert.equal(kindOf("not_ready server_error The server is still starting; try again soon."), "loading");
  assert.equal(kindOf("origin_not_allowed invalid_request_error Pages of this origin may not."), "other");
  assert.equal(kindOf("model_not_found invalid_request_error There is no such model."), "other");
});

const MARKS = [
  { name: "at the origin", ms: 0 },
  { name: "one", ms: 100 },
  { name: "two", ms: 101 },
  { name: "said by a stage", ms: 301 },
  { name: "after all was heard", ms: 2000 },
];

test("what a stage said during the user's speech is not its result", () => {
  const hear = { name: "hear", submitted_ms: -900, first_input_ms: -900, first_output_ms: -400, finished_ms: 40 };
  const [row] = layout({ stages: [hear] }, null).rows;
  assert.deepEqual([row.firstMs, row.endMs], [null, 40]);
});

test("a waterfall bears what is missing", () => {
  assert.deepEqual(layout({}, null).rows, []);
  const { fromMs, toMs, rows } = layout(
    {
      stages: [
        { name: "late", submitted_ms: -5000, first_input_ms: null, first_output_ms: 300, finished_ms: 9000 },
        { name: "early", submitted_ms: 0, first_input_ms: 10, first_output_ms: 20, finished_ms: null },
        { name: "never", submitted_ms: null, first_input_ms: null, first_output_ms: null, finished_ms: null },
      ],
      marks: [...MARKS, { name: "none", ms: null }],
    },
    350,
  );
  assert.deepEqual(rows.map(({ name }) => name), ["early", "one · two", "late", "heard here"]);
  assert.ok(fromMs === -400 && toMs > 350 && toMs < 600, `${fromMs} to ${toMs}`);
});
