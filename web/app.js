/** The page: puts the conversation into its elements and the user's hands on its verbs. */

import { PHASES } from "./phase.js";
import { Talk } from "./talk.js";
import { Transcript } from "./transcript.js";
import { draw, fetchTurn, layout } from "./waterfall.js";

const FLOOR_DB = -60; // of the meters
const FALL_PER_FRAME = 0.9; // meters rise at once and fall gently
const BUTTON_WORDS = { start: "Start talking", stop: "Stop talking", retry: "Try again" };
const SPOKEN_FIGURES_MS = 1000; // between two changes of what the meters tell a screen reader

const at = (id) => document.getElementById(id);
const transcript = new Transcript(at("lines"));
const shown = { mine: 0, theirs: 0 };
let turn = null; // {responseId, data}: the newest that the server has told of
let heard = null; // the session's `lastHeard` that is drawn
let drawing = false;
let nextFiguresMs = 0;

const talk = new Talk(location.origin, { changed, answered });

/** What the big button does now. Who writes without a microphone keeps it for what it is: to start talking. */
function action() {
  const { button } = PHASES[talk.phase];
  const underWay = ["connecting", "starting", "queued", "reconnecting"].includes(talk.phase);
  return button === "stop" && !talk.talking && !underWay ? "start" : button;
}

function wordsOfAction() {
  return talk.phase === "queued" ? "Leave the queue" : BUTTON_WORDS[action()];
}

function toggle() {
  talk[action()]();
}

/** Draw once a frame, however many events it had. */
function changed() {
  if (drawing) return;
  drawing = true;
  queueMicrotask(() => {
    drawing = false;
    render();
  });
}

function render() {
  const phase = talk.phase;
  const { tone, title, hint } = PHASES[phase];
  const { session } = talk;
  document.body.dataset.phase = phase;
  document.body.dataset.tone = tone;
  write("title", title);
  write("hint", talk.why || hint);
  write("orb-words", wordsOfAction());
  at("orb").dataset.action = action();
  at("orb").setAttribute("aria-pressed", String(talk.talking));
  at("interrupt").hidden = !(session.playing || session.answering);
  write("notice", session.notice);
  at("notice").hidden = !session.notice;
  at("notice").dataset.tone = session.noticeTone;
  const { items } = session.conversation;
  transcript.draw(items);
  at("empty").hidden = items.length > 0;
  at("new").disabled = items.length === 0;
  drawTurn();
}

function write(id, text) {
  if (at(id).textContent !== text) at(id).textContent = text; // a live region speaks at each change
}

async function answered(responseId) {
  const data = await fetchTurn(responseId, talk.key);
  turn = { responseId, data };
  changed();
}

function drawTurn() {
  if (heard !== talk.session.lastHeard) {
    heard = talk.session.lastHeard;
    if (heard?.responseId !== turn?.responseId) turn = null; // a newer answer
    if (heard) answered(heard.responseId); // what led to its first sound is known; the rest follows at its end
  }
  const voiceMs = heard && (!turn || turn.responseId === heard.responseId) ? heard.voiceMs : null;
  at("turn").hidden = !turn?.data && voiceMs === null;
  at("voice").hidden = voiceMs === null;
  write("voice-ms", String(voiceMs ?? ""));
  const state = JSON.stringify([turn, voiceMs]);
  if (at("rows").dataset.drawn === state) return;
  at("rows").dataset.drawn = state;
  draw(at("rows"), layout(turn?.data ?? {}, voiceMs));
}

function animate(nowMs) {
  const figures = nowMs >= nextFiguresMs;
  if (figures) nextFiguresMs = nowMs + SPOKEN_FIGURES_MS;
  for (const side of ["mine", "theirs"]) {
    shown[side] = Math.max(loudness(talk.levels[side]), shown[side] * FALL_PER_FRAME);
    if (shown[side] < 0.001) shown[side] = 0;
    const value = shown[side].toFixed(3);
    const meter = at(side);
    if (meter.dataset.value !== value) {
      meter.dataset.value = value;
      document.body.style.setProperty(`--${side}`, value);
    }
    if (figures) meter.setAttribute("aria-valuenow", String(Math.round(100 * shown[side])));
  }
  requestAnimationFrame(animate);
}

/** Root mean square to the meters' scale: 0 at the floor, 1 at full loudness. */
function loudness(rms) {
  return Math.max(0, Math.min(1, 1 - (20 * Math.log10(rms || 1e-9)) / FLOOR_DB));
}

function takesKeys(target) {
  return target.closest("input, textarea, button, summary, a, dialog") !== null;
}

at("orb").addEventListener("click", toggle);
at("interrupt").addEventListener("click", () => talk.interrupt());
at("new").addEventListener("click", () => {
  turn = null;
  talk.end();
  at("orb").focus();
});
at("write").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = at("text").value.trim();
  if (!text) return;
  at("text").value = "";
  talk.write(text);
});
at("open-settings").addEventListener("click", () => {
  at("key").value = talk.key;
  at("settings").showModal();
});
at("settings").addEventListener("close", () => {
  talk.key = at("key").value.trim();
});
document.addEventListener("keydown", (event) => {
  if (at("settings").open || event.repeat) return;
  if (event.key === "Escape") talk.interrupt();
  if (event.key !== " " || takesKeys(event.target)) return;
  event.preventDefault();
  toggle();
});

addEventListener("pagehide", () => talk.leave()); // else the server would keep the place for who may come back

at("turn").open = matchMedia("(min-width: 52rem)").matches; // a phone needs its place for words
render();
requestAnimationFrame(animate);
