import { uuidv7 } from 'uuidv7';
import { type Ban, type BanKind, RULE_PREFIX } from '../../../shared/domain/ban.js';
import type { DeviceId, UserId } from '../../../shared/domain/ids.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import type { Log } from '../../../shared/observability/log.js';
import type { BansTable } from '../../../shared/postgres/bans.js';
import { LocalQuota } from '../limits/local-quota.js';
import { BanCache } from './ban-cache.js';
import type { BanNotification, BanStore } from './ban-store.js';
import { RuleBanWriter } from './rule-ban-writer.js';

export type BanLimits = {
  bansKept: number;
  pausesKept: number;
  bansSyncEveryMs: number;
  bansChangesMs: number;
  ruleBansPerSecond: number;
  ruleBansWaiting: number;
  ruleBansBatch: number;
};

export type BansDeps = {
  board: BanStore;
  table: BansTable;
  nowMs: () => number;
  log: Log;
  onRefused: (kind: BanKind | 'cooldown') => void;
  /** A ban of a rule that is in force in this process alone (rate), or that Postgres does not get (waiting). */
  onDropped: (why: 'rate' | 'waiting') => void;
  limits: BanLimits;
};

/** Who a request comes from, as far as it is known at that point. */
export type Caller = { user?: UserId | undefined; device?: DeviceId | null | undefined; network?: string | undefined };

/**
 * Who is kept out, in the memory of this process: asking costs a few look-ups and no round trip. News of changes come over
 * pub/sub at once. Everything is read at the start and after each new connection, the changes of the last minute every few seconds.
 */
export class Bans {
  readonly #known: BanCache;
  /** Callers (`callerOf`) who have to wait after failures → until when. */
  readonly #pauses = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #syncing: Promise<void> | null = null;
  readonly #writer: RuleBanWriter;
  readonly #announced: LocalQuota;
  #lastRead: 'failed' | 'whole' = 'failed';
  /** What was heard while everything is read again, which may not have it. */
  #meanwhile: BanNotification[] = [];

