import type { Findings } from '../../commands/reconcile/findings.js';
import type { RepairDeps } from '../../commands/reconcile/repair-shard.js';
import { type RestoreOptions, restoreTogether } from '../../commands/reconcile/restore.js';

/** Repairs Postgres from the only shard. */
export async function restorePostgres(deps: RepairDeps, options: RestoreOptions): Promise<Findings> {
  const [findings] = await restoreTogether([deps], options);
  if (!findings) throw new Error('a shard has no findings');
  return findings;
}
