/** Audio in numbers: mono, 24 kHz, int16 on the wire and float in the browser. */

export const RATE_HZ = 24_000;

/** A 10 ms window at or above this is audible; the same limit as `duplex talk` uses. */
export const AUDIBLE_RMS = 10 ** (-40 / 20);

/** @param {Int16Array} samples @returns {Float32Array} in [-1, 1) */
export function toFloat(samples) {
  return Float32Array.from(samples, (sample) => sample / 32768);
}

/** Float samples to int16, clipped. */
export function toInt16(samples) {
  const out = new Int16Array(samples.length);
  for (let i = 0; i < samples.length; i++) {
    out[i] = Math.max(-32768, Math.min(32767, Math.round(samples[i] * 32768)));
  }
  return out;
}

/** Root mean square of `samples`, in [0, 1]. */
export function rms(samples) {
  let sum = 0;
  for (let i = 0; i < samples.length; i++) sum += samples[i] * samples[i];
  return samples.length ? Math.sqrt(sum / samples.length) : 0;
}
