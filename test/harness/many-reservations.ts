import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { projectRoot } from '../../shared/config/project-root.js';
import { keys } from '../../shared/redis/keys.js';
import type { TestCampaign } from './campaign.js';
import type { Persistence } from './persistence.js';
import type { Sale } from './sale.js';

/** What the id of each reservation ends with; before it come eight digits, from 00000001. */
export function suffixOf({ terms }: TestCampaign): string {
  return `-0000-7000-8000-0000${terms.no.toString(16).padStart(8, '0')}`;
}

/** Makes reservations of a new campaign in Redis, all of them paid, as if they had been made there. */
export async function fillRedis({ redis }: Sale, campaign: TestCampaign, reservations: number): Promise<void> {
  await redis.eval(
    `for i = 1, ${reservations} do
       redis.call('HSET', KEYS[1], string.format('%08x', i) .. ARGV[1], 'redeemed|user-' .. i .. '|1|1|0|0|order-' .. i .. '|')
     end`,
    1,
    keys.reservations(campaign.product),
    suffixOf(campaign),
  );
  await campaign.set({ redeemed: reservations, free: Number(campaign.terms.totalLimit) - reservations });
}

/** Runs a command of operators with a limit of its memory. @returns its output @throws when it fails */
export function runWithin(
  heapMb: number,
  { sale, url }: Persistence,
  command: string,
  args: readonly string[],
): Promise<string> {
  const main = join(projectRoot(), 'dist/commands', `${command}.js`);
  const env = { PATH: process.env.PATH, REDIS_URL: sale.engine.url, DATABASE_URL: url };
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [`--max-old-space-size=${heapMb}`, main, ...args], { env }, (error, stdout) =>
      error ? reject(error) : resolve(stdout),
    );
  });
}
