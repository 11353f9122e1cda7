// Asking the server: every failure becomes an Error with the sentence that the server gave.

const API = "/api/v1";
const TRIES = 4;
export const WEAK = 0.05; // a match probability below which "nothing matches" is nearer to the truth

export function address(path, query = {}) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== "" && value != null) found.append(name, value);
  return `${API}${path}${found.size ? `?${found}` : ""}`;
}

export async function get(path, query, signal) {
  return ask(address(path, query), { signal });
}

export async function post(path, content, signal) {
  const form = content instanceof FormData;
  const headers = form ? {} : { "Content-Type": "application/json" };
  return ask(address(path), { method: "POST", headers, body: form ? content : JSON.stringify(content), signal });
}

async function ask(url, options) {
  for (let tried = 1; ; tried += 1) {
    let answer;
    try {
      answer = await fetch(url, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error("The server does not answer: is smlstm still running?");
    }
    const content = await answer.json().catch(() => null);
    if (answer.status === 503 && content?.error?.code !== "gone" && tried < TRIES) {
      await new Promise((done) => setTimeout(done, 1000 * (Number(answer.headers.get("Retry-After")) || 1)));
      continue;
    }
    if (answer.status === 401) location.reload();
    if (answer.ok) return content;
    throw new Error(content?.error?.message ?? `The server answered ${answer.status}.`);
  }
}

export function percent(share) {
  if (share == null) return "";
  if (share > 0 && share < 0.001) return "<0.1 %";
  if (share > 0.995 && share < 1) return ">99 %"; // no model is as sure as a plain 100 would say
  return `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");
}
