/** Why a server takes no session, in its own words where it has any. */

/** @param {string} words code and message of an error, in one @returns {"loading" | "full" | "key" | "other"} */
export function kindOf(words) {
  if (/not_ready|still starting|still loading/i.test(words)) return "loading";
  if (/full|capacity|busy|too many|queue|session_limit|overload|rate_limit/i.test(words)) return "full";
  return /api.?key|unauthori[sz]ed|credential/i.test(words) ? "key" : "other";
}

/**
 * A browser is not told why a WebSocket handshake failed; plain HTTP requests are, so they are asked.
 *
 * @param {string} origin of the server
 * @param {string} path of its WebSocket
 * @param {string} key API key, or ""
 * @returns {Promise<{kind: "unreachable" | "loading" | "key" | "full" | "other", message: string}>}
 */
export async function diagnose(origin, path, key) {
  const ask = (path) => {
    const headers = key ? { Authorization: `Bearer ${key}` } : {};
    return fetch(new URL(path, origin), { headers, cache: "no-store" });
  };
  try {
    // Asked without an upgrade, a server can say in words what it only counts as a failure in a handshake.
    const session = await ask(path);
    if (session.status === 401) {
      const message = key ? "The server does not know this API key." : "Enter its API key in the settings, then try again.";
      return { kind: "key", message };
    }
    const { message = "", code = "", type = "" } = (await bodyOf(session)).error ?? {};
    if (session.status !== 426 && message) return { kind: kindOf(`${code} ${type} ${message}`), message };
    if (!(await ask("/readyz")).ok) return { kind: "loading", message: "The server is still loading its models." };
    const { sessions = 1 } = await bodyOf(await ask("/healthz"));
    return sessions > 0 ? TAKEN : UNWILLING;
  } catch {
    return { kind: "unreachable", message: "The server does not answer." };
  }
}

const TAKEN = { kind: "full", message: "The server runs but took no conversation: most likely all its places are taken." };
const UNWILLING = {
  kind: "other",
  message: "It takes no conversations from a page at this address. Open it as http://localhost, or allow this origin in the server's settings.",
};

async function bodyOf(reply) {
  try {
    return await reply.json();
  } catch {
    return {};
  }
}
