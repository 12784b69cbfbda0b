export type FieldError = { pointer: string; detail: string };

/** A response that is not a success: a problem document, or no response at all. */
export class Refused extends Error {
  constructor(
    /** 0 = no response */
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly errors: readonly FieldError[] = [],
    readonly retryAfterSeconds: number | null = null,
  ) {
    super(detail);
  }
}

const LIMIT_MS = 15_000;
/** The server requires this header on every change, because pages of other sites cannot send it. */
const OWN_PAGE = { 'X-Operator-Page': '1' };

/** Calls the API with the session cookie. @returns `data` @throws Refused */
export async function call<Data>(
  method: string,
  path: string,
  json?: unknown,
  more: { headers?: Record<string, string>; limitMs?: number } = {},
): Promise<Data> {
  return (await sendAnswer<{ data: Data }>(method, path, json, more)).data;
}

/** Does the same. @returns the whole body, with members beside `data` @throws Refused */
export async function sendAnswer<Body>(
  method: string,
  path: string,
  json?: unknown,
  more: { headers?: Record<string, string>; limitMs?: number } = {},
): Promise<Body> {
  const isJson = json !== undefined;
  const response = await answerOf(path, {
    method,
    headers: { ...OWN_PAGE, ...more.headers, ...(isJson ? { 'Content-Type': 'application/json' } : {}) },
    signal: AbortSignal.timeout(more.limitMs ?? LIMIT_MS),
    ...(isJson ? { body: JSON.stringify(json) } : {}),
  });
  return response.body as Body;
}

/** Requests a page of a list. @returns the page and the address of the next one @throws Refused */
export async function page<Data>(path: string): Promise<{ data: Data; next: string | null }> {
  const response = await answerOf(path, { signal: AbortSignal.timeout(LIMIT_MS) });
  const next = /<([^>]+)>;\s*rel="next"/.exec(response.headers.get('Link') ?? '')?.[1] ?? null;
  return { data: (response.body as { data: Data }).data, next };
}

/** Requests a response with members beside `data`. @throws Refused */
export async function answer<Body>(path: string): Promise<Body> {
  const response = await answerOf(path, { signal: AbortSignal.timeout(LIMIT_MS) });
  return response.body as Body;
}

/** Uploads a file unchanged, and reports the progress. @throws Refused */
export function upload<Data>(path: string, file: File, onProgress: (part: number) => void): Promise<Data> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', path);
    for (const [name, value] of Object.entries(OWN_PAGE)) request.setRequestHeader(name, value);
    request.setRequestHeader('Content-Type', 'text/csv');
    request.upload.addEventListener('progress', ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 0));
    request.addEventListener('error', () => reject(unreachable()));
    request.addEventListener('load', () => {
      const body = parsed(request.responseText);
      if (request.status < 300) resolve(body.data as Data);
      else reject(refusedBy(request.status, body, request.getResponseHeader('Retry-After')));
    });
    request.send(file);
  });
}

async function answerOf(path: string, init: RequestInit): Promise<{ headers: Headers; body: unknown }> {
  const { ok, status, headers, text } = await textOf(path, init);
  const body = parsed(text);
  if (ok) return { headers, body };
  throw refusedBy(status, body, headers.get('Retry-After'));
}

/** @throws Refused also when the connection ends, or the time limit passes, within the body */
async function textOf(path: string, init: RequestInit) {
  try {
    const response = await fetch(path, { ...init, credentials: 'same-origin', cache: 'no-store' });
    const { ok, status, headers } = response;
    return { ok, status, headers, text: await response.text() };
  } catch {
    throw unreachable();
  }
}

const UNAVAILABLE =
  'The service is not available at the moment. Check whether the change was made before you repeat it.';
const unreachable = () => new Refused(0, 'unreachable', 'The service does not respond.');

function parsed(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

function refusedBy(status: number, body: Record<string, unknown>, retryAfter: string | null): Refused {
  const given = typeof body.detail === 'string' ? body.detail : `The service responded with ${status}.`;
  // The detail of this error is written for programs, so the operator gets another text.
  const detail = body.code === 'temporarily_unavailable' ? UNAVAILABLE : given;
  const errors = Array.isArray(body.errors) ? (body.errors as FieldError[]) : [];
  return new Refused(status, String(body.code ?? 'unknown'), detail, errors, retryAfter ? Number(retryAfter) : null);
}
