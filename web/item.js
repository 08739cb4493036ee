/** Items: the wire's words of one, and the page's. Pure. */

/** All words of an item of the wire. */
export function textOf({ parts = [] }) {
  return parts.map(({ text }) => text ?? "").join(" ");
}

/** As much of an item of the page as was heard. @param {import("./conversation.js").Item} item */
export function heardText({ text, heardChars }) {
  return text.slice(0, heardChars ?? undefined);
}

export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(10));
  return `item_${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
