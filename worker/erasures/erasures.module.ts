import { LRUCache } from 'lru-cache';
import { LIMITS } from '../../shared/config/limits.js';
import { BansTable } from '../../shared/postgres/bans.js';
import { Erasures, type OpenErasure } from '../../shared/postgres/erasures.js';
import { BanStore } from '../../shared/redis/ban-store.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import { untilWritten } from '../../shared/shards/until-written.js';
import type { Core } from '../core.js';
import { EraseUser, type EraseUserDeps } from './erase-user.js';

/** Each spends most of its time waiting for attempts that other processes have not written yet. */
const AT_ONCE = 4;
const WAIT_MS = 15_000;
const WAITING_KEPT = 10_000;

/** Returns the sweep that erases the users for whom an operator asked it (DELETE /admin/users/:user_id). */
export function eraseUsers(
  { database, shards, clock, log }: Core,
  { rows, claims }: Pick<EraseUserDeps, 'rows' | 'claims'>,
): () => Promise<void> {
  const erasures = new Erasures(database);
  const bans = new BansTable(database);
  const store = new BanStore(shards.home.commands, shards.home.commands, LIMITS.deviceBanMs, () => clock.nowMs());
  const erasure = new EraseUser({
    ...{ erasures, rows, claims },
    stream: new EventStream(shards.home.scripts, LIMITS.eventStreamLength),
    persisted: async () => {
      await Promise.all(shards.all.map((shard) => untilWritten(database, shard)));
    },
    liftBan: async (id, actor) => {
      await database.transaction((client) => bans.lift(id, actor, client));
      await store.lift(id);
    },
    limits: LIMITS,
  });
  /** Users who wait or hold something. They are looked at again when they are not in it any more. */
  const waiting = new LRUCache<string, true>({ max: WAITING_KEPT, ttl: WAIT_MS });
  const eraseOne = async (one: OpenErasure) => {
    if (waiting.has(one.id)) return;
    try {
      const outcome = await erasure.erase(one);
      if (outcome === 'waits') waiting.set(one.id, true);
      else log.info({ erasure: one.id, outcome }, 'user.erase');
    } catch (error) {
      // The next run tries it again. Others may be of a shard that is there.
      log.warn({ erasure: one.id, err: error }, 'a user could not be erased');
    }
  };
  // A run that was too long is continued by the next one.
  let after: string | null = null;
  return async () => {
    const until = performance.now() + LIMITS.eraseMs;
    do {
      const page: OpenErasure[] = await erasures.open(AT_ONCE, after);
      await Promise.all(page.map(eraseOne));
      after = page.length < AT_ONCE ? null : (page.at(-1)?.id ?? null);
    } while (after !== null && performance.now() < until);
  };
}
