/** The wire's audio: base64 of little-endian int16, mono, 24 kHz (OpenAI Realtime `audio/pcm`). */

export const RATE_HZ = 24_000;

/** A 10 ms window at or above this is audible; the same limit as `duplex talk` uses. */
export const AUDIBLE_RMS = 10 ** (-40 / 20);

const LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
const SPREAD_BYTES = 8192; // String.fromCharCode takes its bytes as arguments, of which engines allow so many.

/**
 * @param {Int16Array} samples
 * @returns {string}
 */
export function encodePcm(samples) {
  const bytes = toBytes(samples);
  let text = "";
  for (let at = 0; at < bytes.length; at += SPREAD_BYTES) {
    text += String.fromCharCode(...bytes.subarray(at, at + SPREAD_BYTES));
  }
  return btoa(text);
}

/**
 * @param {string} base64
 * @returns {Float32Array} samples in [-1, 1)
 * @throws {Error} where it is not base64 of whole samples
 */
export function decodePcm(base64) {
  const text = atob(base64);
  if (text.length % 2) throw new Error("The server sent audio with half a sample in it.");
  const samples = new Float32Array(text.length / 2);
  for (let i = 0; i < samples.length; i++) {
    const value = text.charCodeAt(2 * i) | (text.charCodeAt(2 * i + 1) << 8);
    samples[i] = ((value << 16) >> 16) / 32768;
  }
  return samples;
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

function toBytes(samples) {
  if (LITTLE_ENDIAN) return new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
  const view = new DataView(new ArrayBuffer(samples.byteLength));
  samples.forEach((sample, i) => view.setInt16(2 * i, sample, true));
  return new Uint8Array(view.buffer);
}
