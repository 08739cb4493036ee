import assert from "node:assert/strict";
import { test } from "node:test";
import { Answers } from "../../../web/answers.js";

const sound = (response, item) => ({ response_id: response, item_id: item, content_index: 0 });

test("audio of a condemned response is refused for ever, that of a later one is not", () => {
  const answers = new Answers();
  answers.created("r1");
  assert.equal(answers.receive(sound("r1", "i1"), 2400), "i1/0");
  answers.interrupt();
  assert.equal(answers.receive(sound("r1", "i1"), 2400), null);
  answers.done("r1");
  answers.created("r1"); // a server that repeats itself does not bring it back
  assert.equal(answers.receive(sound("r1", "i1"), 2400), null);
  answers.created("r2");
  assert.equal(answers.receive(sound("r2", "i2"), 2400), "i2/0");
});

test("an interruption tells what was heard, never more than came", () => {
  const answers = new Answers();
  answers.created("r1");
  answers.receive(sound("r1", "i1"), 24_000);
  answers.receive(sound("r1", "i1"), 24_000);
  const cut = answers.interrupt();
  assert.deepEqual(cut(new Map([["i1/0", 1234]])), [{ itemId: "i1", contentIndex: 0, audioEndMs: 1234 }]);
  assert.equal(cut(new Map([["i1/0", 99_999]]))[0].audioEndMs, 2000);
  assert.deepEqual(cut(new Map()), []);
});

test("what was heard whole is not cut", () => {
  const answers = new Answers();
  answers.created("r1");
  answers.receive(sound("r1", "i1"), 2400);
  assert.ok(answers.sounding);
  answers.drained("i1/0");
  assert.ok(!answers.sounding);
  assert.deepEqual(answers.interrupt()(new Map()), []);
});

test("a condemned response that is still being made is not pending, but in the way", () => {
  const answers = new Answers();
  answers.created("r1");
  assert.ok(answers.pending);
  answers.interrupt();
  assert.ok(!answers.pending);
  assert.deepEqual(answers.making, ["r1"]);
  answers.done("r1");
  assert.deepEqual(answers.making, []);
});

test("it remembers a bounded number of responses", () => {
  const answers = new Answers();
  for (let i = 0; i < 1000; i++) {
    answers.created(`r${i}`);
    answers.done(`r${i}`);
  }
  answers.interrupt();
  assert.ok(answers.condemned("r999"));
  assert.ok(!answers.condemned("r0"));
});
