/** What kind of refusal a server's words are. */

/** @param {string} words code, type and message of an error, in one @returns {"loading" | "full" | "key" | "other"} */
export function kindOf(words) {
  if (/not_ready|still starting|still loading/i.test(words)) return "loading";
  if (/full|capacity|busy|too many|queue|session_limit|overload|rate_limit/i.test(words)) return "full";
  return /api.?key|unauthori[sz]ed|credential/i.test(words) ? "key" : "other";
}
