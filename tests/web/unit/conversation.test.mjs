import assert from "node:assert/strict";
import { test } from "node:test";
import { Conversation, heardChars } from "../../../web/conversation.js";

const ids = (conversation) => conversation.items.map(({ id }) => id);

test("an item that came before the one it follows goes behind it", () => {
  const talk = new Conversation();
  talk.place("answer", { after: "question" });
  talk.place("question", { role: "user" });
  assert.deepEqual(ids(talk), ["question", "answer"]);
});

test("a late item goes to its place among many", () => {
  const talk = new Conversation();
  talk.place("a", { role: "user" });
  talk.place("b", { after: "a" });
  talk.place("d", { after: "c" });
  talk.place("c", { role: "user", after: "b" });
  talk.place("a", { role: "user", after: null });
  assert.deepEqual(ids(talk), ["a", "b", "c", "d"]);
});

test("a chain of late items keeps its order", () => {
  const talk = new Conversation();
  talk.place("c", { after: "b" });
  talk.place("b", { after: "a" });
  talk.place("a", { role: "user" });
  assert.deepEqual(ids(talk), ["a", "b", "c"]);
});

test("told again where it stands, an item stays", () => {
  const talk = new Conversation();
  talk.place("a", { role: "user" });
  talk.place("b", { after: "a" });
  talk.place("x", { after: "a" });
  talk.place("b", { after: "a", done: true });
  talk.place("a", { role: "user", done: true });
  assert.deepEqual(ids(talk), ["a", "x", "b"]);
});

test("items that follow each other in a circle do not hang the page", () => {
  const talk = new Conversation();
  talk.place("a", { after: "b" });
  talk.place("b", { after: "a" });
  talk.place("a", { after: "a" });
  assert.equal(talk.items.length, 2);
});

test("a whole transcript replaces its parts, but not what is known of an interrupted answer", () => {
  const talk = new Conversation();
  talk.place("a", {});
  talk.say("a", "one ");
  talk.say("a", "too");
  talk.settle("a", "one two");
  assert.equal(talk.get("a").text, "one two");
  talk.interrupt("a", 0);
  talk.settle("a", "one");
  assert.equal(talk.get("a").text, "one two");
  assert.equal(talk.get("a").heardChars, 0);
});

test("a transcript cut short by the server leaves the rest as unheard", () => {
  const talk = new Conversation();
  talk.place("a", {});
  talk.say("a", "one two three");
  talk.settle("a", "one two");
  talk.interrupt("a", 99_999);
  assert.deepEqual([talk.get("a").text, talk.get("a").heardChars], ["one two three", 7]);
  talk.place("u", { role: "user" });
  talk.say("u", "wreck a nice beach");
  talk.settle("u", "wreck a nice");
  assert.deepEqual([talk.get("u").text, talk.get("u").heardChars], ["wreck a nice", null]);
});

test("what was heard follows the audio that each part came with", () => {
  const talk = new Conversation();
  talk.place("a", {});
  talk.say("a", "First clause. ");
  talk.sound("a", 1000);
  talk.say("a", "Second clause.");
  talk.sound("a", 1000);
  const cut = (ms) => heardChars(talk.get("a"), ms);
  assert.equal(cut(0), 0);
  assert.equal("First clause. Second clause.".slice(0, cut(1000)).trim(), "First clause.");
  assert.equal(cut(2000), "First clause. Second clause.".length);
  assert.ok(cut(1500) > 14 && cut(1500) < 28);
  for (let ms = 0; ms < 2000; ms += 50) assert.ok(cut(ms) <= cut(ms + 50), `goes back at ${ms} ms`);
});

test("a cut falls between words", () => {
  const talk = new Conversation();
  const text = "several words of some length stand here";
  talk.place("a", {});
  talk.say("a", text);
  talk.sound("a", 3000);
  for (let ms = 1; ms < 3000; ms += 100) {
    const at = heardChars({ ...talk.get("a"), done: true }, ms);
    assert.ok(at === 0 || at === text.length || text[at] === " ", `${at} after ${ms} ms`);
  }
});

test("the server's record of what was heard corrects the guess, if it fits", () => {
  const talk = new Conversation();
  talk.place("a", {});
  talk.say("a", "one two three");
  talk.sound("a", 900);
  talk.interrupt("a", 300);
  talk.correct("a", "one two");
  assert.equal(talk.get("a").heardChars, 7);
  talk.correct("a", "other words");
  talk.correct("a", "");
  assert.equal(talk.get("a").heardChars, 7);
});

test("an answer in writing was read, however little of it was heard", () => {
  const talk = new Conversation();
  talk.place("a", {});
  talk.write("a", "written");
  talk.interrupt("a");
  assert.equal(talk.get("a").heardChars, 7);
});
