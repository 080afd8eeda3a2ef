// Asks the server. What was asked lately is remembered, so that going back is instant.

const REMEMBERED = 60;
const SECONDS = 5;
const answers = new Map();

export async function ask(path, parameters) {
  const address = `/api/${path}${queryString(parameters)}`;
  const known = answers.get(address);
  if (known && performance.now() - known.at < SECONDS * 1000) return known.answer;
  const answer = request(address);
  answers.set(address, { answer, at: performance.now() });
  answer.catch(() => answers.delete(address));
  if (answers.size > REMEMBERED) answers.delete(answers.keys().next().value);
  return answer;
}

/** Asks the server anew, for what changes by the second. */
export async function request(address) {
  const response = await fetch(address, { headers: { accept: "application/json" } });
  if (response.ok) return response.json();
  const body = await response.json().catch(() => ({}));
  const detail = typeof body.detail === "string" ? body.detail : (body.detail?.[0]?.msg ?? `the server answered ${response.status}`);
  throw new Error(detail);
}

// A query string of an object; a list gives its name several times, empty values are left out.
export function queryString(parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters ?? {})) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null && each !== "") query.append(name, each);
    }
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

export const part = (text) => encodeURIComponent(text);
