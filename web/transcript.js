/** Draws the conversation as lines of a list; what has not changed is left alone, so that it is not read out again. */

export class Transcript {
  #list;
  #lines = new Map(); // id → {line, drawn}

  /** @param {HTMLElement} list */
  constructor(list) {
    this.#list = list;
  }

  /** @param {import("./conversation.js").Item[]} items */
  draw(items) {
    const shown = items.filter((item) => item.text.trim() || !item.done);
    const atEnd = this.#list.scrollHeight - this.#list.scrollTop - this.#list.clientHeight < 60;
    const ids = new Set(shown.map(({ id }) => id));
    for (const [id, { line }] of this.#lines) {
      if (ids.has(id)) continue;
      line.remove();
      this.#lines.delete(id);
    }
    let changed = false;
    shown.forEach((item, i) => {
      const line = this.#line(item);
      if (this.#list.children[i] !== line) this.#list.insertBefore(line, this.#list.children[i] ?? null);
      changed = this.#fill(item) || changed;
    });
    if (changed && atEnd) this.#list.scrollTop = this.#list.scrollHeight;
  }

  #line({ id, role }) {
    if (!this.#lines.has(id)) {
      const line = document.createElement("li");
      line.className = `line ${role}`;
      line.dataset.item = id;
      this.#lines.set(id, { line, drawn: "" });
    }
    return this.#lines.get(id).line;
  }

  /** Returns whether anything was new. */
  #fill({ id, role, text, done, heardChars, voiceMs }) {
    const state = JSON.stringify([text, done, heardChars, voiceMs]);
    const entry = this.#lines.get(id);
    if (entry.drawn === state) return false;
    entry.drawn = state;
    const heard = text.slice(0, heardChars ?? undefined);
    const unheard = heardChars === null ? "" : text.slice(heardChars);
    const bubble = part("p", "bubble", heard);
    if (unheard.trim()) bubble.append(part("s", "unheard", unheard));
    if (!text) bubble.append(part("span", "dots", "…"));
    const notes = [];
    if (voiceMs !== null) notes.push(`${voiceMs} ms`);
    if (heardChars !== null) notes.push("interrupted");
    entry.line.setAttribute("aria-busy", String(!done)); // read out when it is complete
    entry.line.classList.toggle("interrupted", heardChars !== null);
    entry.line.replaceChildren(
      part("span", "who", role === "user" ? "You" : "duplex"),
      bubble,
      ...(notes.length ? [part("span", "note", notes.join(" · "))] : []),
    );
    return true;
  }
}

function part(tag, classes, text) {
  const made = document.createElement(tag);
  made.className = classes;
  made.textContent = text;
  return made;
}
