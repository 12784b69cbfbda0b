import type { Fields } from './answers.js';
import { CODES } from './codes.js';
import type { Retry } from './types.js';

/**
 * A refusal by the service. `code` is that of the problem document; `unreachable` = the service did not respond. The
 * response of a proxy or another service in its place says nothing about the call, so it counts as none, as does a
 * redirect.
 */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  constructor(
    readonly code: string,
    /** 0 = the service did not respond. */
    readonly status: number,
    /** At most a minute, also if the response asks for more. */
    readonly retryAfterMs: number | null,
    /** The problem document. */
    readonly problem: Record<string, unknown>,
  ) {
    super(`${code}: ${problem.detail ?? 'no response'}`);
  }

  /** Whether the same call may succeed later: the service did not respond, or could not decide. */
  get passes(): boolean {
    return [0, 408, 429].includes(this.status) || this.status >= 500;
  }

  /** Whether there is nothing to follow: the service knows neither a unit nor a place. */
  get isFinal(): boolean {
    return ([404, 409, 410].includes(this.status) && this.code !== 'not_found') || this.code === 'ticket_invalid';
  }
}

export type Answer = { status: number; headers: Headers; data: Fields };
export type Call = {
  method: string;
  path: string;
  headers?: Record<string, string>;
  body?: unknown;
  /** Whether nothing but `headers` may prove who calls. */
  anonymous?: boolean;
  /** Of `fetch`; none = the cache of the browser may respond. */
  cache?: 'no-cache';
  /** Whether the data of a response are those of this call. If not, another server has sent them. */
  fits: (data: Fields) => boolean;
};

const FIRST_BACKOFF_MS = 400;
const MAX_BACKOFF_MS = 10_000;
const PROBE_MS = 3_000;
const MAX_RETRY_AFTER_MS = 60_000;
const ERRORS = 'https://doorbuster.dev/errors/';

/**
 * Reads `Retry-After`: seconds, or a date by the clock of the server.
 * @returns null if it is missing, in the past or neither of them
 */
function retryAfterMs(headers: Headers): number | null {
  const after = headers.get('Retry-After') ?? '';
  const ms = 1000 * Number(after) || Date.parse(after) - (Date.parse(headers.get('Date') ?? '') || Date.now());
  return ms > 0 ? Math.min(ms, MAX_RETRY_AFTER_MS) : null;
}

/**
 * A random pause between half and all of `FIRST_BACKOFF_MS` doubled with each try, so that clients that failed together
 * do not retry together.
 */
export function backoffMs(tries: number, maxMs = MAX_BACKOFF_MS): number {
  return Math.min(maxMs, FIRST_BACKOFF_MS * 2 ** tries) * (0.5 + Math.random() / 2);
}

/** A pause that is up to a fifth longer, so that clients that got the same response do not call at the same moment. */
export function spread(ms: number): number {
  return ms * (1 + Math.random() / 5);
}

/** Whether a body is a problem document of Doorbuster, with the status that it was sent with. */
function isOurs(json: Fields, httpStatus: number): json is { code: string } {
  const { code, type, status } = json;
  return typeof code === 'string' && CODES.has(code) && type === ERRORS + code && status === httpStatus;
}

export type CallDeps = {
  baseUrl: string;
  fetch: typeof fetch;
  authorization?: (() => unknown) | undefined;
  handOver?: (() => unknown) | undefined;
  timeoutMs: number;
  /** Called with the headers of each response of the service, and when it was requested, by `performance.now()`. */
  answered?: (headers: Headers, askedAtMs: number) => void;
};

/** Calls of the API. */
export class Calls {
  readonly #sleepers = new Set<() => void>();
  stopped = false;
  #warned = false;

  constructor(readonly deps: CallDeps) {}

