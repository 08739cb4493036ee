/**
 * A session of the native protocol (protocol/README.md) that outlives its connections.
 *
 *     const duplex = new Duplex(location.origin, { onEvent: (event) => console.log(event) });
 *     duplex.open();
 *     duplex.add("Why is the sky blue?");
 *     duplex.signal({ kind: "respond" });
 *
 * States: closed → connecting → starting → ready; queued (all places are taken) before it; waiting (for the next attempt);
 * refused (the server said no: only the user tries again). A connection that is lost is opened again and the session
 * resumed: what was missed comes, nothing comes twice, and what the server had not taken is said once more.
 */

import { VERSION } from "./frames.js";
import { Inbox } from "./inbox.js";
import { Link } from "./link.js";
import { Outbox } from "./outbox.js";
import { diagnose, kindOf } from "./refusal.js";

export const PATH = "/v1/duplex";

const ACK_EVERY = 16; // messages after which the client says at the latest what has arrived
const SILENT_BEATS = 3; // that may go unanswered before the connection is taken to be lost
const LOST = { kind: "lost", message: "The connection was lost." };

export class Duplex {
  state = "closed";
  /** In the queue: {position, etaS}; position 1 is the next, etaS may be null. */
  place = null;

  #origin;
  #handlers;
  #opening;
  #key = "";
  #link;
  #session = null; // {id, token, terms}: what there is to be resumed
  #inbox = new Inbox();
  #outbox = new Outbox();
  #progress = null; // the newest `played`
  #acked = 0;
  #lostMs = null;
  #beats = 0;
  #unanswered = 0;

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
    this.#origin = origin;
    this.#handlers = { onState() {}, onEvent() {}, onLost() {}, wanted: () => false, ...handlers };
    this.#opening = { type: "open", id: "open", version: VERSION, input_hz: inputHz, playback, resumable, settings };
    this.#link = new Link({
      opened: () => this.#greet(),
      received: (data) => this.#received(data),
      closed: (how) => this.#closed(how),
    });
    globalThis.addEventListener?.("online", () => this.state === "waiting" && this.#connect());
  }

  /** Whether it is connecting anew after a break. */
  get again() {
    return this.#link.again;
  }

  /** Bytes that the network has not taken yet. */
  get backlogBytes() {
    return this.#link.backlogBytes;
  }

  /** What was agreed with the server, or null where there is no session. */
  get terms() {
    return this.#session?.terms ?? null;
  }

  // The four verbs: each but `open` returns whether there is a session that it is for, connected or not ------------

  /** Connect, unless it is connected or about to be. @param {string} key API key, or "" */
  open(key = "") {
    this.#key = key;
    if (this.state !== "closed" && this.state !== "refused") return;
    this.#link.rest();
    this.#connect();
  }

  /** update: the microphone goes on. @param {Int16Array} samples at `inputHz`, at most 1 s */
  sendAudio(samples) {
    return this.#session !== null && this.#put(this.#outbox.audio(samples));
  }

  /** update: other settings, from the next turn on. */
  update(settings, id) {
    return this.#command({ type: "update", id, settings });
  }

  /** update: a message enters the conversation. */
  add(text, { role = "user", itemId = "", after = null, id } = {}) {
    return this.#command({ type: "update", id, item: { role, text, item_id: itemId }, after });
  }

  /** signal: something is to happen now. @param {{kind: string}} signal of the protocol */
  signal(signal, id) {
    return this.#command({ type: "signal", id, signal });
  }

  /** So many samples of an answer have been played, counted from its beginning. */
  played(itemId, samples) {
    this.#progress = { type: "played", item_id: itemId, samples };
    return this.#session !== null && this.#put(JSON.stringify(this.#progress));
  }

  /** Nothing of this epoch or an earlier one is to be heard any more, whatever still comes. */
  silence(epoch) {
    this.#inbox.silence(epoch);
  }

  /** close: the session is over, and the connection with it. */
  close() {
    this.#command({ type: "close" });
    this.#forget();
    this.#link.drop();
    this.#become("closed");
  }

  #command(message) {
    return this.#session !== null && this.#put(this.#outbox.command(message));
  }

  #put(data) {
    if (this.state === "ready") this.#link.send(data); // else it is said again on the next connection
    return true;
  }

  // Connections ------------------------------------------------------------------------------------------------------

  #connect() {
    this.#become("connecting");
    const url = new URL(PATH, this.#origin);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    // A browser cannot set headers on a WebSocket: the key travels as OpenAI's browser clients send it.
    const protocols = [`duplex.v${VERSION}`, ...(this.#key ? [`openai-insecure-api-key.${this.#key}`] : [])];
    try {
      this.#link.connect(url, protocols);
    } catch {
      this.#become("refused", { kind: "key", message: "The API key has characters that no key has." });
    }
  }

  #greet() {
    this.#become("starting");
    const { id, token } = this.#session ?? {};
    const resume = { type: "resume", version: VERSION, session_id: id, token, seen: this.#inbox.seen };
    this.#link.send(JSON.stringify(this.#session ? resume : this.#opening));
  }

  #received(data) {
    this.#unanswered = 0;
    let event;
    try {
      event = typeof data === "string" ? this.#inbox.message(JSON.parse(data)) : this.#inbox.frame(data);
    } catch {
      event = { type: "error", code: "unreadable", message: "The server sent something that cannot be read." };
    }
    if (event && this.state === "ready") this.#told(event);
    else if (event) this.#greeted(event);
    if (this.#inbox.seen - this.#acked >= ACK_EVERY) this.#acknowledge();
  }

  #told(event) {
    if (event.type === "heartbeat") return this.#outbox.confirm(event.taken);
    this.#handlers.onEvent(event);
    if (event.type === "closed") this.#ended(event);
  }

  #greeted(event) {
    if (event.type === "queued") {
      this.place = { position: event.position, etaS: event.eta_s };
      return this.#become("queued");
    }
    if (event.type === "opened") this.#begin(event);
    else if (event.type === "resumed") this.#resumed(event);
    else if (event.type === "closed" || event.type === "error") return this.#turnedAway(event);
    if (event.type === "opened" || event.type === "resumed") this.#handlers.onEvent(event);
  }

  #begin({ session_id, token, terms }) {
    this.#session = { id: session_id, token, terms };
    this.#ready();
  }

  #resumed({ token, taken, terms }) {
    this.#session = { ...this.#session, token, terms };
    this.#outbox.confirm(taken);
    this.#ready();
    for (const message of this.#outbox.unconfirmed) this.#link.send(message);
    if (this.#progress) this.#link.send(JSON.stringify(this.#progress));
  }

  #ready() {
    this.#lostMs = null;
    this.#link.ready();
    this.#become("ready");
    this.#acknowledge(); // shows that the token has arrived
    clearInterval(this.#beats);
    this.#unanswered = 0;
    this.#beats = setInterval(() => this.#beat(), 1000 * this.#session.terms.heartbeat_s);
  }

  #acknowledge() {
    this.#acked = this.#inbox.seen;
    this.#link.send(JSON.stringify({ type: "ack", sequence: this.#acked }));
  }

  #beat() {
    // Counted in beats, not in time: a page in the background has its timers held back.
    if (this.#unanswered++ >= SILENT_BEATS) return this.#broken(LOST);
    this.#acknowledge();
    this.#link.send(JSON.stringify({ type: "heartbeat", at: performance.now() / 1000 }));
  }

  // Ends -------------------------------------------------------------------------------------------------------------

  /** There was an answer instead of a session: no accident, so it is shown and not tried again. */
  #turnedAway({ code, reason, message }) {
    if (this.#session) return this.#lost(message);
    this.#link.drop();
    const why = { kind: reason === "queue_timeout" ? "full" : kindOf(`${code} ${message}`), message };
    if (why.kind === "loading") return this.#broken(why);
    this.#become("refused", why);
  }

  /** The session is gone though its client wanted to go on with it; another one takes its place if that is wanted. */
  #lost(message) {
    this.#forget();
    this.#handlers.onLost(message);
    this.#broken({ kind: "lost", message });
  }

  /** The server has said its last word. */
  #ended({ reason, message }) {
    this.#forget();
    this.#link.drop();
    if (reason === "replaced") return this.#become("refused", { kind: "replaced", message });
    this.#broken({ kind: "ended", message });
  }

  async #closed({ reason, opened }) {
    const was = this.state;
    if (this.#session || was === "ready") return this.#broken(LOST);
    if (opened) return reason ? this.#turnedAway({ message: reason }) : this.#broken(LOST);
    const why = await diagnose(this.#origin, PATH, this.#key);
    if (this.state !== was) return; // the user closed or reopened it meanwhile
    if (why.kind === "unreachable" || why.kind === "loading") return this.#broken(why);
    this.#become("refused", why);
  }

  /** There is no connection: another one, if there is something to resume or a session is wanted. */
  #broken(why) {
    clearInterval(this.#beats);
    const { token, terms } = this.#session ?? {};
    this.#lostMs ??= performance.now();
    const late = performance.now() - this.#lostMs > 1000 * (terms?.grace_s ?? 0);
    if (this.#session && (!token || late)) return this.#lost(why.message);
    this.#link.drop();
    if (!this.#session && !this.#handlers.wanted()) return this.#become("closed");
    const waitMs = this.#link.retry(() => this.#connect());
    this.#become("waiting", { ...why, waitMs });
  }

  #forget() {
    clearInterval(this.#beats);
    this.#session = null;
    this.#inbox = new Inbox();
    this.#outbox = new Outbox();
    this.#progress = null;
    this.#acked = 0;
    this.#lostMs = null;
  }

  #become(state, why) {
    this.state = state;
    this.#handlers.onState(state, why);
  }
}
