/** Joins the microphone, the server, the loudspeaker and the session. It knows no page: a view is told to look again. */

import { Duplex } from "./client/duplex.js";
import { Microphone, MicrophoneError, microphoneAllowed } from "./microphone.js";
import { phaseOf, wordsOfPlace } from "./phase.js";
import { Player } from "./player.js";
import { Session } from "./session.js";

const MOST_BACKLOG_BYTES = 96_000; // two seconds of audio; beyond it new frames are dropped

export class Talk {
  /** API key, or "": kept in memory only. */
  key = "";
  /** Loudness of both sides, 0 to 1. */
  levels = { mine: 0, theirs: 0 };

  #changed;
  #duplex;
  #player = null;
  #microphone = null;
  #mic = "off";
  #attempt = 0;
  #why = { kind: "", message: "" };
  #inWriting = false; // what was refused had not asked for the microphone

  /**
   * @param {string} origin of the server
   * @param {{changed: () => void, answered: (responseId: string) => void}} view
   */
  constructor(origin, { changed, answered }) {
    this.#changed = changed;
    this.#duplex = new Duplex(origin, {
      onState: (state, why) => this.#linked(state, why),
      onEvent: (event) => this.session.handle(event),
      onLost: () => this.session.lost(),
      wanted: () => this.#mic === "on" || this.session.answerWanted,
    });
    const lastLoudMs = () => this.#microphone?.lastLoudMs ?? null;
    this.session = new Session(this.#duplex, { lastLoudMs, changed, answered });
  }

  get phase() {
    const { hearing, answering, playing } = this.session;
    const { state: link, again } = this.#duplex;
    return phaseOf({ mic: this.#mic, link, again, refusal: this.#why.kind, hearing, answering, playing });
  }

  /** The server's own words about a phase of trouble, or how long it will be until there is a place, or "". */
  get why() {
    if (this.#duplex.state === "queued") return wordsOfPlace(this.#duplex.place);
    return ["waiting", "refused"].includes(this.#duplex.state) ? this.#why.message : "";
  }

  /** Whether the microphone is on or being asked for. */
  get talking() {
    return this.#mic === "on" || this.#mic === "asking";
  }

  /** Microphone on, and connect. Call it from a click or a key press. */
  async start() {
    if (this.talking) return;
    const attempt = ++this.#attempt;
    this.#inWriting = false;
    this.session.notice = "";
    this.#mic = "asking";
    this.#changed();
    try {
      if (!microphoneAllowed()) throw new MicrophoneError("insecure");
      await this.#openPlayer();
      const microphone = await Microphone.open(this.#player.context, {
        onFrame: (frame) => this.#frame(frame),
        onLost: () => this.#closeMicrophone("lost"),
      });
      if (attempt !== this.#attempt) return microphone.close(); // stopped while the browser was asking
      this.#microphone = microphone;
      this.#mic = "on";
      this.#duplex.open(this.key);
    } catch (error) {
      if (!(error instanceof MicrophoneError)) throw error;
      if (attempt === this.#attempt) this.#mic = error.obstacle;
    }
    this.#changed();
  }

  /** Microphone off. What was being said is answered; what was being answered is not. The session stays open. */
  async stop() {
    if (!this.#duplex.terms) this.hangUp();
    else if (this.session.hearing) this.session.commit();
    else await this.interrupt();
    this.#closeMicrophone("off");
  }

  /** Silence the answer; the session goes on. */
  interrupt() {
    return this.session.hush();
  }

  /** Say something in writing. Call it from a click or a key press. */
  async write(text) {
    this.session.notice = "";
    await this.#openPlayer();
    await this.session.write(text);
    this.#duplex.open(this.key);
    this.#changed();
  }

  /** Try what was refused once more. */
  retry() {
    if (!this.#inWriting) return this.start();
    this.session.ask();
    this.#duplex.open(this.key);
  }

  /** Forget everything and hang up. */
  end() {
    this.session.clear();
    this.leave();
  }

  /** The page goes away. */
  leave() {
    this.#closeMicrophone("off");
    this.hangUp();
  }

  hangUp() {
    this.#duplex.close();
    this.session.answerWanted = false;
  }

  async #openPlayer() {
    if (!isSecureContext) return; // over plain HTTP browsers have no audio worklets: answers come in writing
    if (this.#player) return this.#player.wake();
    this.#player = await Player.open();
    this.#player.onLevel = (level) => (this.levels.theirs = level);
    this.session.attach(this.#player);
  }

  #closeMicrophone(mic) {
    this.#attempt++;
    this.#microphone?.close();
    this.#microphone = null;
    this.#mic = mic;
    this.levels.mine = 0;
    this.#changed();
  }

  #frame({ pcm, rms }) {
    if (!this.#microphone) return; // it was under way when the microphone closed
    this.levels.mine = rms;
    if (this.#duplex.backlogBytes < MOST_BACKLOG_BYTES) this.#duplex.sendAudio(pcm);
    else this.session.notice = "The connection is too slow: part of what you said was lost.";
  }

  #linked(state, why) {
    if (why) this.#why = why;
    if (["refused", "closed"].includes(state)) this.session.lost();
    if (state === "refused") {
      this.session.answerWanted = false;
      this.#inWriting = !this.talking;
      if (this.talking) this.#closeMicrophone("off");
    }
    this.#changed();
  }
}
