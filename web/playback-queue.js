/** Chunks of several items waiting to be played, and how much of each has been. Pure: the worklet gives it a clock. */

export class PlaybackQueue {
  #chunks = [];
  #at = 0; // in the first chunk
  #played = new Map(); // key → samples, of what has not drained
  #ended = new Set();

  /** Samples waiting. */
  length = 0;

  /** Samples played of every item that has not drained: [[key, samples]]. */
  get played() {
    return [...this.#played];
  }

  /** Whether the last item waiting is complete: nothing more of it need be waited for. */
  get complete() {
    return this.#chunks.length > 0 && this.#ended.has(this.#chunks.at(-1).key);
  }

  /**
   * @param {string} key which item
   * @param {Float32Array} samples
   */
  push(key, samples) {
    if (!this.#played.has(key)) this.#played.set(key, 0);
    this.#chunks.push({ key, samples });
    this.length += samples.length;
  }

  /** No more of `key` will come. Returns how much of it was played in all if it has drained by now, else null. */
  end(key) {
    if (!this.#played.has(key)) return null;
    this.#ended.add(key);
    return this.#chunks.some((chunk) => chunk.key === key) ? null : this.#forget(key);
  }

  /**
   * Fill `out` as far as there is audio.
   *
   * @param {Float32Array} out
   * @returns {{
   *   filled: number, parts: {key: string, samples: Float32Array, offset: number}[], drained: [string, number][],
   * }} `drained`: keys, and the samples that were played of each in all
   */
  take(out) {
    const parts = [];
    const drained = [];
    let filled = 0;
    while (filled < out.length && this.#chunks.length) {
      const { key, samples } = this.#chunks[0];
      const part = samples.subarray(this.#at, this.#at + out.length - filled);
      out.set(part, filled);
      parts.push({ key, samples: part, offset: filled });
      filled += part.length;
      this.#at += part.length;
      this.#played.set(key, this.#played.get(key) + part.length);
      if (this.#at < samples.length) continue;
      this.#chunks.shift();
      this.#at = 0;
      const last = !this.#chunks.some((chunk) => chunk.key === key);
      if (last && this.#ended.has(key)) drained.push([key, this.#forget(key)]);
    }
    this.length -= filled;
    return { filled, parts, drained };
  }

  #forget(key) {
    const samples = this.#played.get(key);
    this.#ended.delete(key);
    this.#played.delete(key);
    return samples;
  }
}
