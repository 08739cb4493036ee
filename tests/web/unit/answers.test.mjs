import assert from "node:assert/strict";
import { test } from "node:test";
import { Answers } from "../../../web/answers.js";

const made = (response_id, epoch) => ({ response_id, epoch });
const sound = (response_id, item_id, epoch) => ({ response_id, item_id, epoch });

test("audio of a condemned epoch is refused for ever, that of a later one is not", () => {
  const answers = new Answers();
  answers.created(made("r1", 1));
  assert.ok(answers.receive(sound("r1", "i1", 1)));
  answers.condemn(answers.epoch);
  assert.ok(!answers.receive(sound("r1", "i1", 1)));
  answers.done("r1");
  answers.created(made("r1", 1)); // a server that repeats itself does not bring it back
  assert.ok(!answers.receive(sound("r1", "i1", 1)));
  answers.created(made("r2", 2));
  answers.condemn(1); // and a late word of an earlier one changes nothing
  assert.ok(answers.receive(sound("r2", "i2", 2)));
});

test("what was heard whole is not sounding any more", () => {
  const answers = new Answers();
  answers.created(made("r1", 1));
  answers.receive(sound("r1", "i1", 1));
  assert.deepEqual([...answers.sounding], [["i1", "r1"]]);
  answers.drained("i1");
  assert.equal(answers.sounding.size, 0);
});

test("a condemned answer that is still being made is not pending, but in the way", () => {
  const answers = new Answers();
  answers.created(made("r1", 1));
  assert.ok(answers.pending);
  answers.condemn(1);
  assert.ok(!answers.pending);
  assert.deepEqual(answers.making, ["r1"]);
  answers.done("r1");
  assert.deepEqual(answers.making, []);
});

test("it remembers a bounded number of answers, and their rule for ever", () => {
  const answers = new Answers();
  for (let i = 1; i <= 1000; i++) {
    answers.created(made(`r${i}`, i));
    answers.done(`r${i}`);
  }
  assert.equal(answers.epoch, 1000);
  answers.condemn(1000);
  assert.ok(!answers.receive(sound("r1", "i1", 1)));
});

test("another session begins anew", () => {
  const answers = new Answers();
  answers.created(made("r9", 9));
  answers.condemn(9);
  answers.clear();
  assert.equal(answers.epoch, 0);
  answers.created(made("r1", 1));
  assert.ok(answers.receive(sound("r1", "i1", 1)));
});
