import type { Installation } from '../redis/installation.js';
import { keys } from '../redis/keys.js';
import type { ScriptRunner } from '../redis/script-runner.js';
import { keepInstallationScript } from '../sale/scripts/fill.js';

/**
 * Keeps the number of shards and the version of the map of campaigns in a shard, unless it has a later version.
 * @throws EngineUnavailable
 */
export async function keepInstallation(scripts: ScriptRunner, { shards, version }: Installation): Promise<void> {
  await scripts.run(keepInstallationScript, { keys: { installation: keys.installation }, args: { shards, version } });
}
