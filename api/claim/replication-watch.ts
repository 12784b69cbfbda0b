import type { Redis } from 'ioredis';
import { keys } from '../../shared/redis/keys.js';

export type ReplicationLimits = {
  /** Time after which an unconfirmed call returns false. Its writes stay valid. */
  waitMs: number;
  /** Timeout of WAIT in one round. */
  roundMs: number;
  /** Maximum number of waiting calls. Further ones return false at once. */
  maxWaiting: number;
};

/** Calls about one server that arrived since the last round began. */
type Batch = {
  server: string;
  until: number;
  calls: number;
  settle: (replicated: boolean) => void;
  done: Promise<boolean>;
};

const YES = Promise.resolve(true);
const NO = Promise.resolve(false);

/**
 * Checks whether the replicas have the writes that Redis has confirmed to this process. While calls wait, it runs
 * rounds on a separate connection, because WAIT blocks every command behind it. A round writes a mark, waits until the
 * replicas have it, and reads which server it used. Replication keeps the order, so replicas with the mark have every
 * earlier write. A round confirms the calls that arrived before it began. Without calls there is no traffic.
 *
 * A round counts only for the server that it read. After a failover, this connection and the one for commands may
 * briefly use different servers, and the mark of one proves nothing about the writes of the other.
 */
export class ReplicationWatch {
  /** Batches for the next round, by server. */
  readonly #waiting = new Map<string, Batch>();
  /** Batches of failed rounds, oldest first; the next round includes them. */
  #tried: Batch[] = [];
  #calls = 0;
  #mark = 0;
  #running = false;
  #timer: NodeJS.Timeout | null = null;

  constructor(
    readonly connection: Redis,
    readonly replicas: number,
    readonly limits: ReplicationLimits,
    /** `master_replid` of the server that currently receives commands; null = none. */
    readonly expectedServer: () => string | null,
  ) {
    if (replicas === 0) return;
    connection.on('ready', () => this.#start());
    connection.on('close', () => this.#settle(() => true, false));
  }

  /**
   * Resolves to whether enough replicas have every write that Redis had confirmed to this process before the call.
   * False after `waitMs`, after a lost connection, and if the server is no longer the primary.
   * @param server `master_replid` of the server that replied, by default the current one
   */
  replicated(server: string | null = this.expectedServer()): Promise<boolean> {
    if (this.replicas === 0) return YES;
    if (server === null || this.#calls >= this.limits.maxWaiting) return NO;
    let batch = this.#waiting.get(server);
    if (!batch) {
      batch = this.#newBatch(server);
      this.#waiting.set(server, batch);
      this.#start();
    }
    batch.calls += 1;
    this.#calls += 1;
    return batch.done;
  }

  /** Number of waiting calls. */
  get waiting(): number {
    return this.#calls;
  }

  #newBatch(server: string): Batch {
    let settle: Batch['settle'] = () => {};
    const done = new Promise<boolean>((resolve) => {
      settle = resolve;
    });
    return { server, until: performance.now() + this.limits.waitMs, calls: 0, settle, done };
  }

  /** Starts rounds at the end of this turn of the event loop, so that all calls of this turn share a round. */
  #start(): void {
    this.#watchTime();
    if (this.#running) return;
    this.#running = true;
    setImmediate(() => void this.#rounds());
  }

  async #rounds(): Promise<void> {
    while (this.connection.status === 'ready') {
      this.#tried.push(...this.#waiting.values());
      this.#waiting.clear();
      if (this.#tried.length === 0) break;
      const asked = new Set(this.#tried);
      const server = await this.#round();
      if (server !== null) this.#settle((batch) => asked.has(batch) && batch.server === server, true);
      // A server that is no longer the primary cannot confirm anything.
      const expected = this.expectedServer();
      this.#settle((batch) => batch.server !== expected, false);
      // Reconnects to the primary, because this connection uses another server than the one for commands.
      if (server !== null && expected !== null && server !== expected) this.connection.disconnect(true);
      if (server === null || this.#tried.length > 0) {
        // The pause prevents a tight loop of rounds that fail at once (READONLY, another server).
        if (this.connection.status === 'ready') await pause(RETRY_MS);
      } else {
        // Calls that follow from replies of this turn join the next round.
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    // There is no await after the last check for calls, so that none is missed.
    this.#running = false;
  }

  /** @returns `master_replid` of the server whose replicas have the mark; null = too few replicas have it */
  async #round(): Promise<string | null> {
    this.#mark += 1;
    try {
      const replies = await this.connection
        .pipeline()
        .set(keys.mark, this.#mark)
        .wait(this.replicas, this.limits.roundMs)
        .info('replication')
        .exec();
      const [set, wait, info] = replies ?? [];
      if (!set || !wait || !info || set[0] || wait[0] || info[0] || Number(wait[1]) < this.replicas) return null;
      const text = String(info[1]);
      // INFO comes last: a server gets a new id when it is promoted, so the mark was written under this id.
      return /^role:master\r?$/m.test(text) ? (/^master_replid:(\w+)/m.exec(text)?.[1] ?? null) : null;
    } catch {
      return null;
    }
  }

  #settle(which: (batch: Batch) => boolean, replicated: boolean): void {
    const settled = [...this.#tried, ...this.#waiting.values()].filter(which);
    if (settled.length === 0) return;
    for (const batch of settled) {
      this.#calls -= batch.calls;
      batch.settle(replicated);
      if (this.#waiting.get(batch.server) === batch) this.#waiting.delete(batch.server);
    }
    this.#tried = this.#tried.filter((batch) => !settled.includes(batch));
  }

  #watchTime(): void {
    const deadline = this.#nextDeadline();
    if (this.#timer || deadline === Number.POSITIVE_INFINITY) return;
    const waitMs = Math.max(1, deadline - performance.now());
    this.#timer = setTimeout(() => {
      // After a blocked event loop, replies that have already arrived are read first.
      setImmediate(() => {
        this.#timer = null;
        const now = performance.now();
        this.#settle((batch) => batch.until <= now, false);
        if (this.#calls > 0) this.#watchTime();
      });
    }, waitMs).unref();
  }

  #nextDeadline(): number {
    return Math.min(...[...this.#tried, ...this.#waiting.values()].map(({ until }) => until));
  }
}

const RETRY_MS = 10;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
