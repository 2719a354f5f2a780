// The HTTP API as the page has it: JSON in and out, a problem as an error, and the session's token with each request.

const BASE = "/api/v1";
/** Milliseconds for an answer. */
const ANSWER = 60000;

/** What a broker refused: its words, its code (RFC 9457), and the status of HTTP; 0 where no answer came. */
export class Problem extends Error {
  constructor(text, code, status) {
    super(text);
    this.code = code;
    this.status = status;
  }
}

/** Who has signed in, as GET /session says it. */
export const session = { users: false, user: null, csrf: "", broker: [], version: "" };

let signedOut = () => {};

/** Have a function told when the broker wants to know who asks. */
export function whenSignedOut(told) {
  signedOut = told;
}

/** The path of something with names in it: `path("queues", name, "purge")`. */
export function path(...parts) {
  // A browser takes them for steps, also where they are written with percent signs, and would ask for something else.
  const step = parts.find((each) => each === "." || each === "..");
  if (step) throw new Problem(`a browser cannot ask for what is named ${step}: use the command line`, "invalid-name", 0);
  return `${BASE}/${parts.map(encodeURIComponent).join("/")}`;
}

/** The headers of every request. */
export const headers = (more = {}) => ({ "Penstock-CSRF": session.csrf || "-", ...more });

/** What an answer that is an error says. */
export async function problemOf(answer) {
  const told = await answer.json().catch(() => ({}));
  if (answer.status === 401 && session.users && session.user) {
    session.user = null;
    signedOut();
  }
  return new Problem(told.detail ?? `the broker answered with status ${answer.status}`, told.code ?? "", answer.status);
}

/** Ask; the JSON of the answer. */
export async function ask(method, where, body, query) {
  const search = query ? `?${new URLSearchParams(query)}` : "";
  const options = { method, headers: headers(), cache: "no-store", signal: AbortSignal.timeout(ANSWER) };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(where + search, options);
  } catch {
    throw new Problem("the broker does not answer", "unreachable", 0);
  }
  if (!answer.ok) throw await problemOf(answer);
  if (answer.status === 204) return null;
  return answer.json().catch(() => {
    throw new Problem("the answer of the broker broke off", "unreachable", 0);
  });
}

function take(told) {
  Object.assign(session, { user: null, csrf: "", broker: [], version: "" }, told);
  return session;
}

/** Who is signed in. */
export const whoAmI = async () => take(await ask("GET", path("session")));

/** Sign in: `{user, password}` or `{token}`. */
export const signIn = async (proof) => take(await ask("POST", path("session"), proof));

/** Sign out. */
export const signOut = async () => take(await ask("DELETE", path("session")));

let described = null;

/** The settings of a queue, as the description of the API has them: name to {type, description}. */
export async function settings() {
  // The promise is kept, so that two who want it at a time ask once; after a failure the next one asks again.
  described ??= ask("GET", path("openapi.json")).catch((problem) => {
    described = null;
    throw problem;
  });
  const { name, ...others } =
    (await described).paths[`${BASE}/queues`].post.requestBody.content["application/json"].schema.properties;
  // What need not be there may be null, which is no kind of its own.
  const kind = ({ type }) => (Array.isArray(type) ? type.find((each) => each !== "null") : type);
  return Object.fromEntries(Object.entries(others).map(([name, each]) => [name, { ...each, type: kind(each) }]));
}
