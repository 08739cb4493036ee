/**
 * Resampling for browsers that will not open a microphone at 24 kHz.
 *
 * A Blackman-windowed sinc (Smith, "Digital Audio Resampling"), kept as a table of phases. State is carried from one
 * chunk to the next, so that no chunk border can be heard.
 */

const ZERO_CROSSINGS = 16;
const PHASES = 256;

export class Resampler {
  #step;
  #half;
  #table;
  #held;
  #at;

  /**
   * @param {{fromHz: number, toHz: number}} rates
   */
  constructor({ fromHz, toHz }) {
    const cutoff = Math.min(1, toHz / fromHz) * 0.94; // leaves the filter's slope below the lower Nyquist frequency
    this.#step = fromHz / toHz;
    this.#half = Math.ceil(ZERO_CROSSINGS / cutoff);
    this.#table = kernels(this.#half, cutoff);
    this.#held = new Float32Array(this.#half); // silence before the first sample
    this.#at = this.#half;
  }

  /**
   * @param {Float32Array} samples at `fromHz`
   * @returns {Float32Array} those that can be told by now, at `toHz`; the rest follows with later chunks
   */
  push(samples) {
    if (this.#step === 1) return samples;
    const half = this.#half;
    const input = new Float32Array(this.#held.length + samples.length);
    input.set(this.#held);
    input.set(samples, this.#held.length);
    const out = new Float32Array(Math.max(0, Math.ceil((input.length - half - this.#at) / this.#step)));
    let count = 0;
    for (; this.#at + half < input.length; this.#at += this.#step) {
      const whole = Math.floor(this.#at);
      const kernel = this.#table[Math.round((this.#at - whole) * PHASES)];
      let sum = 0;
      for (let k = 0; k < kernel.length; k++) sum += kernel[k] * input[whole - half + 1 + k];
      out[count++] = sum;
    }
    const keepFrom = Math.max(0, Math.floor(this.#at) - half);
    this.#held = input.slice(keepFrom);
    this.#at -= keepFrom;
    return out.subarray(0, count);
  }
}

/** One kernel of 2·half taps for each fraction of a sample; each sums to 1, so that silence and level stay exact. */
function kernels(half, cutoff) {
  return Array.from({ length: PHASES + 1 }, (_, phase) => {
    const taps = Float64Array.from({ length: 2 * half }, (_, k) => {
      const x = k - half + 1 - phase / PHASES;
      const w = 0.42 + 0.5 * Math.cos((Math.PI * x) / half) + 0.08 * Math.cos((2 * Math.PI * x) / half);
      return Math.abs(x) >= half ? 0 : w * (x === 0 ? 1 : Math.sin(Math.PI * cutoff * x) / (Math.PI * cutoff * x));
    });
    const sum = taps.reduce((a, b) => a + b);
    return Float32Array.from(taps, (tap) => tap / sum);
  });
}
