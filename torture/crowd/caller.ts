import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../random.js';
import type { CallSpec, HttpClient, Response } from './http-client.js';

/** Statuses after which a client repeats its request with the same key. */
const RETRIED = new Set([429, 503]);
/** One takes a second, so that a client that has the time tries for longer than the judge calls an outage slow. */
const TRIES = 200;

/** What all clients of a run share. */
export type Stage = {
  http: HttpClient;
  apis: readonly string[];
  /** Aborted when no more shoppers arrive: those in line stop waiting. */
  closing: AbortSignal;
  /** Aborted when the run gives its clients no more time. */
  end: AbortSignal;
};

export type Attempt = Omit<CallSpec, 'api'>;

/** One client: it repeats each call, at any of the APIs, until it has a final response or the run is over. */
export class Caller {
  constructor(
    readonly stage: Stage,
    readonly random: Random,
  ) {}

  /** One attempt. */
  once(attempt: Attempt): Promise<Response> {
    return this.stage.http.send({ ...attempt, api: this.random.pick(this.stage.apis) });
  }

  /** Repeats the call until the response is final; null when the run is over first. */
  async insist(attempt: Attempt | (() => Promise<Attempt | null>)): Promise<Response | null> {
    for (let tries = 1; tries <= TRIES && !this.stage.end.aborted; tries += 1) {
      const spec = typeof attempt === 'function' ? await attempt() : attempt;
      const response = spec && (await this.once(spec));
      if (response && spec && isFinal(response, spec)) return response;
      await this.pause(150 + this.random.int(0, 200 * Math.min(tries, 8)));
    }
    return null;
  }

  /** Waits, but not longer than the run lasts. @returns whether the run goes on */
  async pause(ms: number): Promise<boolean> {
    if (this.stage.end.aborted) return false;
    await sleep(ms, undefined, { signal: this.stage.end }).catch(() => {});
    return !this.stage.end.aborted;
  }
}

function isFinal(response: Response, { final = false }: Attempt): boolean {
  // After the run campaigns stay paused: repeating the call does not change the response.
  if (final && response.code === 'campaign_paused') return true;
  return response.status !== null && !RETRIED.has(response.status) && !isStale(response);
}

/** The device token is too old, or was issued by a process whose clock is wrong: the client gets a new one. */
const isStale = ({ code }: Response) => code === 'attestation_expired' || code === 'attestation_invalid';
