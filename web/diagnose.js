/** A browser is not told why a WebSocket handshake failed; plain HTTP requests are, so they are asked. */

/**
 * @param {string} origin of the server
 * @param {string} key API key, or ""
 * @returns {Promise<{kind: "unreachable" | "loading" | "key" | "full", message: string}>}
 */
export async function diagnose(origin, key) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  try {
    const models = await fetch(new URL("/v1/models", origin), { headers, cache: "no-store" });
    if (models.status === 401 || models.status === 403) {
      const message = key ? "The server does not know this API key." : "Enter its API key in the settings, then try again.";
      return { kind: "key", message };
    }
    const ready = await fetch(new URL("/readyz", origin), { headers, cache: "no-store" });
    if (ready.status === 503) return { kind: "loading", message: "The server is still loading its models." };
  } catch {
    return { kind: "unreachable", message: "The server does not answer." };
  }
  return { kind: "full", message: "The server runs but took no conversation: most likely all its places are taken." };
}
