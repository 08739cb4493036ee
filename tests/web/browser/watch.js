/** Put into the page before its own scripts: watches what it plays, receives and sends, and changes nothing of it. */
const watch = (globalThis.watch = { audio: [], events: [], sent: [], phases: [], context: null, violations: [] });

document.addEventListener("securitypolicyviolation", (event) => watch.violations.push(event.violatedDirective));

if (globalThis.AudioWorklet) {
  const { addModule } = AudioWorklet.prototype;
  AudioWorklet.prototype.addModule = async function (...args) {
    await addModule.apply(this, args);
    await addModule.call(this, "/_stub/recorder.js");
  };
  const { connect } = AudioNode.prototype;
  AudioNode.prototype.connect = function (target, ...rest) {
    if (target instanceof AudioDestinationNode) {
      if (!watch.recorder) {
        watch.context = this.context;
        watch.recorder = new AudioWorkletNode(this.context, "test-recorder");
        watch.recorder.port.onmessage = ({ data }) => watch.audio.push(data);
        connect.call(watch.recorder, target); // it is silent itself
      }
      connect.call(this, watch.recorder);
    }
    return connect.call(this, target, ...rest);
  };
}

const frameNow = () => (watch.context ? watch.context.currentTime * watch.context.sampleRate : 0);
globalThis.WebSocket = class extends WebSocket {
  constructor(...args) {
    super(...args);
    this.addEventListener("message", ({ data }) => watch.events.push({ type: typeOf(data), frame: frameNow() }));
  }
  send(data) {
    if (typeof data === "string") watch.sent.push({ frame: frameNow(), event: JSON.parse(data) });
    super.send(data);
  }
};
const typeOf = (data) => (typeof data === "string" ? JSON.parse(data).type : "frame");

addEventListener("DOMContentLoaded", () => {
  const note = () => watch.phases.at(-1) !== document.body.dataset.phase && watch.phases.push(document.body.dataset.phase);
  if (document.body) new MutationObserver(note).observe(document.body, { attributeFilter: ["data-phase"] });
});

/** All that was played, gapless from the first frame recorded: {first, samples}. */
watch.recording = () => {
  const first = watch.audio[0]?.[0] ?? 0;
  const samples = new Float32Array(watch.audio.length ? watch.audio.at(-1)[0] + 128 - first : 0);
  for (const [frame, block] of watch.audio) samples.set(block, frame - first);
  return { first, samples };
};

/** Loudest sample from `from` to `to` (frames of the audio clock). */
watch.peak = (from, to = Infinity) => {
  const { first, samples } = watch.recording();
  let peak = 0;
  for (let i = Math.max(0, Math.ceil(from) - first); i < Math.min(samples.length, to - first); i++) {
    peak = Math.max(peak, Math.abs(samples[i]));
  }
  return peak;
};
