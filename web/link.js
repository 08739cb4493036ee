/**
 * The WebSocket to the server: opens it, tells why it could not, and opens it again after a break.
 *
 * States: closed → connecting → starting (open, no `session.created` yet) → ready; queued (open, but all places are
 * taken) before it; waiting (for the next attempt); refused (the server said no: only the user tries again).
 */

import { diagnose } from "./diagnose.js";
import { kindOf } from "./refusal.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;
const STEADY_MS = 5_000; // a connection that held this long starts the waits over
const TRY_AGAIN_LATER = 1013; // RFC 6455 registry of close codes
const POLICY_VIOLATION = 1008;

export class Link {
  #origin;
  #handlers;
  #socket = null;
  #key = "";
  #attempt = 0;
  #readyMs = 0;
  #timer = 0;

  state = "closed";
  /** In the queue: {position, etaS}; position 1 is the next, etaS may be null. */
  place = null;

  /** Whether it is connecting anew after a break. */
  get again() {
    return this.#attempt > 0;
  }

  /**
   * @param {string} origin of the server, for example `http://127.0.0.1:8000`
   * @param {{
   *   onState: (state: string, why?: {kind: string, message: string, waitMs?: number}) => void,
   *   onEvent: (event: object) => void,
   *   wanted: () => boolean,
   * }} handlers `wanted` tells, after a break, whether to connect again
   */
  constructor(origin, handlers) {
    this.#origin = origin;
    this.#handlers = handlers;
    addEventListener("online", () => this.state === "waiting" && this.#connect());
  }

  /** Bytes that the network has not taken yet. */
  get backlogBytes() {
    return this.#socket?.bufferedAmount ?? 0;
  }

  /** Connect, unless it is connected or about to be. @param {string} key API key, or "" */
  open(key) {
    this.#key = key;
    if (this.state !== "closed" && this.state !== "refused") return;
    this.#attempt = 0;
    this.#connect();
  }

  close() {
    this.#drop();
    this.#become("closed");
  }

  /**
   * @param {object} event
   * @returns {boolean} whether it could be sent
   */
  send(event) {
    if (this.state !== "ready" || this.#socket.readyState !== WebSocket.OPEN) return false; // closing, too, is gone
    this.#socket.send(JSON.stringify(event));
    return true;
  }

  #connect() {
    this.#drop();
    this.#become("connecting");
    const url = new URL("/v1/realtime?model=duplex", this.#origin);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    // A browser cannot set headers on a WebSocket: the key travels as OpenAI's browser clients send it.
    const protocols = this.#key ? ["realtime", `openai-insecure-api-key.${this.#key}`] : ["realtime"];
    let socket;
    try {
      socket = new WebSocket(url, protocols);
    } catch {
      return this.#become("refused", { kind: "key", message: "The API key has characters that no key has." });
    }
    this.#socket = socket;
    socket.onopen = () => this.#become("starting");
    socket.onmessage = ({ data }) => this.#receive(data);
    socket.onclose = (event) => this.#closed(event);
  }

  #receive(data) {
    let event;
    try {
      event = JSON.parse(data);
    } catch {
      event = { type: "error", error: { message: "The server sent something that is not JSON." } };
    }
    if (event.type === "session.created") {
      this.#readyMs = performance.now();
      this.#become("ready");
    } else if (event.type === "duplex.queue.updated") {
      this.place = { position: event.position, etaS: event.eta_s };
      return this.#become("queued");
    } else if (event.type === "error" && this.#unborn) {
      return this.#refuse(event.error ?? {});
    }
    this.#handlers.onEvent(event);
  }

  /** It is open, and there is no session yet. */
  get #unborn() {
    return this.state === "starting" || this.state === "queued";
  }

  /** What goes wrong before the session exists is an answer, not an accident: it is shown, and not tried again. */
  #refuse({ code, type, message }) {
    this.#drop();
    const why = { kind: kindOf(`${code} ${type} ${message}`), message: message || "" };
    if (why.kind === "loading") return this.#retry(why);
    this.#become("refused", why);
  }

  async #closed({ code, reason }) {
    const was = this.state;
    const socket = this.#socket;
    this.#drop();
    if ((was === "starting" || was === "queued") && (code === TRY_AGAIN_LATER || code === POLICY_VIOLATION || reason)) {
      return this.#refuse({ message: reason, code: code === TRY_AGAIN_LATER ? "full" : "" });
    }
    if (was !== "connecting") return this.#retry({ kind: "lost", message: "The connection was lost." });
    const why = await diagnose(this.#origin, this.#key);
    if (this.state !== was || this.#socket || !socket) return; // the user closed or reopened it meanwhile
    if (why.kind === "unreachable" || why.kind === "loading") return this.#retry(why);
    this.#become("refused", why);
  }

  #retry(why) {
    if (!this.#handlers.wanted()) return this.#become("closed");
    if (this.#readyMs && performance.now() - this.#readyMs > STEADY_MS) this.#attempt = 0;
    this.#readyMs = 0;
    const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#attempt++);
    const waitMs = longest * (0.5 + Math.random() / 2); // spread, so that a restarted server is not met by all at once
    this.#timer = setTimeout(() => this.#connect(), waitMs);
    this.#become("waiting", { ...why, waitMs });
  }

  #drop() {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    if (!socket) return;
    this.#socket = null;
    socket.onopen = socket.onmessage = socket.onclose = null; // nothing of an old connection reaches the new one
    socket.close();
  }

  #become(state, why) {
    this.state = state;
    this.#handlers.onState(state, why);
  }
}