  constructor(readonly deps: BansDeps) {
    const { limits, table, log } = deps;
    this.#known = new BanCache(limits.bansKept, deps.nowMs);
    this.#announced = new LocalQuota(limits.ruleBansPerSecond, 1_000, 1);
    this.#writer = new RuleBanWriter({
      table,
      onDropped: deps.onDropped,
      onTrouble: (error) => log.warn({ reason: String(error) }, 'bans of rules wait for Postgres'),
      limits,
    });
  }

  start(): void {
    const sync = () => {
      this.sync().catch((error: unknown) =>
        this.deps.log.warn({ reason: String(error) }, 'bans could not be read; those that are known stay in force'),
      );
    };
    this.deps.board
      .listen((news) => this.#onNews(news), sync)
      .catch((error: unknown) => this.deps.log.warn({ err: error }, 'bans cannot be heard of'));
    sync();
    this.#timer = setInterval(() => {
      this.#catchUp().catch((error: unknown) =>
        this.deps.log.warn({ reason: String(error) }, 'changes of bans could not be read'),
      );
    }, this.deps.limits.bansSyncEveryMs);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** How many are in force here. */
  get size(): number {
    return this.#known.size;
  }

  /** What keeps this one out, counted; null = let him in. */
  banOf({ user, device, network }: Caller): Ban | null {
    if (this.#known.size === 0) return null;
    const ban =
      this.#found('network', network) ?? this.#found('user', user) ?? this.#found('device', device ?? undefined);
    if (ban) this.deps.onRefused(ban.kind);
    return ban;
  }

  /** @throws Problem 403 for whoever is banned */
  admit(caller: Caller): void {
    const ban = this.banOf(caller);
    if (ban) throw blocked(ban.kind, ban.untilMs, this.deps.nowMs());
  }

  /** @throws Problem 429 for a caller (`callerOf`) who has to wait after failures */
  admitPaused(caller: string): void {
    const untilMs = this.#pauses.get(caller);
    if (untilMs === undefined) return;
    const leftMs = untilMs - this.deps.nowMs();
    if (leftMs <= 0) {
      this.#pauses.delete(caller);
      return;
    }
    this.deps.onRefused('cooldown');
    throw new Problem(
      'rate_limited',
      'Too many attempts with codes have failed. Try again after `Retry-After` seconds.',
      {
        members: { policy: 'cooldown' },
        retryAfterSeconds: Math.max(1, leftMs / 1000),
      },
    );
  }

  /** Whether an operator has said that no rule may keep this one out. */
  isAllowed({ user, device, network }: Caller): boolean {
    const isAllowed = (kind: BanKind, subject: string | null | undefined) =>
      subject !== undefined && subject !== null && this.#known.allowanceOf(kind, subject) !== null;
    return isAllowed('user', user) || isAllowed('device', device) || isAllowed('network', network);
  }

  /**
   * In force here at once and everywhere within a message; Postgres gets it behind the answer's back. Beyond a rate it is in force
   * in this process alone: who makes up what is banned decides how many there are, and other processes find out by the same rule.
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
    this.deps.log.warn({ ban: ban.id, kind, rule, reason }, 'banned by a rule');
    await this.deps.board.put(ban);
    // Redis has it; Postgres gets it now, or when it is back.
    this.#writer.add(ban);
    void this.#writer.flush();
    return ban;
  }

  /** Makes a caller (`callerOf`) wait before the next code, everywhere. */
  async pause(caller: string, forMs: number): Promise<void> {
    const pause = { user: caller, untilMs: Math.ceil(this.deps.nowMs() + forMs) };
    this.#onNews({ kind: 'pause', pause });
    await this.deps.board.pause(pause);
  }

  /** An operator made it and Postgres has it: in force here, then everywhere. */
  async announce(ban: Ban): Promise<void> {
    this.#put(ban);
    await this.deps.board.put(ban);
  }

  async announceLifted(id: string): Promise<void> {
    this.#remove(id);
    await this.deps.board.lift(id);
  }

  /** Reads everything again, and writes to Postgres what a rule made and only Redis has. One at a time. */
  sync(): Promise<void> {
    this.#syncing ??= this.#sync().finally(() => {
      this.#syncing = null;
    });
    return this.#syncing;
  }

  async #sync(): Promise<void> {
    const { board, table, limits } = this.deps;
    this.#meanwhile = [];
    // In this order: what is lifted meanwhile is gone from both.
    const carried = await board.all().catch(() => []);
    let stored: Ban[];
    this.#lastRead = 'failed';
    try {
      stored = await table.inForce(limits.bansKept);
    } catch (error) {
      for (const ban of carried) if (this.#known.isInForce(ban)) this.#put(ban);
      throw error;
    }
    // Oldest first, so that those go first when there is no room.
    const inForce = new Map(stored.reverse().map((ban) => [ban.id, ban]));
    const others = carried.filter(({ id }) => !inForce.has(id));
    const known = others.length > 0 ? await table.known(others.map(({ id }) => id)) : new Set<string>();
    for (const ban of others) {
      if (known.has(ban.id) || !this.#known.isInForce(ban)) continue;
      this.#writer.add(ban);
      inForce.set(ban.id, ban);
    }
    void this.#writer.flush();
    await board.forget(others.filter((ban) => known.has(ban.id) || !this.#known.isInForce(ban)).map(({ id }) => id));
    this.#known.replace(inForce.values());
    this.#lastRead = 'whole';
    for (const news of this.#meanwhile.splice(0)) this.#onNews(news);
  }

  async #catchUp(): Promise<void> {
    const { board, table, limits } = this.deps;
    if (this.#lastRead === 'failed') return this.sync();
    const { over } = this.#known;
    for (const id of over) this.#known.end(id);
    await board.forget(over).catch(() => {});
    await this.#writer.flush();
    for (const ban of await table.changedWithin(limits.bansChangesMs)) {
      if (ban.liftedAt !== null) this.#remove(ban.id);
      else if (this.#known.isInForce(ban) && !this.#known.has(ban.id)) this.#put(ban);
    }
  }

  #onNews(news: BanNotification): void {
    switch (news.kind) {
      case 'put':
        return this.#put(news.ban);
      case 'lifted':
        return this.#remove(news.id);
      case 'pause': {
        const { user, untilMs } = news.pause;
        this.#pauses.delete(user);
        if (this.#pauses.size >= this.deps.limits.pausesKept)
          this.#pauses.delete(this.#pauses.keys().next().value as string);
        this.#pauses.set(user, untilMs);
      }
    }
  }

  #put(ban: Ban): void {
    if (this.#syncing) this.#meanwhile.push({ kind: 'put', ban });
    this.#known.put(ban);
  }

  #remove(id: string): void {
    if (this.#syncing) this.#meanwhile.push({ kind: 'lifted', id });
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

/** A ban as operators and the audit log see it. */
export function banView(ban: Ban) {
  const { id, effect, kind, subject, untilMs, reason, actor } = ban;
  return { id, effect, kind, subject, until: untilMs === null ? null : new Date(untilMs).toISOString(), reason, actor };
}
