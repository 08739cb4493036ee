/** Where the time of a turn went, as bars on the axis of the user's silence. */

const BEFORE_MS = 400; // shown from before the end of speech: that is where recognition works ahead
const MOST_ROWS = 14;
const SAME_MS = 3; // marks closer than that are one row; one that says what a stage's bar says already is none

/**
 * Fetch what the server knows of a turn.
 *
 * @param {string} responseId
 * @param {string} key API key, or ""
 * @returns {Promise<object | null>} null: the server knows nothing of it
 */
export async function fetchTurn(responseId, key) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  try {
    const reply = await fetch(`/v1/turns/${encodeURIComponent(responseId)}`, { headers, cache: "no-store" });
    return reply.ok ? await reply.json() : null;
  } catch {
    return null;
  }
}

/**
 * Pure: rows to draw.
 *
 * @param {{stages?: object[], marks?: object[]}} turn as of `GET /v1/turns/{id}`; any of its times may be null
 * @param {number | null} voiceMs when the browser let the answer be heard
 * @returns {{fromMs: number, toMs: number, rows: {
 *   name: string, kind: "stage" | "mark" | "heard", startMs: number, firstMs: number | null, endMs: number,
 * }[]}} in order of their results
 */
export function layout({ stages = [], marks = [] }, voiceMs) {
  const rows = [];
  for (const { name, submitted_ms, first_input_ms, first_output_ms, finished_ms } of stages) {
    const startMs = first_input_ms ?? submitted_ms ?? first_output_ms;
    const endMs = finished_ms ?? first_output_ms ?? startMs;
    // What a stage said while the user was still speaking was not its last word: then its end counts.
    const firstMs = first_output_ms >= 0 ? (first_output_ms ?? null) : null;
    if (Number.isFinite(startMs)) rows.push({ name, kind: "stage", startMs, firstMs, endMs });
  }
  if (voiceMs !== null) {
    rows.push({ name: "heard here", kind: "heard", startMs: voiceMs, firstMs: voiceMs, endMs: voiceMs });
  }
  const resultOf = ({ firstMs, endMs }) => firstMs ?? endMs;
  for (const { name, ms } of marks) {
    if (!Number.isFinite(ms) || ms <= 0 || ms > (voiceMs ?? Infinity)) continue; // the axis begins, and ends, by itself
    const same = rows.find((row) => Math.abs(resultOf(row) - ms) <= SAME_MS);
    if (!same) rows.push({ name, kind: "mark", startMs: ms, firstMs: ms, endMs: ms });
    else if (same.kind === "mark") same.name += ` · ${name}`;
  }
  rows.sort((a, b) => resultOf(a) - resultOf(b));
  // The answer goes on for seconds; what is of interest ends when it begins.
  const latest = Math.max(100, ...rows.map(({ startMs, firstMs }) => firstMs ?? startMs));
  const earliest = Math.min(0, ...rows.map(({ startMs }) => startMs));
  return { fromMs: Math.max(-BEFORE_MS, earliest), toMs: latest * 1.15, rows: rows.slice(0, MOST_ROWS) };
}

/**
 * @param {HTMLElement} list whose children are replaced
 * @param {ReturnType<typeof layout>} drawing
 */
export function draw(list, { fromMs, toMs, rows }) {
  const percent = (ms) => `${(100 * (Math.min(toMs, Math.max(fromMs, ms)) - fromMs)) / (toMs - fromMs)}%`;
  const items = rows.map(({ name, kind, startMs, firstMs, endMs }) => {
    const row = element("li", `row ${kind}`);
    const track = element("span", "track");
    track.style.setProperty("--zero", percent(0));
    track.style.setProperty("--start", percent(startMs));
    track.style.setProperty("--first", percent(firstMs ?? endMs));
    track.style.setProperty("--end", percent(endMs));
    track.append(element("i", "bar"), ...(firstMs === null ? [] : [element("i", "tick")]));
    const label = element("span", "name", name.replaceAll("_", " "));
    label.title = label.textContent;
    row.append(label, track, element("span", "ms", figure(firstMs ?? endMs)));
    return row;
  });
  list.replaceChildren(...items);
}

function figure(ms) {
  return `${Math.round(ms)} ms`;
}

function element(tag, classes, text = "") {
  const made = document.createElement(tag);
  made.className = classes;
  made.textContent = text;
  return made;
}
