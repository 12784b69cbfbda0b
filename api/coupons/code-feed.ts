import type { Redis } from 'ioredis';
import { untilNext } from '../../shared/observability/shared-interval.js';
import { keys } from '../../shared/redis/keys.js';

export type CodeFeedEvents = {
  codes(codes: string[]): void;
  /** Every announcement from now on is received, until `lost`. */
  subscribed(): void;
  lost(): void;
};

/**
 * Receives the codes that are about to be issued, and detects whether it may have missed any: Redis replies to a ping
 * only after it has sent every earlier message of the same connection. If the connection is dead without being closed,
 * there is no reply. While nothing asks, it pings rarely, because an idle process should cost little.
 */
export class CodeFeed {
  #generation = 0;
  #subscribed = false;
  /** Every message that was published before this time has been received. */
  #completeAt = Number.NEGATIVE_INFINITY;
  /** When the outstanding ping was sent; null = none. */
  #pingSentAt: number | null = null;
  /** When `isComplete` was last read. */
  #askedAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    /** A separate connection, because lists of codes would delay other messages. */
    readonly subscriber: Redis,
    readonly limits: { pingEveryMs: number; pingIdleMs: number; trustMs: number; pingGiveUpMs: number },
    readonly on: CodeFeedEvents,
  ) {}

  start(): void {
    this.subscriber.on('message', (channel: string, message: string) => {
      if (channel === keys.codes) this.on.codes(message.split(','));
    });
    this.subscriber.on('close', () => this.#lose());
    this.subscriber.on('ready', () => this.#subscribe());
    if (this.subscriber.status === 'ready') this.#subscribe();
    this.#tick();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#lose();
  }

  /**
   * Whether every announcement since `subscribed` that is at least `trustMs` old has been received. After a pause
   * this is usually not known until the next ping.
   */
  get isComplete(): boolean {
    if (!this.#subscribed) return false;
    const isIdle = this.#isIdle;
    this.#askedAt = performance.now();
    if (isIdle) {
      clearTimeout(this.#timer);
      this.#tick();
    }
    return performance.now() - this.#completeAt <= this.limits.trustMs;
  }

  get #isIdle(): boolean {
    return performance.now() - this.#askedAt > this.limits.pingIdleMs;
  }

  #tick(): void {
    const mayRest = this.#isIdle && this.#pingSentAt === null;
    this.#ping();
    const { pingEveryMs, pingIdleMs } = this.limits;
    this.#timer = setTimeout(() => this.#tick(), mayRest ? untilNext(pingIdleMs) : pingEveryMs);
  }

  #lose(): void {
    this.#generation += 1;
    if (this.#subscribed) this.on.lost();
    this.#subscribed = false;
  }

  #subscribe(): void {
    const generation = ++this.#generation;
    this.subscriber.subscribe(keys.codes).then(
      () => {
        if (generation !== this.#generation) return;
        this.#subscribed = true;
        this.on.subscribed();
        this.#ping();
      },
      () => {
        // The connection closed again; the next `ready` subscribes anew.
      },
    );
  }

  #ping(): void {
    if (!this.#subscribed) return;
    const sentAt = performance.now();
    if (this.#pingSentAt !== null) {
      // If the network drops all packets, the connection stays open for many minutes. A new one may take another route.
      if (sentAt - this.#pingSentAt > this.limits.pingGiveUpMs) this.subscriber.stream.destroy();
      return;
    }
    this.#pingSentAt = sentAt;
    const generation = this.#generation;
    this.subscriber
      .ping()
      .then(() => {
        if (generation === this.#generation) this.#completeAt = sentAt;
      })
      .catch(() => {
        // The connection closed; the `close` event handles it.
      })
      .finally(() => {
        this.#pingSentAt = null;
      });
  }
}
