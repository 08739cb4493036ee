/** What has come from the server: each thing once, and nothing of an answer that was interrupted. Pure. */

import { unpack } from "./frames.js";

const ANSWERS = 8; // names kept: audio names its answer by the epoch alone

/**
 * @typedef {object} Speech audio of an answer
 * @property {"speech"} type
 * @property {string} response_id
 * @property {string} item_id
 * @property {number} epoch
 * @property {number} start position of the first sample in the answer's audio
 * @property {Int16Array} samples
 */

export class Inbox {
  /** The highest number so far. */
  seen = 0;
  #silenced = 0;
  #answers = new Map(); // epoch → {responseId, itemId}

  /** Take a message of the server; returns it, or null where it has come before. */
  message(message) {
    const number = message.sequence ?? 0;
    if (number && number <= this.seen) return null;
    this.seen = Math.max(this.seen, number);
    if (message.type === "response_created") this.#know(message.response);
    else if (message.type === "snapshot" && message.response) this.#know(message.response);
    else if (message.type === "response_item") this.#name(message);
    else if (message.type === "interrupted") this.silence(message.epoch);
    return message;
  }

  /**
   * Take a media frame.
   *
   * @param {ArrayBuffer} message
   * @returns {Speech | null} null: it has come before, or is not to be heard
   * @throws {RangeError} it is no frame
   */
  frame(message) {
    const { sequence, epoch, timestamp, samples } = unpack(message);
    if (sequence <= this.seen) return null;
    this.seen = sequence;
    if (epoch <= this.#silenced) return null;
    const { responseId = "", itemId = "" } = this.#answers.get(epoch) ?? {};
    return { type: "speech", response_id: responseId, item_id: itemId, epoch, start: timestamp, samples };
  }

  /** Nothing of this epoch or an earlier one is to be heard any more. */
  silence(epoch) {
    this.#silenced = Math.max(this.#silenced, epoch);
  }

  #know({ response_id, epoch, item }) {
    this.#answers.set(epoch, { responseId: response_id, itemId: item?.item_id });
    if (this.#answers.size > ANSWERS) this.#answers.delete(this.#answers.keys().next().value);
  }

  #name({ response_id, item_id }) {
    for (const answer of this.#answers.values()) if (answer.responseId === response_id) answer.itemId = item_id;
  }
}
