import { Refused } from '../../shared/errors/faults.js';
import { raiseMapVersion, readSharding } from '../../shared/postgres/installation.js';
import type { Database, Queryable } from '../../shared/postgres/pool.js';
import type { Installation } from '../../shared/redis/installation.js';

/** A worker that has reported within this time is running. */
const ALIVE_SECONDS = 5;

/** Workers run, so the journals cannot be brought to an end. */
export class WorkersRun extends Error {
  override readonly name = 'WorkersRun';
}

/** @throws WorkersRun when a worker other than this process runs */
export async function requireNoWorkers(database: Queryable, processId: string): Promise<void> {
  const { rows } = await database.query<{ process_id: string }>(
    `select process_id from journal_processes where kind = 'worker' and split_part(process_id, '/', 1) <> $1
       and seen_at > clock_timestamp() - make_interval(secs => ${ALIVE_SECONDS})`,
    [processId],
  );
  const names = [...new Set(rows.map(({ process_id }) => process_id.split('/')[0]))];
  if (names.length > 0)
    throw new WorkersRun(`${names.join(', ')} ${names.length > 1 ? 'run' : 'runs'}: stop all workers first`);
}

/** @throws Refused when there is a campaign with more buckets, each of which needs a shard of its own */
export async function requireShardsForBuckets(database: Queryable, shards: number): Promise<void> {
  const { rows } = await database.query<{ product_id: string; buckets: number }>(
    'select product_id, buckets from campaigns where buckets > $1 order by buckets desc, product_id limit 1',
    [shards],
  );
  const [found] = rows;
  if (found)
    throw new Refused(
      `${found.product_id} is divided into ${found.buckets} buckets, and each needs a shard of its own`,
    );
}

export type OldShard = {
  /** Takes the shard out of service for good, with its journal persisted. Resolves to its last generation. */
  retire: () => Promise<number | null>;
  /** Keeps in Redis that the installation has another number of shards. */
  keep: (installation: Installation) => Promise<void>;
  /** Removes the campaigns from Redis. Records of requests expire by themselves. */
  clear: () => Promise<void>;
};

/** A shard served again before the new number was recorded. */
export class ServedAgain extends Error {
  override readonly name = 'ServedAgain';
}

/**
 * Changes the number of shards: takes every shard out of service, persists its journal, and records the new number.
 * The campaigns and their buckets are in Postgres then. Workers that start with the new SHARDS fill the new shards.
 * Before the new number is recorded, an interruption changes nothing: workers with the old SHARDS put the old shards
 * into service again.
 * @throws ServedAgain when that happened while this command ran; nothing has changed
 * @throws Refused when a campaign was created meanwhile that has more buckets; nothing has changed
 */
export async function changeShards(
  database: Database,
  processId: string,
  old: readonly OldShard[],
  shards: number,
  say: (line: string) => void,
): Promise<void> {
  const generations: (number | null)[] = [];
  for (const [index, { retire }] of old.entries()) {
    generations.push(await retire());
    say(`shard ${index} is out of service, and Postgres has everything`);
  }
  await database.transaction(async (client) => {
    // A worker registers a history under these locks, and refuses to when the number has changed.
    await client.query('select 1 from journal_cursor order by shard for update');
    await requireNoWorkers(client, processId);
    const { rows } = await client.query<{ shard: number }>(
      `select h.shard from unnest($1::bigint[]) with ordinality as n(generation, position)
         join journal_histories h on h.shard = n.position - 1 and h.generation > coalesce(n.generation, 0)
       limit 1`,
      [generations],
    );
    if (rows[0]) throw new ServedAgain(`shard ${rows[0].shard} served again meanwhile; nothing has changed`);
    await client.query('update installation set left_shards = shards, shards = $1', [shards]);
    await raiseMapVersion(client);
    // No API creates a campaign for the old number any more.
    await requireShardsForBuckets(client, shards);
    await client.query('update campaigns set shard = null where shard is not null');
    await client.query(
      `insert into journal_cursor (shard, last_id)
       select n, '0-0' from generate_series(0, $1::int - 1) n on conflict do nothing`,
      [shards],
    );
  });
  say(`this installation has ${shards} shards now`);
  await clearOldShards(database, old, say);
}

/**
 * Removes the campaigns of the shards that were left. An interrupted command is completed by this when it is repeated.
 */
export async function clearOldShards(
  database: Database,
  old: readonly Pick<OldShard, 'keep' | 'clear'>[],
  say: (line: string) => void,
): Promise<void> {
  const installation = await readSharding(database);
  for (const { keep } of old) await keep(installation);
  for (const { clear } of old) await clear();
  await database.query('update installation set left_shards = null');
  say('the campaigns of the old shards were removed from Redis');
}
