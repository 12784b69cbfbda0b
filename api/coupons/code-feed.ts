import type { Redis } from 'ioredis';
import { keys } from '../../shared/redis/keys.js';

export type CodeFeedEvents = {
  codes(codes: string[]): void;
  /** Everything announced from now on will be heard, until `lost`. */
  subscribed(): void;
  lost(): void;
};

/**
 * Hears which codes are about to be issued, and knows whether it may have missed any: the answer to a ping on the same
 * connection comes after every message that Redis had for it. A connection that Redis has given up, and that nobody has
 * told us about, answers no ping.
 */
export class CodeFeed {
  #generation = 0;
  #subscribed = false;
  #heardAllAt = Number.NEGATIVE_INFINITY;
  /** When the ping that has no answer yet was sent. */
  #pingSentAt: number | null = null;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    /** A connection of its own: lists of codes would hold up what others wait for. */
    readonly subscriber: Redis,
    readonly limits: { codePingEveryMs: number; codeTrustMs: number; codePingGiveUpMs: number },
    readonly on: CodeFeedEvents,
  ) {}

  start(): void {
    this.subscriber.on('message', (channel: string, message: string) => {
      if (channel === keys.codes) this.on.codes(message.split(','));
    });
    this.subscriber.on('close', () => this.#lose());
    this.subscriber.on('ready', () => this.#subscribe());
    if (this.subscriber.status === 'ready') this.#subscribe();
    this.#timer = setInterval(() => this.#ping(), this.limits.codePingEveryMs);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#lose();
  }

  /** Whether everything that was announced `codeTrustMs` ago or earlier has been heard, since `subscribed`. */
  get hasHeardAll(): boolean {
    return this.#subscribed && performance.now() - this.#heardAllAt <= this.limits.codeTrustMs;
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
        // The connection is gone again; the next `ready` starts over.
      },
    );
  }

  #ping(): void {
    if (!this.#subscribed) return;
    const sentAt = performance.now();
    if (this.#pingSentAt !== null) {
      // A network that swallows everything closes nothing for many minutes; a new connection may find another way.
      if (sentAt - this.#pingSentAt > this.limits.codePingGiveUpMs) this.subscriber.stream.destroy();
      return;
    }
    this.#pingSentAt = sentAt;
    const generation = this.#generation;
    this.subscriber
      .ping()
      .then(() => {
        if (generation === this.#generation) this.#heardAllAt = sentAt;
      })
      .catch(() => {
        // Gone; `close` says so.
      })
      .finally(() => {
        this.#pingSentAt = null;
      });
  }
}
