/** One WebSocket after another: longer and longer pauses between attempts, and nothing of an old one reaches anybody. */

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;
const STEADY_MS = 5_000; // a connection that held this long starts the waits over

export class Line {
  #handlers;
  #socket = null;
  #attempt = 0;
  #readyMs = null;
  #timer = 0;

  /**
   * @param {{
   *   opened: () => void,
   *   received: (data: string | ArrayBuffer) => void,
   *   closed: (how: {code: number, reason: string, opened: boolean}) => void,
   * }} handlers `opened` of `closed`: whether the handshake had been answered
   */
  constructor(handlers) {
    this.#handlers = handlers;
  }

  /** Whether it is connecting anew after a break. */
  get again() {
    return this.#attempt > 0;
  }

  /** Bytes that the network has not taken yet. */
  get backlogBytes() {
    return this.#socket?.bufferedAmount ?? 0;
  }

  /**
   * @param {URL} url
   * @param {string[]} protocols
   * @throws {SyntaxError} a subprotocol has characters that none may have
   */
  connect(url, protocols) {
    this.drop();
    const socket = new WebSocket(url, protocols);
    this.#socket = socket;
    let opened = false;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      opened = true;
      this.#handlers.opened();
    };
    socket.onmessage = ({ data }) => this.#handlers.received(data);
    socket.onclose = ({ code, reason }) => {
      this.drop();
      this.#handlers.closed({ code, reason, opened });
    };
  }

  /** @returns {boolean} whether there is a connection that it went to */
  send(data) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return false; // closing, too, is gone
    this.#socket.send(data);
    return true;
  }

  /** What the connection was made for has come about. */
  ready() {
    this.#readyMs = performance.now();
  }

  /**
   * Call `connect` after a while: at once the first time after a connection that was ready.
   *
   * @returns {number} how long the wait is, in ms
   */
  retry(connect) {
    this.drop();
    const wasReady = this.#readyMs !== null;
    if (wasReady && performance.now() - this.#readyMs > STEADY_MS) this.#attempt = 0;
    this.#readyMs = null;
    const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#attempt);
    // Spread, so that a restarted server is not met by all at once.
    const waitMs = wasReady && !this.#attempt ? 0 : longest * (0.5 + Math.random() / 2);
    this.#attempt++;
    this.#timer = setTimeout(connect, waitMs);
    return waitMs;
  }

  /** The next attempt is the first. */
  rest() {
    this.#attempt = 0;
    this.#readyMs = null;
  }

  drop() {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    if (!socket) return;
    this.#socket = null;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }
}
