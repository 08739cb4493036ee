/** Whether an answer is awaited. Not for ever: what the server took for noise gets none. */

const LONGEST_MS = 15_000;

export class Awaiting {
  #changed;
  #timer = 0;
  #on = false;

  /** @param {() => void} changed it has been awaited for too long */
  constructor(changed) {
    this.#changed = changed;
  }

  get on() {
    return this.#on;
  }

  /** From now on it is, or is not. */
  set on(on) {
    this.#on = on;
    clearTimeout(this.#timer);
    if (!on) return;
    this.#timer = setTimeout(() => {
      this.#on = false;
      this.#changed();
    }, LONGEST_MS);
  }
}
