/**
 * What both sides said, in the conversation's own order. Pure: events in, a list out.
 *
 * Words may come in any order (a transcription is often done after the answer to it has begun), places do not:
 * `previous_item_id` says where an item belongs. How much of an interrupted answer was heard is the server's to say: its
 * item holds those words and no others.
 */

import { textOf } from "./item.js";

/**
 * @typedef {object} Item
 * @property {string} id
 * @property {"user" | "assistant"} role
 * @property {string} text all words so far
 * @property {boolean} done whether more words may come
 * @property {number | null} heardChars of an interrupted answer: how much of `text` was heard; else null
 * @property {number | null} voiceMs from the end of the user's speech to the first sound of this answer
 */

const NEW = { text: "", done: false, heardChars: null, voiceMs: null };

export class Conversation {
  /** @type {Item[]} */
  items = [];
  #byId = new Map();

  get(id) {
    return this.#byId.get(id);
  }

  clear() {
    this.items = [];
    this.#byId.clear();
  }

  /**
   * The item exists, and stands after `after`.
   *
   * @param {string} id
   * @param {{role?: string, after?: string | null, text?: string, done?: boolean}} what `after`: undefined or null
   *   leave a known item where it is and put a new one last
   * @returns {Item}
   */
  place(id, { role = "assistant", after, text, done }) {
    let item = this.#byId.get(id);
    const isNew = !item;
    if (isNew) {
      item = { ...NEW, id, role, after };
      this.#byId.set(id, item);
      this.items.push(item);
    }
    if (text && !item.text) item.text = text;
    if (done) item.done = true;
    if (after && (isNew || item.after !== after)) this.#moveAfter(item, after);
    if (after) item.after = after;
    this.#fetchFollowers(item);
    return item;
  }

  /** The item is as the server has it. @param {object} item of the wire; nobody says those of the system */
  adopt(item, after) {
    const { item_id: id, role, status } = item;
    const text = textOf(item);
    if (role === "system") return;
    this.place(id, { role, after, text, done: role === "user" && text !== "" });
    if (role === "assistant" && status === "completed") this.settle(id, text);
  }

  /** All items are as the server has them. @param {object[]} items of the wire, in order */
  restore(items) {
    let after = null;
    for (const item of items) {
      this.adopt(item, after);
      const known = this.get(item.item_id);
      if (item.status === "incomplete" && known) this.heard(item.item_id, textOf(item));
      else if (known && item.role === "assistant") known.text = textOf(item);
      after = item.item_id;
    }
  }

  remove(id) {
    this.#byId.delete(id);
    this.items = this.items.filter((item) => item.id !== id);
  }

  /** More words of an item. */
  say(id, words) {
    const item = this.#byId.get(id);
    if (item && item.heardChars === null) item.text += words;
  }

  /** All words of an item; they replace those that came in parts. */
  settle(id, text) {
    const item = this.#byId.get(id);
    if (!item) return;
    item.done = true;
    if (item.heardChars === null) item.text = text;
  }

  /**
   * Of this answer only these words were heard. Those that were not are kept, as what was not.
   *
   * @param {string} id
   * @param {string} words as the server has them; it may say more of them later, once it knows where the listener was
   */
  heard(id, words) {
    const item = this.#byId.get(id);
    if (!item) return;
    item.done = true;
    const heard = words.trimEnd();
    if (item.text.startsWith(heard)) item.heardChars = heard.length;
    else Object.assign(item, { text: words, heardChars: words.length }); // part of it never came here
  }

  #moveAfter(item, after) {
    const anchor = this.#byId.get(after);
    if (!anchor || anchor === item) return;
    this.items.splice(this.items.indexOf(item), 1);
    this.items.splice(this.items.indexOf(anchor) + 1, 0, item);
  }

  /** What came before the item that it follows had its place goes behind it now, and so on down the chain. */
  #fetchFollowers(item, fetched = new Set([item])) {
    const before = this.items.slice(0, this.items.indexOf(item));
    for (const other of before.filter((other) => other.after === item.id && !fetched.has(other))) {
      fetched.add(other); // a circle, which only a broken server makes, ends here
      this.#moveAfter(other, item.id);
      this.#fetchFollowers(other, fetched);
    }
  }
}
