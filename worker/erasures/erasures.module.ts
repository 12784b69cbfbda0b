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

/** Returns the sweep that erases the users for whom an operator asked it (DELETE /admin/users/:user_id). */
export function eraseUsers(
  { database, shards, clock, log }: Core,
  { rows, claims }: Pick<EraseUserDeps, 'rows' | 'claims'>,
): () => Promise<void> {
  const erasures = new Erasures(database);
  const bans = new BansTable(database);
  const store = new BanStore(shards.home.commands, shards.home.commands, LIMITS.abuse.deviceBanMs, () => clock.nowMs());
  const erasure = new EraseUser({
    ...{ erasures, rows, claims },
    stream: new EventStream(shards.home.scripts, LIMITS.events.streamLength),
    persisted: async () => {
      await Promise.all(shards.all.map((shard) => untilWritten(database, shard)));
    },
    liftBan: async (id, actor) => {
      await database.transaction((client) => bans.lift(id, actor, client));
      await store.lift(id);
    },
    limits: { ...LIMITS.erasures, publishWaitMs: LIMITS.events.publishWaitMs },
  });
  const eraseOne = async (one: OpenErasure) => {
    try {
      const outcome = await erasure.erase(one);
      if (outcome === 'waits') await erasures.later(one.id, LIMITS.erasures.wait);
      else log.info({ erasure: one.id, outcome }, 'user.erase');
    } catch (error) {
      // It is tried again after `retryMs`. Others may be of a shard that is there.
      log.warn({ erasure: one.id, err: error }, 'a user could not be erased');
    }
  };
  return async () => {
    const until = performance.now() + LIMITS.erasures.runMs;
    let taken: OpenErasure[];
    do {
      taken = await erasures.take(AT_ONCE, LIMITS.erasures.retryMs);
      await Promise.all(taken.map(eraseOne));
    } while (taken.length === AT_ONCE && performance.now() < until);
  };
}
