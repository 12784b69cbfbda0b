import type { Queryable } from './pool.js';

/** A worker that has not reported itself for this long is not counted. It reports every second. */
const SEEN_WITHIN_SECONDS = 15;

/** Names of the workers that are alive. */
export async function liveWorkers(database: Queryable): Promise<string[]> {
  const { rows } = await database.query<{ process_id: string }>(
    `select distinct process_id from journal_processes
     where kind = 'worker' and seen_at > clock_timestamp() - make_interval(secs => $1) order by process_id`,
    [SEEN_WITHIN_SECONDS],
  );
  return rows.map(({ process_id }) => process_id);
}
