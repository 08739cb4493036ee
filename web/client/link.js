/**
 * The connections of a session, one after another: each that is lost is followed by another, which resumes it, until the
 * session is over for good. What is sent meanwhile waits.
 */

import { VERSION } from "./frames.js";
import { Inbox } from "./inbox.js";
import { Line } from "./line.js";
import { Outbox } from "./outbox.js";
import { diagnose, kindOf } from "./refusal.js";

const PATH = "/v1/duplex";
const ACK_EVERY = 16; // messages after which the client says at the latest what has arrived
const SILENT_BEATS = 3; // that may go unanswered before the connection is taken to be lost
const LOST = { kind: "lost", message: "The connection was lost." };

export class Link {
  state = "closed";
  /** In the queue: {position, etaS}; position 1 is the next, etaS may be null. */
  place = null;

  #origin;
  #handlers;
  #opening;
  #key = "";
  #line;
  #session = null; // {id, token, terms}: what there is to be resumed
  #inbox = new Inbox();
  #outbox = new Outbox();
  #progress = null; // the newest `played`
  #acked = 0;
  #lostMs = null;
  #beats = 0;
  #unanswered = 0;

  /**
   * @param {string} origin of the server
   * @param {object} handlers those of `Duplex`
   * @param {object} opening what `open` says
   */
  constructor(origin, handlers, opening) {
    this.#origin = origin;
    this.#handlers = handlers;
    this.#opening = { type: "open", id: "open", version: VERSION, ...opening };
    this.#line = new Line({
      opened: () => this.#greet(),
      received: (data) => this.#received(data),
      closed: (how) => this.#closed(how),
    });
    globalThis.addEventListener?.("online", () => this.state === "waiting" && this.#connect());
  }

  /** Whether it is connecting anew after a break. */
  get again() {
    return this.#line.again;
  }

  /** Bytes that the network has not taken yet. */
  get backlogBytes() {
    return this.#line.backlogBytes;
  }

  /** What was agreed with the server, or null where there is no session. */
  get terms() {
    return this.#session?.terms ?? null;
  }

  // What is said: each returns whether there is a session that it is for, connected or not ---------------------------

  command(message) {
    return this.#session !== null && this.#put(this.#outbox.command(message));
  }

  audio(samples) {
    return this.#session !== null && this.#put(this.#outbox.audio(samples));
  }

  played(itemId, samples) {
    this.#progress = { type: "played", item_id: itemId, samples };
    return this.#session !== null && this.#put(JSON.stringify(this.#progress));
  }

  silence(epoch) {
    this.#inbox.silence(epoch);
  }

  #put(data) {
    if (this.state === "ready") this.#line.send(data); // else it is said again on the next connection
    return true;
  }

  // Connections ------------------------------------------------------------------------------------------------------

  /** Connect, unless it is connected or about to be. */
  open(key) {
    this.#key = key;
    if (this.state !== "closed" && this.state !== "refused") return;
    this.#line.rest();
    this.#connect();
  }

  /** The session is over, and the connection with it. */
  close() {
    this.command({ type: "close" });
    this.#forget();
    this.#line.drop();
    this.#become("closed");
  }

  #connect() {
    this.#become("connecting");
    const url = new URL(PATH, this.#origin);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    // A browser cannot set headers on a WebSocket: the key travels as OpenAI's browser clients send it.
    const protocols = [`duplex.v${VERSION}`, ...(this.#key ? [`openai-insecure-api-key.${this.#key}`] : [])];
    try {
      this.#line.connect(url, protocols);
    } catch {
      this.#become("refused", { kind: "key", message: "The API key has characters that no key has." });
    }
  }

  #greet() {
    this.#become("starting");
    const { id, token } = this.#session ?? {};
    const resume = { type: "resume", version: VERSION, session_id: id, token, seen: this.#inbox.seen };
    this.#line.send(JSON.stringify(this.#session ? resume : this.#opening));
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
    for (const message of this.#outbox.unconfirmed) this.#line.send(message);
    if (this.#progress) this.#line.send(JSON.stringify(this.#progress));
  }

  #ready() {
    this.#lostMs = null;
    this.#line.ready();
    this.#become("ready");
    this.#acknowledge(); // shows that the token has arrived
    clearInterval(this.#beats);
    this.#unanswered = 0;
    this.#beats = setInterval(() => this.#beat(), 1000 * this.#session.terms.heartbeat_s);
  }

  #acknowledge() {
    this.#acked = this.#inbox.seen;
    this.#line.send(JSON.stringify({ type: "ack", sequence: this.#acked }));
  }

  #beat() {
    // Counted in beats, not in time: a page in the background has its timers held back.
    if (this.#unanswered++ >= SILENT_BEATS) return this.#broken(LOST);
    this.#acknowledge();
    this.#line.send(JSON.stringify({ type: "heartbeat", at: performance.now() / 1000 }));
  }

  // Ends -------------------------------------------------------------------------------------------------------------

  /** There was an answer instead of a session: no accident, so it is shown and not tried again. */
  #turnedAway({ code, reason, message }) {
    if (this.#session) return this.#lost(message);
    this.#line.drop();
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
    this.#line.drop();
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
    this.#line.drop();
    if (!this.#session && !this.#handlers.wanted()) return this.#become("closed");
    const waitMs = this.#line.retry(() => this.#connect());
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
