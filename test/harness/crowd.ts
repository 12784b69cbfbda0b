import { randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEndOfTest } from './cleanup.js';

/** The final response of one member of the crowd, and the duration of its longest single request. */
export type Told = { user: string; key: string; status: number; body: Record<string, any>; tries: number };

export type CrowdOptions = {
  product: string;
  /** Address of an API; asked anew for each try, so that a crowd moves on when one dies. */
  target: () => string;
  /** Called with the address of an API whose response ended its connection (`Connection: close`). */
  onClosing?: (url: string) => void;
  perSecond: number;
  /** A request without an answer for so long is counted as silent and given up. */
  silentMs?: number;
  confirmShare?: number;
  /** The next user; without it, any. */
  nextUser?: () => string;
};

type Reply = { status: number; body: Record<string, any>; headers: Record<string, any> };

/** People who wait for an answer at once. */
const MAX_ON_THEIR_WAY = 1_000;

/**
 * Shoppers who arrive at a rate and retry: after a lost response or a `Retry-After` they repeat the request with the
 * same key. The crowd keeps every promise of an API, to compare it with Postgres afterwards.
 */
export class Crowd {
  readonly told: Told[] = [];
  /** Those of `told` who got units, and those who got a place in line. */
  readonly completed: Told[] = [];
  readonly queued: Told[] = [];
  /** Requests that got no answer in time. Must stay 0: a refusal is an answer, silence is not. */
  silent = 0;
  /** Answers 503, and how many of them lacked Retry-After. */
  refused = 0;
  /** Their request ids, by which the log of the API has the cause. */
  readonly refusedIds = new Set<string>();
  refusedWithoutRetryAfter = 0;
  /** Requests on a fresh connection that broke after they were sent: dropped in flight. */
  dropped = 0;
  readonly unexpected: string[] = [];
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 256 });
  readonly #pending = new Set<Promise<void>>();
  #running = false;
  #loop: Promise<void> | null = null;
  #gaveUp = false;

  constructor(readonly options: CrowdOptions) {}

  start(): void {
    this.#running = true;
    // One that goes on after a failed test would take the next test's share of the machine.
    atEndOfTest(() => {
      this.#running = false;
      this.#gaveUp = true;
      this.#agent.destroy();
    });
    this.#loop = this.#run();
  }

  /** Stops arrivals; returns when every shopper has a final response. */
  async finish(): Promise<void> {
    this.#running = false;
    await this.#loop;
    await Promise.all(this.#pending);
    this.#agent.destroy();
  }

  /** How many shoppers have sent a request and have no final response yet. */
  get inFlight(): number {
    return this.#pending.size;
  }

  async #run(): Promise<void> {
    const began = performance.now();
    for (let sent = 0; this.#running; ) {
      const due = ((performance.now() - began) / 1000) * this.options.perSecond;
      while (sent < due) {
        sent += 1;
        // A crowd that is not served does not grow for ever; who does not fit stays at home.
        if (this.#pending.size >= MAX_ON_THEIR_WAY) continue;
        const one = this.#shop(this.options.nextUser?.() ?? `user-${randomUUID()}`).finally(() =>
          this.#pending.delete(one),
        );
        this.#pending.add(one);
      }
      await sleep(5);
    }
  }

  async #shop(user: string): Promise<void> {
    const key = randomUUID();
    const json = JSON.stringify({ product_id: this.options.product, user_id: user, qty: 1 });
    for (let tries = 1; !this.#gaveUp; tries += 1) {
      const reply = await this.#post('/flash-sale/checkout', json, { 'idempotency-key': key });
      if (reply && reply.status !== 503) {
        const told = { user, key, status: reply.status, body: reply.body, tries };
        this.told.push(told);
        if (told.body.data?.status === 'completed') this.completed.push(told);
        if (told.body.data?.status === 'queued') this.queued.push(told);
        if (reply.status !== 200 && reply.status !== 202)
          this.unexpected.push(`${reply.status} ${JSON.stringify(reply.body)}`);
        return;
      }
      if (reply) {
        this.refused += 1;
        this.refusedIds.add(String(reply.headers['x-request-id']));
        if (!reply.headers['retry-after']) this.refusedWithoutRetryAfter += 1;
      }
      const retryAfterMs = 1_000 * Number(reply?.headers['retry-after'] ?? 0);
      await sleep(Math.max(retryAfterMs, 100) + Math.random() * 200);
    }
  }

  /** null when there was no answer: a broken connection, or silence. */
  #post(path: string, json: string, headers: Record<string, string>): Promise<Reply | null> {
    const silentMs = this.options.silentMs ?? 120_000;
    const url = this.options.target();
    return new Promise((resolve) => {
      const req = request(
        `${url}${path}`,
        {
          method: 'POST',
          agent: this.#agent,
          headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(json), ...headers },
        },
        (res) => {
          let text = '';
          res.on('data', (chunk) => {
            text += chunk;
          });
          res.on('error', () => resolve(null));
          res.on('close', () => {
            if (!res.complete) return resolve(null);
            if (res.headers.connection === 'close') this.options.onClosing?.(url);
            resolve({ status: res.statusCode ?? 0, body: JSON.parse(text), headers: res.headers });
          });
        },
      );
      req.setTimeout(silentMs, () => {
        this.silent += 1;
        req.destroy();
      });
      req.on('error', (error: NodeJS.ErrnoException) => {
        if (error.code === 'ECONNRESET' && !req.reusedSocket) this.dropped += 1;
        resolve(null);
      });
      req.end(json);
    });
  }
}
