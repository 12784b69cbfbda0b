import { uuidv7 } from 'uuidv7';
import { type Ban, type BanKind, RULE_PREFIX } from '../../../shared/domain/ban.js';
import type { DeviceId, UserId } from '../../../shared/domain/ids.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import type { Log } from '../../../shared/observability/log.js';
import { runEvery } from '../../../shared/observability/shared-interval.js';
import type { BansTable } from '../../../shared/postgres/bans.js';
import type { BanNotification, BanStore } from '../../../shared/redis/ban-store.js';
import { LocalQuota } from '../limits/local-quota.js';
import { BanCache } from './ban-cache.js';
import { RuleBanWriter } from './rule-ban-writer.js';

export type BanLimits = {
  kept: number;
  pausesKept: number;
  syncEveryMs: number;
  changesMs: number;
  ruleBansPerSecond: number;
  ruleBansWaiting: number;
  ruleBansBatch: number;
};

export type BansDeps = {
  store: BanStore;
  table: BansTable;
  nowMs: () => number;
  log: Log;
  onRefused: (kind: BanKind | 'cooldown') => void;
  /**
   * Called for a ban by a rule that only this process enforces (rate), or that is not written to Postgres (waiting).
   */
  onDropped: (why: 'rate' | 'waiting') => void;
  limits: BanLimits;
};

/** The caller of a request, as far as it is known at that point. */
export type Caller = { user?: UserId | undefined; device?: DeviceId | null | undefined; network?: string | undefined };

/**
 * The bans in force, cached in this process: a check costs a few look-ups and no round trip. Changes arrive by pub/sub.
 * All bans are read at the start and after each reconnection, recent changes (`changesMs`) every few seconds.
 */
export class Bans {
  readonly #known: BanCache;
  /** Callers (`callerOf`) in cooldown → its end, milliseconds since 1970. */
  readonly #pauses = new Map<string, number>();
  #end = () => {};
  #syncing: Promise<void> | null = null;
  readonly #writer: RuleBanWriter;
  readonly #announced: LocalQuota;
  #lastRead: 'failed' | 'whole' = 'failed';
  /** Notifications that arrived during a full read, which may lack them. */
  #pending: BanNotification[] = [];

