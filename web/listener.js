/**
 * What of the answers is heard: audio goes to the loudspeaker while it may, and the server is told what has been played,
 * about every 100 ms and at once when it is silenced. So its history holds what was heard, and nothing else.
 */

import { Answers } from "./answers.js";
import { toFloat } from "./pcm.js";

export class Listener {
  answers = new Answers();
  #duplex;
  #view;
  #player = null;
  #played = new Map(); // item id → samples, as the server was told

  /**
   * @param {import("./client/duplex.js").Duplex} duplex
   * @param {{changed: () => void, started: (itemId: string, responseId: string, atMs: number) => void}} view `started`:
   *   the first audible window of an item goes out, at a time of `performance.now()`
   */
  constructor(duplex, view) {
    this.#duplex = duplex;
    this.#view = view;
  }

  /** Whether there is a loudspeaker. */
  get present() {
    return this.#player !== null;
  }

  /** Whether an answer can be heard, or is about to be. */
  get playing() {
    return this.answers.sounding.size > 0;
  }

  /** @param {import("./player.js").Player} player */
  attach(player) {
    this.#player = player;
    player.onPlayed = (itemId, samples) => this.#tell(itemId, samples);
    player.onStarted = (itemId, atMs) => {
      const responseId = this.answers.sounding.get(itemId);
      if (responseId !== undefined) this.#view.started(itemId, responseId, atMs);
    };
    player.onDrained = (itemId) => {
      this.answers.drained(itemId);
      this.#view.changed();
    };
  }

  /** Audio has come. @param {import("./client/inbox.js").Speech} speech */
  take(speech) {
    if (this.#player && this.answers.receive(speech)) this.#player.push(speech.item_id, toFloat(speech.samples));
  }

  /** All audio of an item has come. */
  ended(itemId) {
    this.#player?.end(itemId);
  }

  /**
   * Nothing of this epoch or an earlier one is heard any more.
   *
   * @returns {Promise<[string, number][]>} how far each item had been played that was not over, in samples; the server
   *   has been told by then
   */
  async silence(epoch) {
    this.#duplex.silence(epoch);
    this.answers.condemn(epoch);
    const played = (await this.#player?.flush()) ?? [];
    for (const [itemId, samples] of played) this.#tell(itemId, samples);
    return played;
  }

  /** Another session: its server knows none of these. */
  reset() {
    this.#player?.flush();
    this.answers.clear();
    this.#played.clear();
  }

  #tell(itemId, samples) {
    if (samples <= (this.#played.get(itemId) ?? 0)) return;
    this.#played.set(itemId, samples);
    this.#duplex.played(itemId, samples);
  }
}
