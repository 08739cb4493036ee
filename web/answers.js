/**
 * Which answers may still be heard, and which of their audio has come and not been played to its end. Pure.
 *
 * The rule: an interruption condemns every epoch known by then; audio of a condemned epoch is never played, however late
 * it comes.
 */

const MOST_KNOWN = 200; // responses remembered; only the newest can have audio under way

export class Answers {
  #responses = new Map(); // id → {epoch, making}
  #sounding = new Map(); // item id → response id: came, and may not have been heard
  #condemned = 0;

  /** The newest epoch that is known. */
  get epoch() {
    return Math.max(0, ...[...this.#responses.values()].map(({ epoch }) => epoch));
  }

  /** Ids of the responses that the server is still making, condemned or not. */
  get making() {
    return [...this.#responses].filter(([, { making }]) => making).map(([id]) => id);
  }

  /** Whether an answer is being made that may be heard. */
  get pending() {
    return [...this.#responses.values()].some(({ making, epoch }) => making && epoch > this.#condemned);
  }

  /** Items of which audio came that has not been heard to its end: item id → response id. */
  get sounding() {
    return new Map(this.#sounding);
  }

  /** @param {{response_id: string, epoch: number}} response */
  created({ response_id, epoch }) {
    if (!this.#responses.has(response_id)) this.#responses.set(response_id, { epoch, making: true });
    if (this.#responses.size > MOST_KNOWN) this.#responses.delete(this.#responses.keys().next().value);
  }

  /** The server has finished it: all of its audio has come. */
  done(responseId) {
    const response = this.#responses.get(responseId);
    if (response) response.making = false;
  }

  /** Audio has come. @param {import("./client/inbox.js").Speech} speech @returns {boolean} whether it is to be played */
  receive({ response_id, item_id, epoch }) {
    if (epoch <= this.#condemned) return false;
    this.#sounding.set(item_id, response_id);
    return true;
  }

  /** The whole of it was heard. */
  drained(itemId) {
    this.#sounding.delete(itemId);
  }

  /** Condemn this epoch and those before it. */
  condemn(epoch) {
    this.#condemned = Math.max(this.#condemned, epoch);
    this.#sounding.clear();
  }

  /** Another session: its server knows none of these. */
  clear() {
    this.#responses.clear();
    this.#sounding.clear();
    this.#condemned = 0;
  }
}