  constructor(readonly deps: BansDeps) {
    const { limits, table, log } = deps;
    this.#known = new BanCache(limits.kept, deps.nowMs);
    this.#announced = new LocalQuota(limits.ruleBansPerSecond, 1_000, 1);
    this.#writer = new RuleBanWriter({
      table,
      onDropped: deps.onDropped,
      onTrouble: (error) =>
        log.warn({ reason: String(error) }, 'bans by rules could not be written to Postgres, will retry'),
      limits,
    });
  }

  start(): void {
    const sync = () => {
      this.sync().catch((error: unknown) =>
        this.deps.log.warn({ reason: String(error) }, 'bans could not be read, the cached ones stay in force'),
      );
    };
    this.deps.store
      .listen((notification) => this.#apply(notification), sync)
      .catch((error: unknown) => this.deps.log.warn({ err: error }, 'subscription to bans failed'));
    sync();
    this.#end = runEvery(this.deps.limits.syncEveryMs, () => {
      this.#catchUp().catch((error: unknown) =>
        this.deps.log.warn({ reason: String(error) }, 'changed bans could not be read'),
      );
    });
  }

  stop(): void {
    this.#end();
  }

  /** Number of cached bans. */
  get size(): number {
    return this.#known.size;
  }

  /** Returns the ban of a caller and counts the refusal; null = not banned. */
  banOf({ user, device, network }: Caller): Ban | null {
    if (this.#known.size === 0) return null;
    const ban =
      this.#found('network', network) ?? this.#found('user', user) ?? this.#found('device', device ?? undefined);
    if (ban) this.deps.onRefused(ban.kind);
    return ban;
  }

  /** Admits a caller who is not banned. @throws Problem 403 for a banned caller */
  admit(caller: Caller): void {
    const ban = this.banOf(caller);
    if (ban) throw blocked(ban.kind, ban.untilMs, this.deps.nowMs());
  }

  /** How long a caller is still in cooldown, milliseconds; 0 = not at all. */
  pausedMs(caller: string): number {
    const untilMs = this.#pauses.get(caller);
    if (untilMs === undefined) return 0;
    const leftMs = untilMs - this.deps.nowMs();
    if (leftMs <= 0) this.#pauses.delete(caller);
    return Math.max(0, leftMs);
  }

  /** Admits a caller (`callerOf`) who is not in cooldown. @throws Problem 429 for a caller in cooldown */
  admitPaused(caller: string): void {
    const leftMs = this.pausedMs(caller);
    if (leftMs === 0) return;
    this.deps.onRefused('cooldown');
    throw new Problem('rate_limited', 'Too many failed attempts with codes. Try again after `Retry-After` seconds.', {
      members: { policy: 'cooldown' },
      retryAfterSeconds: Math.max(1, leftMs / 1000),
    });
  }

  /** Whether an operator has exempted this caller from bans by rules. */
  isAllowed({ user, device, network }: Caller): boolean {
    const isAllowed = (kind: BanKind, subject: string | null | undefined) =>
      subject !== undefined && subject !== null && this.#known.allowanceOf(kind, subject) !== null;
    return isAllowed('user', user) || isAllowed('device', device) || isAllowed('network', network);
  }

  /**
   * Bans a subject by a rule. This process enforces the ban at once and the others after its notification; it is
   * written to Postgres in the background. Above `ruleBansPerSecond`, only this process enforces it, because an
   * attacker decides how many subjects there are; other processes apply the same rule themselves.
   * @param forMs duration
   * @returns null = already banned
   */
  async byRule(kind: BanKind, subject: string, forMs: number, reason: string, rule: string): Promise<Ban | null> {
    if (this.#known.banOf(kind, subject)) return null;
    const untilMs = Math.ceil(this.deps.nowMs() + forMs);
    const ban: Ban = { id: uuidv7(), effect: 'ban', kind, subject, untilMs, reason, actor: `${RULE_PREFIX}${rule}` };
    this.#put(ban);
    if (this.#announced.take('') > 0) {
      this.deps.onDropped('rate');
      return ban;
    }
    this.deps.log.warn({ ban: ban.id, kind, rule, reason }, 'ban made by a rule');
    await this.deps.store.put(ban);
    // Redis has the ban. The writer stores it in Postgres now or after an outage.
    this.#writer.add(ban);
    void this.#writer.flush();
    return ban;
  }

  /** Puts a caller (`callerOf`) into cooldown, in every process. */
  async pause(caller: string, forMs: number): Promise<void> {
    const pause = { user: caller, untilMs: Math.ceil(this.deps.nowMs() + forMs) };
    this.#apply({ kind: 'pause', pause });
    await this.deps.store.pause(pause);
  }

  /** Enforces a ban by an operator, which Postgres already has, here and then in every process. */
  async announce(ban: Ban): Promise<void> {
    this.#put(ban);
    await this.deps.store.put(ban);
  }

  async announceLifted(id: string): Promise<void> {
    this.#remove(id);
    await this.deps.store.lift(id);
  }

  /** Reads all bans, and writes bans that only Redis has to Postgres. Concurrent calls share one run. */
  sync(): Promise<void> {
    this.#syncing ??= this.#sync().finally(() => {
      this.#syncing = null;
    });
    return this.#syncing;
  }

  async #sync(): Promise<void> {
    const { store, table, limits } = this.deps;
    this.#pending = [];
    // Redis first: a ban that is lifted between the two reads is then missing from both.
    const inRedis = await store.all().catch(() => []);
    let stored: Ban[];
    this.#lastRead = 'failed';
    try {
      stored = await table.inForce(limits.kept);
    } catch (error) {
      for (const ban of inRedis) if (this.#known.isInForce(ban)) this.#known.put(ban);
      // Redis was read before them, so a ban that was lifted meanwhile is among those that it had.
      for (const notification of this.#pending.splice(0)) this.#apply(notification);
      throw error;
    }
    // Oldest first, so that a full cache evicts these.
    const inForce = new Map(stored.reverse().map((ban) => [ban.id, ban]));
    const others = inRedis.filter(({ id }) => !inForce.has(id));
    const known = others.length > 0 ? await table.known(others.map(({ id }) => id)) : new Set<string>();
    for (const ban of others) {
      if (known.has(ban.id) || !this.#known.isInForce(ban)) continue;
      this.#writer.add(ban);
      inForce.set(ban.id, ban);
    }
    void this.#writer.flush();
    await store.forget(others.filter((ban) => known.has(ban.id) || !this.#known.isInForce(ban)).map(({ id }) => id));
    this.#known.replace(inForce.values());
    this.#lastRead = 'whole';
    for (const notification of this.#pending.splice(0)) this.#apply(notification);
  }

  async #catchUp(): Promise<void> {
    const { store, table, limits } = this.deps;
    if (this.#lastRead === 'failed') return this.sync();
    const { expired } = this.#known;
    for (const id of expired) this.#known.end(id);
    await store.forget(expired).catch(() => {});
    await this.#writer.flush();
    for (const ban of await table.changedWithin(limits.changesMs)) {
      if (ban.liftedAt !== null) this.#remove(ban.id);
      else if (this.#known.isInForce(ban) && !this.#known.has(ban.id)) this.#put(ban);
    }
  }

  #apply(notification: BanNotification): void {
    switch (notification.kind) {
      case 'put':
        return this.#put(notification.ban);
      case 'lifted':
        return this.#remove(notification.id);
      case 'pause': {
        const { user, untilMs } = notification.pause;
        this.#pauses.delete(user);
        if (this.#pauses.size >= this.deps.limits.pausesKept)
          this.#pauses.delete(this.#pauses.keys().next().value as string);
        this.#pauses.set(user, untilMs);
      }
    }
  }

  #put(ban: Ban): void {
    if (this.#syncing) this.#pending.push({ kind: 'put', ban });
    this.#known.put(ban);
  }

  #remove(id: string): void {
    if (this.#syncing) this.#pending.push({ kind: 'lifted', id });
    this.#known.remove(id);
  }

  #found(kind: BanKind, subject: string | undefined): Ban | null {
    return subject === undefined ? null : this.#known.banOf(kind, subject);
  }
}

export function blocked(kind: BanKind, untilMs: number | null, nowMs: number): Problem {
  return new Problem('blocked', `This ${kind} is blocked.`, {
    members: { until: untilMs === null ? null : new Date(untilMs).toISOString() },
    ...(untilMs === null ? {} : { retryAfterSeconds: Math.max(1, (untilMs - nowMs) / 1000) }),
  });
}

/** Returns a ban in the form of the admin API and the audit log. */
export function banView(ban: Ban) {
  const { id, effect, kind, subject, untilMs, reason, actor } = ban;
  return { id, effect, kind, subject, until: untilMs === null ? null : new Date(untilMs).toISOString(), reason, actor };
}
