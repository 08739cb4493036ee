import assert from "node:assert/strict";
import { test } from "node:test";
import { Conversation } from "../../../web/conversation.js";

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
  talk.heard("a", "");
  talk.settle("a", "one");
  talk.say("a", " three");
  assert.deepEqual([talk.get("a").text, talk.get("a").heardChars], ["one two", 0]);
});

test("of an interrupted answer the server's words were heard, and the rest is kept as what was not", () => {
  const talk = new Conversation();
  talk.place("a", {});
  talk.say("a", "One two three.");
  talk.heard("a", "One ");
  assert.deepEqual([talk.get("a").text, talk.get("a").heardChars, talk.get("a").done], ["One two three.", 3, true]);
  talk.heard("a", "One two"); // it has been told how far the listener was
  assert.equal(talk.get("a").heardChars, 7);
});

test("words that the page never had come from the server", () => {
  const talk = new Conversation();
  talk.place("a", {});
  talk.say("a", "Something");
  talk.heard("a", "Something else");
  assert.deepEqual([talk.get("a").text, talk.get("a").heardChars], ["Something else", 14]);
  talk.heard("nobody", "x");
});

test("all items come as the server has them", () => {
  const talk = new Conversation();
  talk.place("a", { role: "user", text: "What is in the box?" });
  talk.place("b", { after: "a", text: "A cat, and" });
  const part = (text) => [{ kind: "audio", text }];
  talk.restore([
    { item_id: "s", role: "system", status: "completed", parts: part("Be brief.") },
    { item_id: "a", role: "user", status: "completed", parts: part("What is in the box?") },
    { item_id: "b", role: "assistant", status: "incomplete", parts: part("A cat,") },
    { item_id: "c", role: "user", status: "completed", parts: part(null) },
    { item_id: "d", role: "assistant", status: "in_progress", parts: part("It") },
  ]);
  assert.deepEqual(ids(talk), ["a", "b", "c", "d"]);
  assert.deepEqual(talk.items.map(({ text }) => text), ["What is in the box?", "A cat, and", "", "It"]);
  assert.deepEqual(talk.items.map(({ done }) => done), [true, true, false, false]);
  assert.equal(talk.get("b").heardChars, "A cat,".length);
});
