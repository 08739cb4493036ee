/** Microphone → frames of 20 ms at 24 kHz, int16, with the figures that the page needs about each. */

import { AUDIBLE_RMS, RATE_HZ, rms, toInt16 } from "./pcm.js";
import { Resampler } from "./resample.js";

const FRAME = RATE_HZ / 50;
const WINDOW = RATE_HZ / 100;

class Capture extends AudioWorkletProcessor {
  #resampler = new Resampler({ fromHz: sampleRate, toHz: RATE_HZ });
  #frame = new Float32Array(FRAME);
  #filled = 0;

  process([[channel]]) {
    if (!channel) return true; // the source is not connected yet
    for (const sample of this.#resampler.push(channel)) {
      this.#frame[this.#filled++] = sample;
      if (this.#filled === FRAME) this.#send();
    }
    return true;
  }

  #send() {
    this.#filled = 0;
    let loudAgoS = null;
    for (let end = FRAME; end > 0 && loudAgoS === null; end -= WINDOW) {
      if (rms(this.#frame.subarray(end - WINDOW, end)) >= AUDIBLE_RMS) loudAgoS = (FRAME - end) / RATE_HZ;
    }
    const pcm = toInt16(this.#frame);
    // Times are of the context's clock; loudS is where the last audible window of this frame ends.
    const loudS = loudAgoS === null ? null : currentTime - loudAgoS;
    this.port.postMessage({ pcm, rms: rms(this.#frame), atS: currentTime, loudS }, [pcm.buffer]);
  }
}

registerProcessor("duplex-capture", Capture);
