/** The JavaScript client without a network: golden messages, numbering, and what it takes once. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { MICROPHONE, pack, SPEECH, unpack } from "../../../web/client/frames.js";
import { Inbox } from "../../../web/client/inbox.js";
import { Outbox } from "../../../web/client/outbox.js";

const vectors = (name) =>
  JSON.parse(readFileSync(new URL(`../../../protocol/vectors/${name}.json`, import.meta.url), "utf8"));
const bytes = (hex) => Uint8Array.from(hex.match(/../g), (byte) => Number.parseInt(byte, 16)).buffer;
const hex = (buffer) => Buffer.from(buffer).toString("hex");
const speech = (sequence, epoch, samples = [1, 2]) =>
  pack({ kind: SPEECH, sequence, epoch, timestamp: 10 * sequence, samples: Int16Array.from(samples) });
const created = (sequence, id, epoch) => ({
  type: "response_created",
  sequence,
  response: { response_id: id, epoch, item: null },
});

for (const vector of vectors("frames")) {
  test(`a golden frame, both ways: ${vector.name}`, () => {
    const samples = Int16Array.from(vector.samples);
    const again = vector.flags === 1;
    assert.equal(hex(pack({ ...vector, again, samples })), vector.hex);
    const { kind, epoch, sequence, timestamp } = vector;
    assert.deepEqual(unpack(bytes(vector.hex)), { kind, again, epoch, sequence, timestamp, samples });
  });
}

test("bytes that are no frame are refused", () => {
  for (const wrong of ["", "01".repeat(23), "01".repeat(25), "07".repeat(24)]) {
    assert.throws(() => unpack(bytes(wrong || "01").slice(wrong ? 0 : 1)), RangeError);
  }
});

test("every golden message of the server is taken, each once", () => {
  const inbox = new Inbox();
  const told = vectors("server").sort((a, b) => (a.sequence ?? 0) - (b.sequence ?? 0));
  assert.deepEqual(told.filter((message) => inbox.message(message)), told);
  assert.equal(inbox.seen, 50);
  assert.equal(inbox.message({ type: "cleared", sequence: 50 }), null);
  assert.ok(inbox.message({ type: "heartbeat", at: 0, taken: 0 }), "what has no number always counts");
});

test("audio is named by its answer, taken once, and not at all after an interruption", () => {
  const inbox = new Inbox();
  inbox.message(created(1, "r1", 1));
  inbox.message({ type: "response_item", sequence: 2, response_id: "r1", item_id: "i1", previous_item_id: null });
  const first = inbox.frame(speech(3, 1));
  assert.deepEqual([first.response_id, first.item_id, first.start, [...first.samples]], ["r1", "i1", 30, [1, 2]]);
  assert.equal(inbox.frame(speech(3, 1)), null);
  inbox.message({ type: "interrupted", sequence: 4, response_id: "r1", item_id: "i1", epoch: 1, samples: 2 });
  assert.equal(inbox.frame(speech(5, 1)), null);
  assert.equal(inbox.seen, 5, "it has arrived all the same");
  inbox.message(created(6, "r2", 2));
  assert.equal(inbox.frame(speech(7, 2)).response_id, "r2");
  inbox.silence(2);
  assert.equal(inbox.frame(speech(8, 2)), null);
});

test("an answer that a snapshot tells of is named too", () => {
  const inbox = new Inbox();
  const response = { response_id: "r", epoch: 4, item: { item_id: "i" } };
  inbox.message({ type: "snapshot", sequence: 9, items: [], response, speaking: null });
  assert.equal(inbox.frame(speech(10, 4)).item_id, "i");
});

test("what is said is numbered, text and audio in one row, and kept until it is taken", () => {
  const outbox = new Outbox();
  assert.deepEqual(JSON.parse(outbox.command({ type: "signal", signal: { kind: "commit" } })), {
    type: "signal",
    signal: { kind: "commit" },
    sequence: 1,
  });
  const frame = unpack(outbox.audio(new Int16Array(480)));
  assert.deepEqual([frame.kind, frame.sequence, frame.timestamp], [MICROPHONE, 2, 0]);
  assert.equal(unpack(outbox.audio(new Int16Array(480))).timestamp, 480);
  outbox.confirm(1);
  assert.equal(outbox.unconfirmed.length, 2);
  outbox.confirm(3);
  assert.deepEqual(outbox.unconfirmed, []);
});

test("past the limit audio goes, the oldest first, and commands stay", () => {
  const outbox = new Outbox();
  outbox.command({ type: "close" });
  for (let i = 0; i < 60; i++) outbox.audio(new Int16Array(24_000)); // 48 kB each, of 2 MiB
  assert.ok(outbox.lost > 10);
  const kept = outbox.unconfirmed;
  assert.equal(JSON.parse(kept[0]).type, "close");
  assert.equal(unpack(kept[1]).sequence, 2 + outbox.lost);
});
