/** What the page says is going on: one phase, told from the facts. Pure. */

/**
 * tone: colours the orb · button: what it does now · title and hint: for the user; a hint may be replaced by the
 * server's own words.
 */
export const PHASES = {
  idle: { tone: "calm", button: "start", title: "Ready when you are", hint: "Press the button, or the space bar, and just talk." },
  asking: { tone: "wait", button: "stop", title: "May I listen?", hint: "Your browser is asking you to allow the microphone." },
  connecting: { tone: "wait", button: "stop", title: "Connecting…", hint: "Looking for the server." },
  starting: { tone: "wait", button: "stop", title: "Starting…", hint: "The server is getting your conversation ready." },
  queued: { tone: "wait", button: "stop", title: "All places are taken", hint: "You are in the queue." },
  listening: { tone: "listen", button: "stop", title: "Listening", hint: "Go on, say something." },
  hearing: { tone: "hear", button: "stop", title: "I hear you", hint: "Take your time." },
  thinking: { tone: "think", button: "stop", title: "Thinking…", hint: "The answer is on its way." },
  speaking: { tone: "speak", button: "stop", title: "Speaking", hint: "Just talk to interrupt, or press Esc." },
  reconnecting: { tone: "wait", button: "stop", title: "Reconnecting…", hint: "The connection was lost. Your conversation is kept." },
  full: { tone: "trouble", button: "retry", title: "No place is free", hint: "Please try again in a moment." },
  key: { tone: "trouble", button: "retry", title: "The server wants an API key", hint: "Enter it in the settings, then try again." },
  replaced: { tone: "trouble", button: "retry", title: "It goes on elsewhere", hint: "Another page has taken this conversation over." },
  refused: { tone: "trouble", button: "retry", title: "The server said no", hint: "It gave no reason." },
  denied: {
    tone: "trouble",
    button: "retry",
    title: "The microphone is blocked",
    hint: "Allow it for this page in the address bar of your browser, then try again. You can type meanwhile.",
  },
  missing: { tone: "trouble", button: "retry", title: "No microphone found", hint: "Plug one in, then try again. You can type meanwhile." },
  busy: {
    tone: "trouble",
    button: "retry",
    title: "The microphone does not answer",
    hint: "Another program may be using it. Close that, then try again. You can type meanwhile.",
  },
  lost: { tone: "trouble", button: "retry", title: "The microphone is gone", hint: "Plug it in again, then try again." },
  insecure: {
    tone: "trouble",
    button: "retry",
    title: "The microphone needs HTTPS or localhost",
    hint: "Browsers allow it only there. Open this page as http://localhost on the server itself, or put HTTPS before it. You can type meanwhile.",
  },
};

/**
 * What somebody who waits is told.
 *
 * @param {{position: number, etaS: number | null}} place
 */
export function wordsOfPlace({ position, etaS }) {
  const words = position === 1 ? "You are next in the queue." : `You are number ${position} in the queue.`;
  if (etaS === null || etaS === undefined) return words;
  return `${words} It may take ${etaS < 90 ? `${Math.ceil(etaS / 5) * 5} seconds` : `${Math.round(etaS / 60)} minutes`}.`;
}

/**
 * Why a session ends, to somebody who did not end it; "" for a reason that the server has to explain.
 *
 * @param {string} reason of the protocol's `ending` or `closed`
 * @param {number} inS seconds until then; 0: it has ended
 */
export function wordsOfEnding(reason, inS) {
  const soon = `in ${Math.round(inS)} seconds`;
  if (reason === "idle") {
    if (!inS) return "The conversation has paused, because nothing happened in it. Go on whenever you like.";
    return `Nothing has happened for a while: the conversation pauses ${soon}, unless you go on.`;
  }
  if (reason !== "expired") return "";
  if (!inS) return "The conversation had reached its longest time. What you say next begins another, which knows what was said.";
  return `This conversation has reached its longest time: it ends ${soon}, and another takes over.`;
}

/**
 * @param {object} facts
 * @param {"off" | "asking" | "on" | "denied" | "missing" | "busy" | "lost" | "insecure"} facts.mic
 * @param {string} facts.link a state of `Duplex`
 * @param {boolean} facts.again whether it is connecting anew after a break
 * @param {string} facts.refusal kind of the refusal, where there is one
 * @param {boolean} facts.hearing the user speaks
 * @param {boolean} facts.answering an answer is awaited or being made
 * @param {boolean} facts.playing an answer can be heard
 * @returns {keyof typeof PHASES}
 */
export function phaseOf({ mic, link, again, refusal, hearing, answering, playing }) {
  if (link === "refused") return refusal in PHASES ? refusal : "refused";
  if (mic === "asking") return "asking";
  if (link === "queued") return link;
  if (link === "waiting" || (again && (link === "connecting" || link === "starting"))) return "reconnecting";
  if (link === "connecting" || link === "starting") return link;
  if (link === "ready") {
    if (hearing) return "hearing";
    if (playing) return "speaking";
    if (answering) return "thinking";
    if (mic === "on") return "listening";
  }
  return mic in PHASES ? mic : "idle";
}
