/**
 * The page's side of one conversation: the server's messages in, what the user does and hears out. It outlives sessions of
 * the server: where one is gone, the next is told what was said.
 */

import { Awaiting } from "./awaiting.js";
import { Conversation } from "./conversation.js";
import { heardText, newId, textOf } from "./item.js";
import { Listener } from "./listener.js";
import { RATE_HZ } from "./pcm.js";
import { wordsOfEnding } from "./phase.js";

const REMEMBERED_ITEMS = 40; // told again to the next session

/** An error that answers a message with such an id is a race, not news: the server was a moment ahead of the page. */
const QUIET = "quiet-";

export class Session {
  conversation = new Conversation();
  hearing = false;
  /** An answer is to be asked for as soon as that is possible. */
  answerWanted = false;
  /** Something the user should know, or "". */
  notice = "";
  /** The answer that was heard last, and how long after the user's speech: {responseId, voiceMs}, or null. */
  lastHeard = null;

  #duplex;
  #view;
  #listener;
  #answers;
  #cut = new Map(); // item id → samples: silenced here, while the server was still making it
  #speaking = null; // id of the item that the user's speech is becoming
  #ending = ""; // why the session is about to end, where it is
  #awaiting;
  #speechEndMs = null;
  #sent = 0;

  /**
   * @param {import("./client/duplex.js").Duplex} duplex
   * @param {{
   *   lastLoudMs: () => number | null,
   *   changed: () => void,
   *   answered: (responseId: string) => void,
   * }} view `lastLoudMs`: when the microphone last heard something (ms of `performance.now()`); `answered` is called when
   *   the server has finished an answer
   */
  constructor(duplex, view) {
    this.#duplex = duplex;
    this.#view = view;
    this.#awaiting = new Awaiting(view.changed);
    this.#listener = new Listener(duplex, {
      changed: view.changed,
      started: (itemId, responseId, atMs) => this.#started(itemId, responseId, atMs),
    });
    this.#answers = this.#listener.answers;
  }

  /** Of `notice`: calm where it tells what was to be expected. */
  get noticeTone() {
    return this.#ending ? "calm" : "trouble";
  }

  /** An answer is awaited or being made. */
  get answering() {
    return this.#awaiting.on || this.#answers.pending;
  }

  /** An answer can be heard, or is about to be. */
  get playing() {
    return this.#listener.playing;
  }

  /** @param {import("./player.js").Player} player without one, answers are asked for in writing */
  attach(player) {
    this.#listener.attach(player);
  }

  /** @param {object} event of the server; those that the page has no use for are passed over */
  handle(event) {
    const handler = this.#handlers[event.type];
    if (!handler) return;
    const looked = event.type !== "speech" || !this.playing; // more of what sounds already is nothing to look at
    handler(event);
    if (looked) this.#view.changed();
  }

  /** The user writes. */
  async write(text) {
    this.#goesOn();
    if (this.#answers.pending || this.playing) await this.hush();
    const after = this.conversation.items.at(-1)?.id;
    const item = this.conversation.place(newId(), { role: "user", after, text, done: true });
    this.#speechEndMs = null;
    this.#tell(item);
    this.ask();
  }

  /** The microphone is off in the middle of the user's speech: what was said until here is the turn. */
  commit() {
    this.hearing = false;
    this.#speechEndMs = this.#view.lastLoudMs();
    this.#signal({ kind: "commit" }, QUIET);
    this.ask(QUIET); // the server may have ended the turn by itself, and answer already
  }

  /** Ask for an answer; where one is still being made, after it: a session makes one at a time. */
  ask(kind) {
    this.answerWanted = true;
    this.#awaiting.on = true;
    if (this.#answers.making.length) return;
    this.answerWanted = !this.#signal({ kind: "respond", ...(this.#listener.present ? {} : { modality: "text" }) }, kind);
  }

  /** The user has heard enough. First nothing of the answer can be heard any more, then the server is told. */
  async hush() {
    const { epoch, making, sounding } = this.#answers;
    this.#awaiting.on = false;
    const silenced = this.#listener.silence(epoch);
    for (const response_id of making) this.#signal({ kind: "cancel", response_id }, QUIET);
    for (const [itemId, samples] of await silenced) {
      if (this.#answers.making.includes(sounding.get(itemId))) this.#cut.set(itemId, samples);
      else this.#truncate(itemId, samples);
    }
    this.#view.changed();
  }

  /** The server's session is gone, and with it everything that it was about to say. */
  lost() {
    if (this.#awaiting.on) this.answerWanted = true;
    this.#reset();
  }

  /** Forget everything. */
  clear() {
    this.#reset();
    this.conversation.clear();
    this.answerWanted = false;
    this.notice = "";
    this.lastHeard = null;
  }

  #reset() {
    this.hearing = false;
    this.#awaiting.on = false;
    this.#ending = "";
    this.#listener.reset();
    this.#cut.clear();
    this.#unsaid();
  }

  #opened() {
    this.notice = "";
    const spoken = this.conversation.items.filter((item) => heardText(item).trim());
    for (const item of spoken.slice(-REMEMBERED_ITEMS)) this.#tell(item);
    if (this.answerWanted) this.ask();
  }

  #handlers = {
    opened: () => this.#opened(),
    snapshot: (event) => this.#restore(event),
    speech_started: ({ item_id }) => {
      this.#goesOn();
      this.hearing = true;
      this.#awaiting.on = false;
      this.#speaking = item_id;
      this.conversation.place(item_id, { role: "user" });
    },
    speech_stopped: () => {
      this.hearing = false;
      this.#speechEndMs = this.#view.lastLoudMs();
      this.#awaiting.on = true;
    },
    committed: ({ item_id, previous_item_id }) => {
      this.#speaking = null;
      this.conversation.place(item_id, { role: "user", after: previous_item_id });
    },
    cleared: () => this.#unsaid(),
    item_added: ({ item, previous_item_id }) => this.conversation.adopt(item, previous_item_id),
    item_done: ({ item, previous_item_id }) => this.conversation.adopt(item, previous_item_id),
    item_deleted: ({ item_id }) => this.conversation.remove(item_id),
    item_retrieved: ({ item }) => item.role === "assistant" && this.conversation.heard(item.item_id, textOf(item)),
    transcribed: ({ item_id, text }) => this.conversation.settle(item_id, text),
    transcription_failed: ({ item_id }) => this.conversation.settle(item_id, "(not understood)"),
    response_created: ({ response }) => {
      this.#awaiting.on = false;
      this.#answers.created(response);
    },
    response_text: ({ item_id, text }) => this.conversation.say(item_id, text),
    speech: (event) => this.#listener.take(event),
    interrupted: (event) => this.#interrupted(event),
    response_done: ({ response }) => this.#finished(response),
    ending: ({ reason, in_s }) => {
      this.#ending = reason;
      this.notice = wordsOfEnding(reason, in_s);
    },
    closed: ({ reason, message }) => {
      this.lost();
      this.notice = wordsOfEnding(reason, 0) || message;
      this.#ending = this.notice === message ? "" : reason;
    },
    error: ({ id, code, message }) => {
      if (id?.startsWith(QUIET)) return;
      if (code === "transcription_failed") this.#unsaid();
      this.notice = message || "Something went wrong at the server.";
      this.#awaiting.on = false;
    },
  };

  #goesOn() {
    if (this.#ending === "idle") this.notice = "";
    this.#ending = "";
  }

  /** What the user was saying will not become a turn. */
  #unsaid() {
    this.hearing = false;
    if (this.#speaking !== null) this.conversation.remove(this.#speaking);
    this.#speaking = null;
  }

  /** Too much was missed to be told again: this is all that there is. */
  #restore({ items, response, speaking }) {
    this.hearing = speaking !== null;
    this.#speaking = speaking;
    this.conversation.restore(items);
    if (response) this.#answers.created(response);
  }

  #started(itemId, responseId, atMs) {
    const voiceMs = this.#speechEndMs === null ? null : Math.round(atMs - this.#speechEndMs);
    this.#speechEndMs = null;
    this.lastHeard = { responseId, voiceMs };
    const item = this.conversation.get(itemId);
    if (item) item.voiceMs = voiceMs;
    this.#view.changed();
  }

  /** The server has heard the user, and stopped. Once it is told how far the listener was, it knows what was heard. */
  async #interrupted({ epoch, item_id }) {
    this.#awaiting.on = false;
    const played = await this.#listener.silence(epoch);
    for (const itemId of new Set([item_id, ...played.map(([itemId]) => itemId)])) this.#retrieve(itemId);
    this.#view.changed();
  }

  /** To the server an answer that is all sent is as good as heard: it has to be told that it was not. */
  #truncate(itemId, samples) {
    const audio_end_ms = Math.floor((1000 * samples) / RATE_HZ);
    this.#signal({ kind: "truncate", item_id: itemId, audio_end_ms }, QUIET);
    this.#retrieve(itemId);
  }

  #retrieve(itemId) {
    this.#signal({ kind: "retrieve", item_id: itemId }, QUIET);
  }

  #finished({ response_id, status, reason, error, item }) {
    this.#answers.done(response_id);
    if (item) this.#listener.ended(item.item_id);
    if (status === "failed") this.notice = error || "The server could not answer.";
    const cut = item?.status === "incomplete" && reason !== "max_output_tokens";
    if (cut) this.conversation.heard(item.item_id, textOf(item));
    else if (item) this.conversation.settle(item.item_id, textOf(item));
    const cutAt = this.#cut.get(item?.item_id);
    this.#cut.delete(item?.item_id);
    if (cutAt !== undefined && status !== "cancelled") this.#truncate(item.item_id, cutAt); // it was done by then
    else if (cutAt !== undefined) this.#retrieve(item.item_id);
    if (this.answerWanted) this.ask();
    this.#view.answered(response_id);
  }

  #tell(item) {
    const { id, role } = item;
    this.#duplex.add(heardText(item), { role, itemId: id, id: this.#name() });
  }

  #signal(signal, kind) {
    return this.#duplex.signal(signal, this.#name(kind));
  }

  #name(kind = "page-") {
    return `${kind}${++this.#sent}`;
  }
}
