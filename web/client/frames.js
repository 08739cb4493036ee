/**
 * Media frames of the native protocol: 24 bytes of header and int16 samples, little-endian (protocol/README.md). Pure.
 *
 * @typedef {object} Frame
 * @property {number} kind MICROPHONE or SPEECH
 * @property {boolean} again sent again after a resume
 * @property {number} epoch of the answer
 * @property {number} sequence the sender's number
 * @property {number} timestamp samples before this frame
 * @property {Int16Array} samples
 */

export const VERSION = 1;
export const MICROPHONE = 1;
export const SPEECH = 2;

const HEADER_BYTES = 24;
const AGAIN = 0x01;
const LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** @param {Frame} frame `again`, `epoch`, `sequence` and `timestamp` may be left out @returns {ArrayBuffer} */
export function pack({ kind, again = false, epoch = 0, sequence = 0, timestamp = 0, samples }) {
  const message = new ArrayBuffer(HEADER_BYTES + 2 * samples.length);
  const head = new DataView(message);
  head.setUint8(0, kind);
  head.setUint8(1, again ? AGAIN : 0);
  head.setUint32(4, epoch, true);
  head.setBigUint64(8, BigInt(sequence), true);
  head.setBigUint64(16, BigInt(timestamp), true);
  if (LITTLE_ENDIAN) new Int16Array(message, HEADER_BYTES).set(samples);
  else samples.forEach((sample, i) => head.setInt16(HEADER_BYTES + 2 * i, sample, true));
  return message;
}

/**
 * @param {ArrayBuffer} message
 * @returns {Frame} its samples are a view of the message where the machine's byte order allows it
 * @throws {RangeError} where it is no frame
 */
export function unpack(message) {
  if (message.byteLength < HEADER_BYTES) throw new RangeError("A media frame is longer than this.");
  if (message.byteLength % 2) throw new RangeError("A media frame holds whole samples.");
  const head = new DataView(message);
  const kind = head.getUint8(0);
  if (kind !== MICROPHONE && kind !== SPEECH) throw new RangeError(`There is no media of kind ${kind}.`);
  return {
    kind,
    again: (head.getUint8(1) & AGAIN) !== 0,
    epoch: head.getUint32(4, true),
    sequence: Number(head.getBigUint64(8, true)),
    timestamp: Number(head.getBigUint64(16, true)),
    samples: LITTLE_ENDIAN ? new Int16Array(message, HEADER_BYTES) : swapped(head),
  };
}

function swapped(view) {
  const length = (view.byteLength - HEADER_BYTES) / 2;
  return Int16Array.from({ length }, (_, i) => view.getInt16(HEADER_BYTES + 2 * i, true));
}
