import type { Redis } from 'ioredis';
import { type Ban, isByRule } from '../domain/ban.js';
import { keys } from './keys.js';

/** A caller (`<user>` or `<user>|<network>`) in cooldown. Processes receive it by pub/sub; it is stored nowhere. */
export type Pause = { user: string; untilMs: number };
export type BanNotification =
  | { kind: 'put'; ban: Ban }
  | { kind: 'lifted'; id: string }
  | { kind: 'pause'; pause: Pause };

const HOUR_MS = 3_600_000;

/**
 * Publishes bans to every API process and stores them in Redis until Postgres has them. Postgres is the system of
 * record; a process that starts during an outage of Postgres reads the bans from Redis. Bans by rules have separate
 * hashes, which expire with them.
 */
export class BanStore {
  constructor(
    readonly commands: Redis,
    readonly subscriber: Redis,
    /** Maximum duration of a ban by a rule. */
    readonly ruleBanMs: number,
    readonly nowMs: () => number,
  ) {}

  /** Stores and publishes a ban. @throws Error if Redis is unavailable */
  async put(ban: Ban): Promise<void> {
    const { untilMs } = ban;
    if (isByRule(ban) && untilMs !== null) {
      const hour = hourOf(untilMs);
      const key = keys.ruleBans(hour);
      await Promise.all([
        this.commands.hset(key, ban.id, JSON.stringify(ban)),
        this.commands.pexpireat(key, (hour + 2) * HOUR_MS),
      ]);
    } else await this.commands.hset(keys.bans, ban.id, JSON.stringify(ban));
    await this.#publish({ kind: 'put', ban });
  }

  async lift(id: string): Promise<void> {
    await this.forget([id]);
    await this.#publish({ kind: 'lifted', id });
  }

  async pause(pause: Pause): Promise<void> {
    await this.#publish({ kind: 'pause', pause });
  }

  async all(): Promise<Ban[]> {
    const hashes = await Promise.all(this.#hashes().map((key) => this.commands.hgetall(key)));
    return hashes.flatMap((bans) => Object.values(bans).map((text) => JSON.parse(text) as Ban));
  }

  /** Deletes these bans from Redis: they have expired, or Postgres stores them. Does not publish anything. */
  async forget(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await Promise.all(this.#hashes().map((key) => this.commands.hdel(key, ...ids)));
  }

  /** Keys of the hashes with bans by operators and with bans by rules that can be in force. */
  #hashes(): string[] {
    const now = this.nowMs();
    const hours: string[] = [];
    for (let hour = hourOf(now); hour <= hourOf(now + this.ruleBanMs); hour += 1) hours.push(keys.ruleBans(hour));
    return [keys.bans, ...hours];
  }

  /**
   * Subscribes to notifications of other processes.
   * @param onMissed called after each (re)connection, because notifications may have been missed
   */
  async listen(onNotification: (notification: BanNotification) => void, onMissed: () => void): Promise<void> {
    this.subscriber.on('message', (channel: string, message: string) => {
      if (channel === keys.banNotifications) onNotification(JSON.parse(message) as BanNotification);
    });
    this.subscriber.on('ready', onMissed);
    await this.subscriber.subscribe(keys.banNotifications);
  }

  async #publish(notification: BanNotification): Promise<void> {
    await this.commands.publish(keys.banNotifications, JSON.stringify(notification));
  }
}

const hourOf = (ms: number): number => Math.floor(ms / HOUR_MS);
