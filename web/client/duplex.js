/**
 * A session of the native protocol (protocol/README.md) that outlives its connections.
 *
 *     const duplex = new Duplex(location.origin, { onEvent: (event) => console.log(event) });
 *     duplex.open(); // and once the event `opened` has come:
 *     duplex.add("Why is the sky blue?");
 *     duplex.signal({ kind: "respond" });
 *
 * A connection that is lost is opened again and the session resumed: what was missed comes, nothing comes twice, and what
 * the server had not taken is said once more.
 */

import { Link } from "./link.js";

export class Duplex {
  #link;

  /**
   * @param {string} origin of the server, for example `http://127.0.0.1:8000`
   * @param {{
   *   onState?: (state: string, why?: {kind: string, message: string}) => void,
   *   onEvent?: (event: object) => void,
   *   onLost?: (message: string) => void,
   *   wanted?: () => boolean,
   * }} handlers `onEvent` gets the server's messages, and audio as `Speech` of inbox.js; `onLost`: the session is gone
   *   though nobody ended it; `wanted`: whether a new one is to be opened then
   * @param {{inputHz?: number, playback?: "acknowledged" | "reckoned", resumable?: boolean, settings?: object}} opening
   */
  constructor(origin, handlers, { inputHz = 24_000, playback = "acknowledged", resumable = true, settings } = {}) {
    const all = { onState() {}, onEvent() {}, onLost() {}, wanted: () => false, ...handlers };
    this.#link = new Link(origin, all, { input_hz: inputHz, playback, resumable, settings });
  }

  /**
   * closed → connecting → starting → ready; queued (all places are taken) before it; waiting (for the next attempt); refused
   * (the server said no: only the user tries again).
   */
  get state() {
    return this.#link.state;
  }

  /** In the queue: {position, etaS}; position 1 is the next, etaS may be null. */
  get place() {
    return this.#link.place;
  }

  /** Whether it is connecting anew after a break. */
  get again() {
    return this.#link.again;
  }

  /** What was agreed with the server, or null where there is no session. */
  get terms() {
    return this.#link.terms;
  }

  /** Bytes that the network has not taken yet. */
  get backlogBytes() {
    return this.#link.backlogBytes;
  }

  // The four verbs: those that say something return whether there is a session that it is for, connected or not ------

  /** Connect, unless it is connected or about to be. @param {string} key API key, or "" */
  open(key = "") {
    this.#link.open(key);
  }

  /** update: the microphone goes on. @param {Int16Array} samples at `inputHz`, at most 1 s */
  sendAudio(samples) {
    return this.#link.audio(samples);
  }

  /** update: other settings, from the next turn on. */
  update(settings, id) {
    return this.#link.command({ type: "update", id, settings });
  }

  /** update: a message enters the conversation. */
  add(text, { role = "user", itemId = "", after = null, id } = {}) {
    return this.#link.command({ type: "update", id, item: { role, text, item_id: itemId }, after });
  }

  /** signal: something is to happen now. @param {{kind: string}} signal of the protocol */
  signal(signal, id) {
    return this.#link.command({ type: "signal", id, signal });
  }

  /** close: the session is over, and the connection with it. */
  close() {
    this.#link.close();
  }

  /** So many samples of an answer have been played, counted from its beginning. */
  played(itemId, samples) {
    return this.#link.played(itemId, samples);
  }

  /** Nothing of this epoch or an earlier one is to be heard any more, whatever still comes. */
  silence(epoch) {
    this.#link.silence(epoch);
  }
}
