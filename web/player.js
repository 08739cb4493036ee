/** The page's loudspeaker: one AudioContext at 24 kHz with the play-out queue in it. */

import { RATE_HZ } from "./pcm.js";

const MODULE = new URL("./playback-worklet.js", import.meta.url);

export class Player {
  #context;
  #node;
  #flushes = new Map();
  #nextToken = 0;

  /** Called with (key, time in ms of `performance.now()`) when the first audible window of an item goes out. */
  onStarted = () => {};
  /** Called with (key, samples) about every 100 ms: how much of an item has gone out. */
  onPlayed = () => {};
  /** Called with (key) when the whole of an ended item has gone out, and `onPlayed` has been called for it. */
  onDrained = () => {};
  /** Called with the loudness of what goes out, 0 to 1, about 50 times a second; 0 once at its end. */
  onLevel = () => {};

  /**
   * Call it from a click or a key press: browsers let no page make sound before one.
   *
   * @returns {Promise<Player>}
   */
  static async open() {
    const context = new AudioContext({ sampleRate: RATE_HZ, latencyHint: "interactive" });
    await context.audioWorklet.addModule(MODULE);
    const player = new Player(context);
    await player.wake();
    return player;
  }

  /** @param {AudioContext} context whose module has been loaded */
  constructor(context) {
    this.#context = context;
    this.#node = new AudioWorkletNode(context, "duplex-playback", {
      numberOfInputs: 0,
      outputChannelCount: [1],
    });
    this.#node.port.onmessage = ({ data }) => this.#receive(data);
    this.#node.connect(context.destination);
  }

  get context() {
    return this.#context;
  }

  /** Milliseconds from leaving the queue to leaving the loudspeaker, as the browser tells. */
  get latencyMs() {
    return 1000 * ((this.#context.outputLatency || 0) + (this.#context.baseLatency || 0));
  }

  /** Resume after the system has suspended the audio. */
  async wake() {
    if (this.#context.state !== "running") await this.#context.resume();
  }

  /**
   * @param {string} key which item
   * @param {Float32Array} samples at 24 kHz; they are handed over
   */
  push(key, samples) {
    this.#node.port.postMessage({ push: key, samples }, [samples.buffer]);
  }

  /** No more of `key` will come. */
  end(key) {
    this.#node.port.postMessage({ end: key });
  }

  /**
   * Silence, within one quantum of the audio clock, whatever was pushed before this call.
   *
   * @returns {Promise<[string, number][]>} samples that had gone out of each item that had not drained
   */
  flush() {
    const token = this.#nextToken++;
    this.#node.port.postMessage({ flush: token });
    return new Promise((resolve) => this.#flushes.set(token, resolve));
  }

  #receive({ started, atS, drained, samples, level, flushed, played }) {
    if (level !== undefined) this.onLevel(level);
    if (started !== undefined) this.onStarted(started, pageTimeMs(this.#context, atS) + this.latencyMs);
    if (drained !== undefined) {
      this.onPlayed(drained, samples);
      this.onDrained(drained);
    }
    if (flushed !== undefined) {
      this.#flushes.get(flushed)(played);
      this.#flushes.delete(flushed);
    } else if (played !== undefined) {
      for (const [key, samples] of played) this.onPlayed(key, samples);
    }
  }
}

/** A time of `context`'s clock (s) on the clock of `performance.now()` (ms). */
export function pageTimeMs(context, atS) {
  return performance.now() - 1000 * (context.currentTime - atS);
}
