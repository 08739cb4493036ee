/** The JavaScript client over a socket that a test holds: how it opens, breaks, resumes and ends. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { beforeEach, mock, test } from "node:test";
import { Duplex } from "../../../web/client/duplex.js";
import { unpack } from "../../../web/client/frames.js";

const GOLDEN = JSON.parse(readFileSync(new URL("../../../protocol/vectors/client.json", import.meta.url), "utf8"));
const TERMS = { input_hz: 24_000, output_hz: 24_000, ahead_ms: 500, grace_s: 30, heartbeat_s: 5 };

class Socket {
  static OPEN = 1;
  static all = [];
  readyState = 0;
  bufferedAmount = 0;
  sent = [];

  constructor(url, protocols) {
    Object.assign(this, { url: String(url), protocols });
    Socket.all.push(this);
  }
  accept() {
    this.readyState = 1;
    this.onopen();
  }
  send(data) {
    this.sent.push(typeof data === "string" ? JSON.parse(data) : unpack(data));
  }
  say(...messages) {
    for (const message of messages) this.onmessage?.({ data: JSON.stringify(message) });
  }
  close() {
    this.readyState = 3;
  }
  break(code = 1006, reason = "") {
    this.readyState = 3;
    this.onclose?.({ code, reason });
  }
  types() {
    return this.sent.map(({ type, sequence }) => type ?? `frame ${sequence}`);
  }
}
const newest = () => Socket.all.at(-1);

let told, states, lost, wanted;
function client(opening) {
  return new Duplex(
    "http://h:1",
    {
      onEvent: (event) => told.push(event),
      onState: (state, why) => states.push(why?.kind ? `${state} ${why.kind}` : state),
      onLost: (message) => lost.push(message),
      wanted: () => wanted,
    },
    opening,
  );
}

function begun(options = {}) {
  const duplex = client();
  duplex.open();
  newest().accept();
  newest().say({ type: "opened", sequence: 1, session_id: "s", token: "t1", terms: { ...TERMS, ...options } });
  return duplex;
}

beforeEach(() => {
  [told, states, lost, wanted] = [[], [], [], false];
  Socket.all = [];
  globalThis.WebSocket = Socket;
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
});

test("it says what the golden messages say", () => {
  const settings = { instructions: "Be brief.", turn_detection: { type: "silence", silence_ms: 400 } };
  const duplex = client({ inputHz: 16_000, settings });
  duplex.open();
  newest().accept();
  newest().say({ type: "opened", sequence: 41, session_id: "sess_0123456789abcdef", token: "c2VjcmV0", terms: TERMS });
  const updates = GOLDEN.filter(({ type }) => type === "update");
  duplex.add(updates[0].item.text, { id: updates[0].id });
  for (const { settings, id } of updates.slice(1)) duplex.update(settings, id);
  for (const { signal, id } of GOLDEN.filter(({ type }) => type === "signal")) duplex.signal(signal, id);
  duplex.played("item_2", 36_000);
  mock.timers.tick(5000);
  const { sent } = newest();
  newest().break();
  mock.timers.tick(0);
  newest().accept();
  const said = [...sent, ...newest().sent];
  newest().say({ type: "resumed", session_id: "s", token: "t2", taken: 99, terms: TERMS, resync: false });
  duplex.close();
  said.push(...newest().sent);
  for (const wanted of GOLDEN.map((vector) => ({ ...vector, ...(vector.type === "heartbeat" && { at: null }) }))) {
    const found = said.some((message) => matches({ ...message, ...(message.type === "heartbeat" && { at: null }) }, wanted));
    assert.ok(found, `${JSON.stringify(wanted)} is not among ${JSON.stringify(said)}`);
  }
});

const matches = (one, other) => JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
const sorted = (value) =>
  value && typeof value === "object" && !Array.isArray(value)
    ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]))
    : value;

test("the key travels as a subprotocol, beside that of this version", () => {
  const duplex = client();
  duplex.open("sk");
  assert.deepEqual(newest().protocols, ["duplex.v1", "openai-insecure-api-key.sk"]);
  assert.equal(newest().url, "ws://h:1/v1/duplex");
});

test("the queue is shown, and nothing is sent from it", () => {
  const duplex = client();
  duplex.open();
  newest().accept();
  newest().say({ type: "queued", position: 2, eta_s: null });
  assert.deepEqual([duplex.state, duplex.place], ["queued", { position: 2, etaS: null }]);
  assert.equal(duplex.sendAudio(new Int16Array(480)), false);
  newest().say({ type: "opened", sequence: 1, session_id: "s", token: "t", terms: TERMS });
  assert.deepEqual(newest().types(), ["open", "ack"]);
  assert.deepEqual(states, ["connecting", "starting", "queued", "ready"]);
});

test("a connection that breaks is followed by one that resumes: nothing is lost, nothing told twice", () => {
  const duplex = begun();
  newest().say({ type: "cleared", sequence: 2 });
  duplex.sendAudio(new Int16Array(480));
  duplex.add("One.");
  newest().say({ type: "heartbeat", at: 0, taken: 1 });
  newest().break();
  assert.equal(states.at(-1), "waiting lost");
  duplex.add("Two.");
  duplex.played("i", 7);
  mock.timers.tick(0); // the first attempt is made at once
  newest().accept();
  assert.deepEqual(newest().sent, [{ type: "resume", version: 1, session_id: "s", token: "t1", seen: 2 }]);
  assert.ok(duplex.again);
  newest().say({ type: "resumed", session_id: "s", token: "t2", taken: 1, terms: TERMS, resync: false });
  assert.deepEqual(newest().types().slice(1), ["ack", "update", "update", "played"]);
  newest().say({ type: "cleared", sequence: 2 }, { type: "cleared", sequence: 3 });
  assert.deepEqual(told.map(({ type, sequence }) => [type, sequence]), [
    ["opened", 1],
    ["cleared", 2],
    ["resumed", undefined],
    ["cleared", 3],
  ]);
  newest().break();
  mock.timers.tick(1000);
  newest().accept();
  assert.deepEqual([newest().sent[0].token, newest().sent[0].seen], ["t2", 3]);
});

test("a session that is gone is said to be, and another takes its place where it is wanted", () => {
  for (const again of [false, true]) {
    wanted = again;
    const duplex = begun();
    duplex.add("Lost.");
    newest().break();
    mock.timers.tick(0);
    newest().accept();
    newest().say({ type: "error", code: "session_closed", message: "There is no such session.", sequence: 0 });
    assert.equal(lost.length, again ? 2 : 1);
    assert.equal(duplex.terms, null);
    assert.equal(duplex.state, again ? "waiting" : "closed");
    if (!again) continue;
    mock.timers.tick(10_000);
    newest().accept();
    assert.deepEqual(newest().types(), ["open"], "nothing of the old session is said to the new one");
  }
});

test("a server that answers nothing any more is taken to be gone", () => {
  begun();
  const first = newest();
  mock.timers.tick(15_000);
  assert.equal(states.at(-1), "ready");
  first.say({ type: "heartbeat", at: 0, taken: 0 });
  mock.timers.tick(15_000);
  assert.equal(states.at(-1), "ready");
  mock.timers.tick(5000);
  assert.deepEqual(states.slice(-2), ["waiting lost", "connecting"]);
});

test("the server's last word ends it, and it goes on only where that is wanted", () => {
  for (const [reason, again, state] of [
    ["idle", false, "closed"],
    ["expired", true, "waiting ended"],
    ["replaced", true, "refused replaced"],
  ]) {
    wanted = again;
    const duplex = begun();
    newest().say({ type: "closed", sequence: 2, reason, message: "It is over." });
    assert.equal(states.at(-1), state);
    assert.equal(told.at(-1).type, "closed");
    assert.deepEqual(lost, [], "it was no accident");
    duplex.close();
  }
});

test("what is said instead of a session is shown and not tried again, unless the server is starting", () => {
  for (const [code, state] of [["server_full", "refused full"], ["invalid_api_key", "refused key"], ["not_ready", "waiting loading"]]) {
    wanted = true;
    const duplex = client();
    duplex.open();
    newest().accept();
    newest().say({ type: "error", code, message: "No.", sequence: 0 });
    newest().break(1013, "No.");
    assert.equal(states.at(-1), state);
    duplex.close();
  }
});

test("who closes says so, and may open again", () => {
  const duplex = begun();
  duplex.close();
  assert.equal(newest().sent.at(-1).type, "close");
  assert.equal(duplex.state, "closed");
  duplex.open();
  newest().accept();
  assert.equal(newest().sent[0].type, "open");
});

test("what has arrived is acknowledged now and then", () => {
  begun();
  for (let sequence = 2; sequence < 40; sequence++) newest().say({ type: "cleared", sequence });
  assert.deepEqual(newest().sent.filter(({ type }) => type === "ack").map(({ sequence }) => sequence), [1, 17, 33]);
});
