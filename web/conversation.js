/**
 * What both sides said, in the conversation's own order. Pure: events in, a list out.
 *
 * Words may come in any order (a transcription is often done after the answer to it has begun), places do not:
 * `previous_item_id` says where an item belongs.
 */

const CHARS_PER_S = 15; // of speech, where the server's own pace is not known

/**
 * @typedef {object} Item
 * @property {string} id
 * @property {"user" | "assistant"} role
 * @property {string} text all words so far
 * @property {boolean} done whether more words may come
 * @property {number | null} heardChars of an interrupted answer: how much of `text` was heard; else null
 * @property {number | null} voiceMs from the end of the user's speech to the first sound of this answer
 */

const NEW = { text: "", done: false, heardChars: null, voiceMs: null, audioMs: 0, written: false };

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
      item = { ...NEW, id, role, after, spans: [] };
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

  remove(id) {
    this.#byId.delete(id);
    this.items = this.items.filter((item) => item.id !== id);
  }

  /** More words of an item. */
  say(id, delta) {
    const item = this.#byId.get(id);
    if (!item || item.heardChars !== null) return;
    item.spans.push({ from: item.text.length, startMs: item.audioMs });
    item.text += delta;
  }

  /** More words of an answer in writing: they are read, not heard. */
  write(id, delta) {
    this.say(id, delta);
    const item = this.#byId.get(id);
    if (item) item.written = true;
  }

  /**
   * All words of an item; they replace those that came in parts. An answer's that are fewer than came say how far it
   * was heard: the rest is kept, as what was not.
   */
  settle(id, text) {
    const item = this.#byId.get(id);
    if (!item) return;
    item.done = true;
    if (typeof text !== "string" || item.heardChars !== null) return;
    const heard = text.trimEnd();
    const cut = heard.length < item.text.trimEnd().length && item.text.startsWith(heard);
    if (cut && item.role === "assistant" && !item.written) item.heardChars = heard.length;
    else item.text = text;
  }

  /** More audio of an answer has come: it speaks the words that came since the last. */
  sound(id, ms) {
    const item = this.#byId.get(id);
    if (item) item.audioMs += ms;
  }

  /**
   * An answer was interrupted.
   *
   * @param {string} id
   * @param {number} heardMs how much of its audio was heard; all that came where it is left out
   */
  interrupt(id, heardMs) {
    const item = this.#byId.get(id);
    if (!item || item.heardChars !== null) return;
    item.heardChars = item.written ? item.text.length : heardChars(item, heardMs ?? item.audioMs);
    item.done = true;
  }

  /** The server's own record of what was heard of an interrupted answer; it knows better where words stand in audio. */
  correct(id, heard) {
    const item = this.#byId.get(id);
    if (item?.heardChars == null) return;
    if (heard && item.text.startsWith(heard)) item.heardChars = heard.length;
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

/**
 * How many characters of `text` were heard within `heardMs`, at a word's end.
 *
 * Words that came while no audio did are spread over the audio up to the next words'; the last ones, whose audio may
 * not have come, over as long as they take at an ordinary pace.
 */
export function heardChars({ text, spans, audioMs, done }, heardMs) {
  if (heardMs <= 0) return 0;
  const starts = spans.filter((span, i) => i === 0 || span.startMs > spans[i - 1].startMs);
  if (!starts.length) return text.length;
  const i = starts.findLastIndex((span) => span.startMs <= heardMs);
  if (i < 0) return 0;
  const { from, startMs } = starts[i];
  const to = starts[i + 1]?.from ?? text.length;
  const guessMs = startMs + (1000 * (to - from)) / CHARS_PER_S;
  const endMs = starts[i + 1]?.startMs ?? (done ? audioMs : Math.max(audioMs, guessMs));
  const share = Math.min(1, (heardMs - startMs) / Math.max(1, endMs - startMs));
  const at = from + Math.round(share * (to - from));
  if (at >= text.length) return text.length;
  return /\s/.test(text[at]) ? at : Math.max(0, text.lastIndexOf(" ", at));
}
