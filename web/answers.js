/**
 * Which answers may still be heard, and how much audio of each has come. Pure.
 *
 * The rule: an interruption condemns every response known by then; audio that names one of them is never played,
 * however late it comes.
 */

import { RATE_HZ } from "./pcm.js";

const MOST_KNOWN = 200; // responses remembered; only the newest can have audio under way

export class Answers {
  #responses = new Map(); // id → {making, condemned}
  #sounding = new Map(); // key → {responseId, itemId, contentIndex, samples}: came, and may not have been heard

  /** Ids of the responses that the server is still making, condemned or not. */
  get making() {
    return [...this.#responses].filter(([, { making }]) => making).map(([id]) => id);
  }

  /** Whether an answer is being made that may be heard. */
  get pending() {
    return [...this.#responses.values()].some(({ making, condemned }) => making && !condemned);
  }

  /** Whether there is audio that came and has not been heard to its end. */
  get sounding() {
    return this.#sounding.size > 0;
  }

  created(responseId) {
    if (!this.#responses.has(responseId)) this.#responses.set(responseId, { making: true, condemned: false });
    if (this.#responses.size > MOST_KNOWN) this.#responses.delete(this.#responses.keys().next().value);
  }

  /** The server has finished it. Returns the keys of its audio that have not been heard to their end. */
  done(responseId) {
    const response = this.#responses.get(responseId);
    if (response) response.making = false;
    return [...this.#sounding].filter(([, sound]) => sound.responseId === responseId).map(([key]) => key);
  }

  condemned(responseId) {
    return this.#responses.get(responseId)?.condemned ?? false;
  }

  /**
   * Audio has come.
   *
   * @param {{response_id: string, item_id: string, content_index?: number}} event
   * @param {number} samples how many
   * @returns {string | null} the key to play it under; null: it must not be played
   */
  receive(event, samples) {
    if (this.condemned(event.response_id)) return null;
    const key = keyOf(event);
    const sound = this.#sounding.get(key) ?? {
      responseId: event.response_id,
      itemId: event.item_id,
      contentIndex: event.content_index ?? 0,
      samples: 0,
    };
    sound.samples += samples;
    this.#sounding.set(key, sound);
    return key;
  }

  /** What is being played under `key`, or undefined. */
  sound(key) {
    return this.#sounding.get(key);
  }

  /** The whole of it was heard. */
  drained(key) {
    this.#sounding.delete(key);
  }

  /**
   * Condemn all responses known so far.
   *
   * @returns {(heardMs: Map<string, number>) => {itemId: string, contentIndex: number, audioEndMs: number}[]} given
   *   the milliseconds heard of each key, tells where each answer ended for the listener
   */
  interrupt() {
    for (const response of this.#responses.values()) response.condemned = true;
    const sounding = this.#sounding;
    this.#sounding = new Map();
    return (heardMs) =>
      [...sounding]
        .filter(([key]) => heardMs.has(key)) // what drained meanwhile was heard whole
        .map(([key, { itemId, contentIndex, samples }]) => {
          const receivedMs = Math.floor((1000 * samples) / RATE_HZ);
          return { itemId, contentIndex, audioEndMs: Math.min(heardMs.get(key), receivedMs) };
        });
  }

  /** A new connection: its server knows none of these. */
  clear() {
    this.#responses.clear();
    this.#sounding.clear();
  }
}

export function keyOf({ item_id, content_index = 0 }) {
  return `${item_id}/${content_index}`;
}
