import type { Redis } from 'ioredis';
import { type Ban, isByRule } from '../../../shared/domain/ban.js';
import { keys } from '../../../shared/redis/keys.js';

/** A caller who has to wait before the next code, `<user>` or `<user>|<network>`: sent to every process, kept nowhere else. */
export type Pause = { user: string; untilMs: number };
export type BanNotification =
  | { kind: 'put'; ban: Ban }
  | { kind: 'lifted'; id: string }
  | { kind: 'pause'; pause: Pause };

const HOUR_MS = 3_600_000;

/**
 * Carries bans to every API process as they are made, and keeps them in Redis until Postgres has them. Postgres is the
 * truth of what operators see; a process that starts while it is away finds them here. Bans of rules lie in hashes of their own,
 * which expire with them.
 */
export class BanStore {
  constructor(
    readonly commands: Redis,
    readonly subscriber: Redis,
    /** How long a ban of a rule lasts at most. */
    readonly ruleBanMs: number,
    readonly nowMs: () => number,
  ) {}

  /** @throws when Redis is away */
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
    await this.#tell({ kind: 'put', ban });
  }

  async lift(id: string): Promise<void> {
    await this.forget([id]);
    await this.#tell({ kind: 'lifted', id });
  }

  async pause(pause: Pause): Promise<void> {
    await this.#tell({ kind: 'pause', pause });
  }

  async all(): Promise<Ban[]> {
    const hashes = await Promise.all(this.#hashes().map((key) => this.commands.hgetall(key)));
    return hashes.flatMap((bans) => Object.values(bans).map((text) => JSON.parse(text) as Ban));
  }

  /** Takes away what is over or stands in Postgres as lifted; tells nobody. */
  async forget(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await Promise.all(this.#hashes().map((key) => this.commands.hdel(key, ...ids)));
  }

  /** Those of operators, and those of rules that can be in force. */
  #hashes(): string[] {
    const now = this.nowMs();
    const hours: string[] = [];
    for (let hour = hourOf(now); hour <= hourOf(now + this.ruleBanMs); hour += 1) hours.push(keys.ruleBans(hour));
    return [keys.bans, ...hours];
  }

  /** @param onMissed news may have been missed: the subscription was down */
  async listen(onNews: (news: BanNotification) => void, onMissed: () => void): Promise<void> {
    this.subscriber.on('message', (channel: string, message: string) => {
      if (channel === keys.banNotifications) onNews(JSON.parse(message) as BanNotification);
    });
    this.subscriber.on('ready', onMissed);
    await this.subscriber.subscribe(keys.banNotifications);
  }

  async #tell(news: BanNotification): Promise<void> {
    await this.commands.publish(keys.banNotifications, JSON.stringify(news));
  }
}

const hourOf = (ms: number): number => Math.floor(ms / HOUR_MS);
