/** Keeps all that leaves for the loudspeaker, with its place on the audio clock. */
class Recorder extends AudioWorkletProcessor {
  process([[channel]]) {
    this.port.postMessage([currentFrame, channel ? channel.slice() : new Float32Array(128)]);
    return true;
  }
}
registerProcessor("test-recorder", Recorder);
