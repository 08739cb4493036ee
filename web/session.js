/**
 * The page's side of one conversation: server events in, client events and sound out. It outlives connections: after
 * a break the next one is told what was said.
 */

import { Answers, keyOf } from "./answers.js";
import { Conversation } from "./conversation.js";
import { decodePcm, RATE_HZ } from "./pcm.js";

const LONGEST_AWAIT_MS = 15_000; // what the server took for noise gets no answer
const REMEMBERED_ITEMS = 40; // told again to the server after a break

/** An error that answers an event with such an id is a race, not news: the server was a moment ahead of the page. */
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

  #port;
  #player = null;
  #answers = new Answers();
  #silenced = Promise.resolve();
  #interruptible = true;
  #awaiting = false;
  #awaitTimer = 0;
  #speechEndMs = null;
  #sent = 0;

  /**
   * @param {{
   *   send: (event: object) => boolean,
   *   lastLoudMs: () => number | null,
   *   changed: () => void,
   *   answered: (responseId: string) => void,
   * }} port `send` tells whether there is a session to send to; `lastLoudMs`, when the microphone last heard
   *   something (ms of `performance.now()`); `answered` is called when the server has finished an answer
   */
  constructor(port) {
    this.#port = port;
  }

  /** An answer is awaited or being made. */
  get answering() {
    return this.#awaiting || this.#answers.pending;
  }

  /** An answer can be heard, or is about to be. */
  get playing() {
    return this.#answers.sounding;
  }

  /** @param {import("./player.js").Player} player without one, answers are asked for in writing */
  attach(player) {
    this.#player = player;
    player.onStarted = (key, atMs) => this.#heard(key, atMs);
    player.onDrained = (key) => {
      this.#answers.drained(key);
      this.#port.changed();
    };
  }

  /** @param {object} event of the server; those that the page has no use for are passed over */
  handle(event) {
    const handler = this.#handlers[event.type];
    if (!handler) return;
    handler(event);
    this.#port.changed();
  }

  /** The user writes. */
  async write(text) {
    if (this.#answers.pending || this.playing) await this.hush({ cancel: true });
    const item = this.conversation.place(newId(), {
      role: "user",
      after: this.conversation.items.at(-1)?.id,
      text,
      done: true,
    });
    this.#speechEndMs = null;
    this.#sendItem(item);
    this.ask();
  }

  /** The microphone is off in the middle of the user's speech: what was said until here is the turn. */
  commit() {
    this.hearing = false;
    this.#speechEndMs = this.#port.lastLoudMs();
    this.#send({ type: "input_audio_buffer.commit" }, QUIET);
    this.ask(QUIET); // the server may have ended the turn by itself, and answer already
  }

  /** Ask for an answer; where one is still being made, after it: a session makes one at a time. */
  ask(kind) {
    this.answerWanted = true;
    this.#await(true);
    if (this.#answers.making.length) return;
    this.answerWanted = !this.#send({ type: "response.create", response: this.#player ? {} : WRITTEN }, kind);
  }

  /**
   * Silence the answer. First nothing of it can be heard any more, then the server is told what had been.
   *
   * @param {{cancel: boolean}} how `cancel`: the server does not know yet
   */
  hush({ cancel }) {
    const making = this.#answers.making;
    const cut = this.#answers.interrupt();
    const flushed = this.#player?.flush() ?? Promise.resolve(new Map());
    this.#await(false);
    if (cancel) for (const id of making) this.#send({ type: "response.cancel", response_id: id }, QUIET);
    this.#silenced = flushed.then((heardMs) => {
      for (const { itemId, contentIndex, audioEndMs } of cut(heardMs)) {
        this.conversation.interrupt(itemId, audioEndMs);
        const heard = { item_id: itemId, content_index: contentIndex, audio_end_ms: audioEndMs };
        this.#send({ type: "conversation.item.truncate", ...heard }, QUIET);
        this.#send({ type: "conversation.item.retrieve", item_id: itemId }, QUIET);
      }
      this.#port.changed();
    });
    return this.#silenced;
  }

  /** The connection is gone, and with it everything that the server was about to say. */
  disconnected() {
    this.hearing = false;
    this.hush({ cancel: false });
    this.#answers.clear();
  }

  /** Forget everything. */
  clear() {
    this.disconnected();
    this.conversation.clear();
    this.answerWanted = false;
    this.notice = "";
    this.lastHeard = null;
  }

  #opened({ session = {} }) {
    this.notice = "";
    this.#configured({ session });
    // Without it OpenAI's servers do not say what they heard.
    if (!session.audio?.input?.transcription) {
      const audio = { input: { transcription: {} } };
      this.#send({ type: "session.update", session: { type: "realtime", audio } }, QUIET);
    }
    const spoken = this.conversation.items.filter((item) => heardText(item).trim());
    for (const item of spoken.slice(-REMEMBERED_ITEMS)) this.#sendItem(item);
    if (this.answerWanted) this.ask();
  }

  #configured({ session = {} }) {
    this.#interruptible = session.audio?.input?.turn_detection?.interrupt_response !== false;
  }

  #handlers = {
    "session.created": (event) => this.#opened(event),
    "session.updated": (event) => this.#configured(event),
    "input_audio_buffer.speech_started": ({ item_id }) => {
      this.hearing = true;
      this.#await(false);
      if (this.#interruptible) this.hush({ cancel: false });
      if (item_id) this.conversation.place(item_id, { role: "user" });
    },
    "input_audio_buffer.speech_stopped": () => {
      this.hearing = false;
      this.#speechEndMs = this.#port.lastLoudMs();
      this.#await(true);
    },
    "input_audio_buffer.committed": ({ item_id, previous_item_id }) =>
      this.conversation.place(item_id, { role: "user", after: previous_item_id }),
    "input_audio_buffer.cleared": () => (this.hearing = false),
    "conversation.item.added": (event) => this.#placed(event),
    "conversation.item.done": (event) => this.#placed(event),
    "conversation.item.deleted": ({ item_id }) => this.conversation.remove(item_id),
    "conversation.item.retrieved": ({ item }) => this.conversation.correct(item.id, textOf(item)),
    "conversation.item.input_audio_transcription.delta": ({ item_id, delta }) =>
      this.conversation.say(item_id, delta ?? ""),
    "conversation.item.input_audio_transcription.completed": ({ item_id, transcript }) =>
      this.conversation.settle(item_id, transcript),
    "conversation.item.input_audio_transcription.failed": ({ item_id }) =>
      this.conversation.settle(item_id, "(not understood)"),
    "response.created": ({ response }) => {
      this.#await(false);
      this.#answers.created(response.id);
    },
    "response.output_item.added": ({ item }) => this.#placed({ item }),
    "response.output_audio_transcript.delta": ({ item_id, delta }) => this.conversation.say(item_id, delta),
    "response.output_audio_transcript.done": ({ item_id, transcript }) => this.conversation.settle(item_id, transcript),
    "response.output_text.delta": ({ item_id, delta }) => this.conversation.write(item_id, delta),
    "response.output_text.done": ({ item_id, text }) => this.conversation.settle(item_id, text),
    "response.output_audio.delta": (event) => this.#sounded(event),
    "response.output_audio.done": (event) => this.#player?.end(keyOf(event)),
    "response.done": ({ response }) => this.#finished(response),
    error: ({ error = {} }) => {
      if (error.event_id?.startsWith(QUIET)) return;
      this.notice = error.message || "Something went wrong at the server.";
      this.#await(false);
    },
  };

  #placed({ item, previous_item_id }) {
    if (item.type !== "message" || !["user", "assistant"].includes(item.role)) return;
    this.conversation.place(item.id, { role: item.role, after: previous_item_id, text: textOf(item) });
  }

  #sounded(event) {
    let samples;
    try {
      samples = decodePcm(event.delta);
    } catch {
      this.notice = "The server sent audio that cannot be decoded.";
      return;
    }
    const ms = (1000 * samples.length) / RATE_HZ;
    const key = this.#player && this.#answers.receive(event, samples.length);
    if (!key) return;
    this.conversation.sound(event.item_id, ms);
    this.#player.push(key, samples);
  }

  #heard(key, atMs) {
    const sound = this.#answers.sound(key);
    if (!sound) return;
    const voiceMs = this.#speechEndMs === null ? null : Math.round(atMs - this.#speechEndMs);
    this.#speechEndMs = null;
    this.lastHeard = { responseId: sound.responseId, voiceMs };
    const item = this.conversation.get(sound.itemId);
    if (item) item.voiceMs = voiceMs;
    this.#port.changed();
  }

  async #finished({ id, status, status_details: details, output = [] }) {
    for (const key of this.#answers.done(id)) this.#player?.end(key);
    if (status === "failed") this.notice = details?.error?.message || "The server could not answer.";
    if (this.answerWanted) this.ask();
    if (status !== "cancelled") return this.#port.answered(id);
    if (!this.#answers.condemned(id)) this.hush({ cancel: false }); // cancelled from elsewhere
    await this.#silenced; // what was heard of it is known by then
    for (const item of output) this.conversation.interrupt(item.id);
    this.#port.answered(id);
    this.#port.changed();
  }

  #sendItem(item) {
    const { id, role } = item;
    const content = [{ type: role === "user" ? "input_text" : "output_text", text: heardText(item) }];
    this.#send({ type: "conversation.item.create", item: { id, type: "message", role, content } });
  }

  #send(event, kind = "page-") {
    return this.#port.send({ ...event, event_id: `${kind}${++this.#sent}` });
  }

  #await(awaiting) {
    this.#awaiting = awaiting;
    clearTimeout(this.#awaitTimer);
    if (!awaiting) return;
    this.#awaitTimer = setTimeout(() => {
      this.#awaiting = false;
      this.#port.changed();
    }, LONGEST_AWAIT_MS);
  }
}

const WRITTEN = { output_modalities: ["text"] };

function heardText({ text, heardChars }) {
  return text.slice(0, heardChars ?? undefined);
}

/** All words of an item of the wire. */
function textOf({ content = [] }) {
  return content.map(({ text, transcript }) => text ?? transcript ?? "").join("");
}

function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(10));
  return `item_${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
