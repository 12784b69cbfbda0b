import { createHash, randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type pg from 'pg';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from './cleanup.js';
import { Operator, send } from './clients.js';
import { runProgram } from './programs.js';
import { startService } from './service.js';
import { checkoutInTurn, gatherShoppers } from './shoppers.js';
import { until } from './until.js';

// `npm run backup` and `npm run restore`, as an operator calls them.

export const service = await startService();
export const operator = new Operator(service.url);
export const folder = mkdtempSync(join(tmpdir(), 'doorbuster-backup-'));
atEnd('the backups', () => rmSync(folder, { recursive: true, force: true }));

export const run = (
  command: 'backup' | 'restore' | 'audit',
  args: readonly string[],
  env: NodeJS.ProcessEnv = service.env,
) => runProgram(process.execPath, [join(projectRoot(), 'scripts/command.mjs'), command, ...args], env);

/** Table → number and digest of its rows; processes report all the time. */
export async function contentsOf(sql: pg.Client): Promise<Record<string, string>> {
  const { rows } = await sql.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
       and not relispartition and relname !~ '^(schema_migrations|journal_processes|journal_histories|outbox_cursors)'
     order by 1`,
  );
  const digests: Record<string, string> = {};
  for (const { name } of rows) {
    const all = await sql.query<{ text: string }>(`select t::text as text from ${name} t order by 1`);
    const digest = createHash('sha256')
      .update(all.rows.map(({ text }) => text).join('\n'))
      .digest('hex');
    digests[name] = `${all.rows.length} ${digest}`;
  }
  return digests;
}

export const sell = async (product: string, count: number) =>
  (await checkoutInTurn(gatherShoppers(service.url, product, count))).map(({ status }) => status);

export const redeem = (code: string) =>
  send(`${service.url}/coupons/redeem`, {
    method: 'POST',
    json: { code, user_id: 'user-of-a-code', order_id: `order-${randomUUID()}`, idempotency_key: randomUUID() },
  });

export async function allPersisted(product: string): Promise<void> {
  await until('all is in Postgres', async () => (await operator.stats(product)).journal_backlog === 0);
}
