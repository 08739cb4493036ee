import assert from "node:assert/strict";
import { test } from "node:test";
import { rms, toFloat, toInt16 } from "../../../web/pcm.js";
import { PlaybackQueue } from "../../../web/playback-queue.js";
import { Resampler } from "../../../web/resample.js";

const ramp = (length, from = 0) => Float32Array.from({ length }, (_, i) => (from + i) / 10_000);

test("samples survive the way through the browser", () => {
  const samples = Int16Array.from({ length: 40_000 }, (_, i) => ((i * 7919) % 65_536) - 32_768);
  assert.deepEqual(toInt16(toFloat(samples)), samples);
});

test("loud samples are clipped, not wrapped", () => {
  assert.deepEqual([...toInt16(Float32Array.of(2, -2, 1, 0))], [32_767, -32_768, 32_767, 0]);
});

test("chunks of any length play as one, sample after sample", () => {
  for (const lengths of [[1000], [1, 2, 3, 994], [127, 128, 129, 616], Array(100).fill(10)]) {
    const queue = new PlaybackQueue();
    let at = 0;
    for (const length of lengths) {
      queue.push("a", ramp(length, at));
      at += length;
    }
    const played = [];
    while (queue.length) {
      const out = new Float32Array(128);
      played.push(...out.subarray(0, (queue.take(out), Math.min(128, 1000 - played.length))));
    }
    assert.deepEqual(Float32Array.from(played), ramp(1000));
    assert.deepEqual(queue.played, [["a", 1000]]);
  }
});

test("an item drains when it has ended and all of it has been played, whichever is later", () => {
  const queue = new PlaybackQueue();
  queue.push("a", ramp(100));
  queue.push("b", ramp(100));
  assert.equal(queue.end("a"), null);
  const { filled, parts, drained } = queue.take(new Float32Array(128));
  assert.equal(filled, 128);
  assert.deepEqual(parts.map(({ key, offset, samples }) => [key, offset, samples.length]), [["a", 0, 100], ["b", 100, 28]]);
  assert.deepEqual(drained, [["a", 100]]);
  assert.ok(!queue.complete);
  assert.deepEqual(queue.take(new Float32Array(128)).drained, []);
  assert.equal(queue.end("b"), 100);
  assert.deepEqual(queue.played, []);
  assert.equal(queue.end("b"), null);
});

for (const fromHz of [48_000, 44_100, 16_000]) {
  test(`${fromHz} Hz to 24 kHz: the pitch is kept, chunk borders leave no trace, what does not fit is gone`, () => {
    const sine = (hz, rate) => Float32Array.from({ length: rate }, (_, i) => 0.5 * Math.sin((2 * Math.PI * hz * i) / rate));
    const run = (samples, size) => {
      const resampler = new Resampler({ fromHz, toHz: 24_000 });
      const out = [];
      for (let at = 0; at < samples.length; at += size) out.push(...resampler.push(samples.subarray(at, at + size)));
      return Float32Array.from(out);
    };
    const input = sine(1000, fromHz);
    const whole = run(input, input.length);
    assert.deepEqual(run(input, 128), whole);
    assert.ok(whole.length > 23_900 && whole.length <= 24_000, `${whole.length} samples a second`);
    const expected = sine(1000, 24_000);
    let worst = 0;
    for (let i = 200; i < whole.length - 200; i++) worst = Math.max(worst, Math.abs(whole[i] - expected[i]));
    assert.ok(worst < 0.005, `off by ${worst}`);
    if (fromHz > 24_000) {
      const aliased = run(sine(15_000, fromHz), 128).subarray(200);
      assert.ok(rms(aliased) < 0.5 * 10 ** (-55 / 20), `15 kHz leaves ${20 * Math.log10(rms(aliased))} dB`);
    }
  });
}
