import { foreignFormat } from '../../shared/domain/format.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import { otherNumber } from '../../shared/history/history-watch.js';
import { askRedis } from '../../shared/redis/ask-redis.js';
import { isBehind } from '../../shared/redis/continuity.js';
import { decodeEpoch } from '../../shared/redis/epoch.js';
import { readForeignFormat } from '../../shared/redis/format.js';
import { type Installation, readInstallation } from '../../shared/redis/installation.js';
import { generationOf } from '../../shared/redis/journal-ids.js';
import { keys } from '../../shared/redis/keys.js';
import { parseInfo } from '../../shared/redis/redis-requirements.js';
import type { Look } from './diagnosis.js';
import type { RecoveryDeps } from './recovery-deps.js';

type Deps = Pick<RecoveryDeps, 'sale' | 'journal' | 'watch' | 'histories' | 'cursor'>;

/** SHARDS is not the number of shards of the installation, or Postgres was set back and lacks a change of it. */
export class OtherNumber extends EngineUnavailable {}

/**
 * Reads the current state of Redis, its journal and Postgres. `kept`: what Redis knows of its installation.
 * @throws EngineUnavailable, OtherNumber
 */
export async function lookAt(deps: Deps): Promise<Look & { role: string; kept: Installation | null }> {
  const { sale, journal, watch, histories, cursor } = deps;
  const { redis } = sale.scripts;
  // The cursor is read first, because it may move meanwhile. Read in this order, an up-to-date journal never ends
  // before the cursor.
  const postgres = await watch.beat();
  const [foreign, text, epoch, kept, position] = await Promise.all([
    askRedis(() => readForeignFormat(redis)),
    askRedis(() => redis.call('INFO', 'replication') as Promise<string>),
    askRedis(() => redis.get(keys.epoch)),
    readInstallation(redis),
    journal.position(),
  ]);
  if (foreign !== null) throw new EngineUnavailable('redis', foreignFormat('Redis', foreign));
  const other = otherNumber(kept, { shards: postgres.shards, version: postgres.mapVersion }, histories.shards);
  if (other) throw new OtherNumber('postgres', other);
  const info = parseInfo(text);
  const firstBegins = position.firstId && (await histories.beginningOf(generationOf(position.firstId)));
  const seemsBehind = isBehind(postgres.cursor, position, firstBegins);
  return {
    role: info.get('role') ?? '',
    server: info.get('master_replid') ?? '',
    epoch: epoch === null ? null : decodeEpoch(epoch),
    journal: position,
    postgres,
    cursorAfter: seemsBehind ? await cursor.read() : postgres.cursor,
    firstBegins,
    kept,
  };
}
