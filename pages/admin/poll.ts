import { call, Refused } from './calls.js';
import type { Overview } from './overview.js';
import { outageText, type Readiness } from './words.js';

export type PollEvents = {
  answered(now: Overview): void;
  /** @param text why no data arrived; called again after every failed try */
  lost(text: string): void;
  loggedOut(): void;
  /** The requested object does not exist. */
  gone(text: string): void;
};

/** The time limit of a request; a healthy service responds sooner. */
const ANSWER_LIMIT_MS = 5_000;
const RETRY_MS = [500, 1_000, 2_000, 4_000];

/** Requests one overview after the other, never two at once, and none while the page is hidden. */
export class Poll {
  #query: string | null = null;
  #everyMs = 1_000;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Number of the current round. Responses to requests of earlier rounds are ignored. */
  #turn = 0;
  #failed = 0;

  constructor(readonly events: PollEvents) {
    document.addEventListener('visibilitychange', () => this.now());
    addEventListener('online', () => this.now());
  }

  /** @param query null = request nothing */
  watch(query: string | null, everyMs: number): void {
    this.#query = query;
    this.#everyMs = everyMs;
    this.now();
  }

  /** Requests at once, for example after a change. */
  now(): void {
    clearTimeout(this.#timer);
    this.#turn += 1;
    if (this.#query !== null && document.visibilityState === 'visible') this.#ask(this.#query, this.#turn);
  }

  async #ask(query: string, turn: number): Promise<void> {
    try {
      const now = await call<Overview>('GET', `/admin/overview?${query}`, undefined, { limitMs: ANSWER_LIMIT_MS });
      if (turn !== this.#turn) return;
      this.#failed = 0;
      this.events.answered(now);
      this.#later(turn, this.#everyMs);
    } catch (error) {
      if (turn !== this.#turn) return;
      if (!(error instanceof Refused)) throw error;
      await this.#refused(error, turn);
    }
  }

  async #refused(refused: Refused, turn: number): Promise<void> {
    if (refused.status === 401) return this.events.loggedOut();
    if (refused.status === 404 || refused.status === 400) return this.events.gone(refused.message);
    const text = refused.status === 0 ? 'Connection lost. Trying again…' : outageText(await readiness());
    if (turn !== this.#turn) return;
    this.events.lost(text);
    this.#later(turn, RETRY_MS[Math.min(this.#failed, RETRY_MS.length - 1)] ?? 1_000);
    this.#failed += 1;
  }

  #later(turn: number, ms: number): void {
    if (turn !== this.#turn) return;
    this.#timer = setTimeout(() => this.now(), ms);
  }
}

async function readiness(): Promise<Readiness | null> {
  try {
    // The body of a 503 has the result too.
    const response = await fetch('/readyz', { signal: AbortSignal.timeout(ANSWER_LIMIT_MS) });
    return ((await response.json()) as { data: Readiness }).data;
  } catch {
    return null;
  }
}
