/**
 * Play-out: chunks go out sample after sample on the context's clock, so no border between them can gap.
 *
 * In: {push: key, samples} · {end: key} (no more of it will come) · {flush: token}.
 * Out: {started: key, atS} (the first audible window) · {level} · {played: [[key, n]]}, now and then ·
 * {drained: key, samples} · {flushed: token, played: [[key, n]]}.
 *
 * Played is what has left for the loudspeaker: nobody can take that back, so it is heard.
 */

import { PlaybackQueue } from "./playback-queue.js";
import { AUDIBLE_RMS, RATE_HZ, rms } from "./pcm.js";

const MOST_QUEUED = 300 * RATE_HZ; // beyond it new audio is not taken: a server that far ahead is broken
const REFILL = 0.06 * RATE_HZ; // after running dry inside an item this much is gathered first: one gap, not a stutter
const REPORT_EVERY = 19; // quanta: about 100 ms
const LEVEL_EVERY = 4; // quanta of 128 samples: about 21 ms

class Playback extends AudioWorkletProcessor {
  #queue = new PlaybackQueue();
  #fading = null; // {queue, token}: what a flush has condemned, until the next quantum
  #audible = null; // the item that was heard last
  #dry = false;
  #quanta = 0;
  #peak = 0;
  #sinceReport = 0;

  constructor() {
    super();
    this.port.onmessage = ({ data }) => this.#receive(data);
  }

  process(_, [[out]]) {
    if (this.#fading) this.#fade(out);
    else if (this.#queue.length && !this.#refilling()) this.#play(out);
    return true;
  }

  #receive({ push, samples, end, flush }) {
    if (push !== undefined && this.#queue.length < MOST_QUEUED) this.#queue.push(push, samples);
    else if (end !== undefined) this.#drained(end, this.#queue.end(end));
    else if (flush !== undefined) this.#condemn(flush);
  }

  /** From this moment only what is pushed later will be played, but for the fade. */
  #condemn(token) {
    const queue = this.#queue;
    this.#queue = new PlaybackQueue();
    this.#dry = false;
    if (this.#fading || !queue.length) this.port.postMessage({ flushed: token, played: queue.played });
    else this.#fading = { queue, token };
  }

  /** One quantum (5 ms) fades the old answer out, since a waveform cut dead clicks. */
  #fade(out) {
    const { queue, token } = this.#fading;
    this.#fading = null;
    const { filled } = queue.take(out);
    for (let i = 0; i < filled; i++) out[i] *= 1 - (i + 1) / filled;
    this.port.postMessage({ flushed: token, played: queue.played });
    this.port.postMessage({ level: 0 });
  }

  #refilling() {
    this.#dry &&= this.#queue.length < REFILL && !this.#queue.complete;
    return this.#dry;
  }

  #play(out) {
    const { parts, drained } = this.#queue.take(out);
    for (const { key, samples, offset } of parts) this.#hear(key, samples, offset);
    for (const [key, samples] of drained) this.#drained(key, samples);
    this.#dry = !this.#queue.length && this.#queue.played.length > 0;
    if (++this.#sinceReport >= REPORT_EVERY || this.#dry) this.#report();
    this.#tellLevel(out);
  }

  #report() {
    this.#sinceReport = 0;
    this.port.postMessage({ played: this.#queue.played });
  }

  #drained(key, samples) {
    if (samples !== null) this.port.postMessage({ drained: key, samples });
  }

  #hear(key, samples, offset) {
    if (key === this.#audible || rms(samples) < AUDIBLE_RMS) return;
    this.#audible = key;
    this.port.postMessage({ started: key, atS: currentTime + offset / sampleRate });
  }

  #tellLevel(out) {
    this.#peak = Math.max(this.#peak, rms(out));
    if (++this.#quanta % LEVEL_EVERY && this.#queue.length) return;
    this.port.postMessage({ level: this.#queue.length ? this.#peak : 0 });
    this.#peak = 0;
  }
}

registerProcessor("duplex-playback", Playback);
