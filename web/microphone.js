/** The microphone as a stream of 20 ms frames. */

import { pageTimeMs } from "./player.js";

const MODULE = new URL("./capture-worklet.js", import.meta.url);
const WANTED = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 };

/** What can be in the way, by the name of the browser's exception (W3C Media Capture, getUserMedia). */
const OBSTACLES = {
  NotAllowedError: "denied",
  SecurityError: "denied",
  NotFoundError: "missing",
  OverconstrainedError: "missing",
  NotReadableError: "busy",
  AbortError: "busy",
};

/** `obstacle`: insecure, denied, missing or busy. */
export class MicrophoneError extends Error {
  constructor(obstacle, cause) {
    super(`The microphone cannot be used: ${obstacle}.`, { cause });
    this.obstacle = obstacle;
  }
}

/** Whether this page may ask for a microphone at all: browsers allow it over HTTPS and on localhost only. */
export function microphoneAllowed() {
  return isSecureContext && Boolean(navigator.mediaDevices?.getUserMedia);
}

export class Microphone {
  #stream;
  #nodes;
  #ownContext;

  /** When the last audible window so far was captured (ms of `performance.now()`), or null. */
  lastLoudMs = null;

  /**
   * @param {AudioContext} context the player's; another one is opened where the browser will not resample for it
   * @param {{onFrame: (frame: {pcm: Int16Array, rms: number}) => void, onLost: () => void}} handlers
   * @returns {Promise<Microphone>}
   * @throws {MicrophoneError}
   */
  static async open(context, handlers) {
    if (!microphoneAllowed()) throw new MicrophoneError("insecure");
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: WANTED });
    } catch (error) {
      throw new MicrophoneError(OBSTACLES[error.name] ?? "busy", error);
    }
    const microphone = new Microphone(stream);
    await microphone.#listen(context, handlers);
    return microphone;
  }

  constructor(stream) {
    this.#stream = stream;
  }

  close() {
    for (const track of this.#stream.getTracks()) track.stop();
    for (const node of this.#nodes ?? []) node.disconnect();
    this.#ownContext?.close();
  }

  async #listen(context, { onFrame, onLost }) {
    let source;
    try {
      source = context.createMediaStreamSource(this.#stream);
    } catch (error) {
      if (error.name !== "NotSupportedError") throw error; // Firefox: the context's rate must be the device's
      context = this.#ownContext = new AudioContext();
      source = context.createMediaStreamSource(this.#stream);
    }
    await context.audioWorklet.addModule(MODULE);
    const capture = new AudioWorkletNode(context, "duplex-capture", {
      channelCount: 1,
      channelCountMode: "explicit",
    });
    capture.port.onmessage = ({ data: { pcm, rms, loudS } }) => {
      if (loudS !== null) this.lastLoudMs = pageTimeMs(context, loudS);
      onFrame({ pcm, rms });
    };
    this.#stream.getAudioTracks()[0].addEventListener("ended", onLost);
    source.connect(capture).connect(context.destination); // silent; some browsers run only what leads somewhere
    this.#nodes = [source, capture];
  }
}