  /** One call. @throws Refusal */
  async once({ method, path, headers = {}, body, anonymous, cache, fits }: Call): Promise<Answer> {
    const { deps } = this;
    const cut = new AbortController();
    const timer = setTimeout(() => cut.abort(), deps.timeoutMs);
    try {
      const authorization = anonymous ? null : await deps.authorization?.();
      const handOver = anonymous ? null : await deps.handOver?.();
      const askedAtMs = performance.now();
      const response = await deps.fetch(deps.baseUrl + path, {
        method,
        signal: cut.signal,
        // A redirected POST becomes a GET, and a foreign origin must not get the ticket.
        redirect: 'manual',
        ...(cache ? { cache } : {}),
        headers: {
          ...headers,
          ...(authorization ? { Authorization: String(authorization) } : {}),
          ...(handOver ? { 'X-Shopper': String(handOver) } : {}),
          ...(body ? { 'Content-Type': 'application/json' } : {}),
        },
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
      const { status, headers: received } = response;
      const heard = () => deps.answered?.(received, askedAtMs);
      const isKnown = status === 304 && headers['If-None-Match'] !== undefined;
      const json = isKnown ? null : ((await response.json().catch(() => null)) as Fields | null);
      const data = Object(json?.data) as Fields;
      if (isKnown || (response.ok && fits(data))) {
        heard();
        return { status, headers: received, data };
      }
      const after = retryAfterMs(received);
      if (json && isOurs(json, status)) {
        heard();
        throw new Refusal(json.code, status, after, json);
      }
      // It was cut off, or another server sent it.
      throw new Refusal('unreachable', 0, after, { detail: `${status} of another server` });
    } catch (error) {
      if (error instanceof Refusal) throw error;
      const blocked = await this.#blockedOrigin();
      // Still `unreachable`, which is retried with the same key: the network may have been away for a moment.
      const hint = blocked
        ? `; the server responds, so the browser probably blocked the call: add ${blocked} to SHOP_ORIGINS of the server`
        : '';
      if (hint && !this.#warned) console.warn(`Doorbuster at ${deps.baseUrl}: ${error}${hint}`);
      this.#warned ||= Boolean(hint);
      throw new Refusal('unreachable', 0, null, { detail: error + hint });
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * A browser does not report whether it blocked a call to another origin or the server is away. The modules of the
   * client may be loaded by every page, so that their request succeeds if the server is there.
   * @returns the origin of the page, if the server responds to such a request
   */
  async #blockedOrigin(): Promise<string | null> {
    const { baseUrl } = this.deps;
    const origin = (globalThis as { location?: { origin: string } }).location?.origin;
    if (!origin || !baseUrl || new URL(baseUrl, origin).origin === origin) return null;
    const cut = new AbortController();
    const timer = setTimeout(() => cut.abort(), PROBE_MS);
    return this.deps
      .fetch(`${baseUrl}/assets/client/calls.js`, { mode: 'no-cors', signal: cut.signal })
      .then(
        () => origin,
        () => null,
      )
      .finally(() => clearTimeout(timer));
  }

  /** Repeats a call while it may succeed later. The call must be safe to repeat. */
  async withRetry(call: () => Promise<Answer>, forMs: number, onRetry: (retry: Retry) => void): Promise<Answer> {
    const giveUpAt = performance.now() + forMs;
    for (let tries = 0; ; tries += 1) {
      try {
        return await call();
      } catch (error) {
        if (!(error instanceof Refusal) || !error.passes) throw error;
        const afterMs = Math.max(spread(error.retryAfterMs ?? 0), backoffMs(tries));
        if (this.stopped || performance.now() + afterMs > giveUpAt) throw error;
        onRetry({ code: error.code, after_ms: afterMs });
        await this.#sleep(afterMs, error.retryAfterMs ?? 0);
        if (this.stopped) throw error;
      }
    }
  }

  /** Ends pauses between tries, except those that the server asked for. */
  wake(): void {
    for (const wake of [...this.#sleepers]) wake();
  }

  #sleep(ms: number, atLeastMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#sleepers.delete(wake);
        resolve();
      };
      const wake = () => {
        if (atLeastMs === 0 || this.stopped) done();
      };
      const timer = setTimeout(done, ms);
      this.#sleepers.add(wake);
    });
  }
}
