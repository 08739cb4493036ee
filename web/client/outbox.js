/** What a client says: numbered from 1, and kept until the server has taken it, to be said again after a resume. Pure. */

import { MICROPHONE, pack } from "./frames.js";

const MOST_BYTES = 2 << 20; // 40 s of a microphone: more than a session waits for its client

export class Outbox {
  /** Pieces of audio that went for want of room. */
  lost = 0;
  #sequence = 0;
  #position = 0;
  #kept = []; // {sequence, message, bytes, audio}
  #bytes = 0;

  /**
   * Something that must not be lost.
   *
   * @param {object} message of the protocol, without its number
   * @returns {string} as it travels
   */
  command(message) {
    const sequence = ++this.#sequence;
    const text = JSON.stringify({ ...message, sequence });
    this.#keep({ sequence, message: text, bytes: text.length, audio: false });
    return text;
  }

  /** The microphone goes on. @param {Int16Array} samples at most 1 s @returns {ArrayBuffer} as it travels */
  audio(samples) {
    const sequence = ++this.#sequence;
    const message = pack({ kind: MICROPHONE, sequence, timestamp: this.#position, samples });
    this.#position += samples.length;
    this.#keep({ sequence, message, bytes: message.byteLength, audio: true });
    return message;
  }

  /** The server has taken everything up to this number. */
  confirm(taken) {
    while (this.#kept.length && this.#kept[0].sequence <= taken) this.#bytes -= this.#kept.shift().bytes;
  }

  /** What is to be said again, in order. */
  get unconfirmed() {
    return this.#kept.map(({ message }) => message);
  }

  /** Past the limit the oldest audio goes; what the client commands is never dropped. */
  #keep(sent) {
    this.#kept.push(sent);
    this.#bytes += sent.bytes;
    while (this.#bytes > MOST_BYTES) {
      const oldest = this.#kept.findIndex(({ audio }) => audio);
      if (oldest < 0) return;
      this.#bytes -= this.#kept.splice(oldest, 1)[0].bytes;
      this.lost++;
    }
  }
}
