import { userInfo } from 'node:os';
import { parseArgs } from 'node:util';
import { ConfigError, readCommandConfig } from '../config/config.js';
import { LIMITS } from '../config/limits.js';
import type { RegionsConfig } from '../config/regions.js';
import { campaignNumbersOf, type RegionName } from '../domain/regions.js';
import { writeAudit } from '../postgres/audit-log.js';
import { Database } from '../postgres/pool.js';
import { joinRegion, type RegionState, readRegionState, takeOverRegion } from '../postgres/region-state.js';
import { RegionTransfers } from '../postgres/region-transfers.js';

/** `npm run regions`: see scripts/regions.mjs for its arguments. */
const STATEMENT_MS = 30_000;
const ASK_MS = 3_000;
const MAX_SHOWN = 100;

/** The command was not carried out, for a reason that the operator can remove. */
class Refused extends Error {}

const print = (line: string) => void process.stdout.write(`${line}\n`);
const { action, yes } = options();
const { config, databaseUrl } = configuration();
const database = new Database({
  url: databaseUrl,
  name: 'doorbuster-regions',
  connections: 1,
  statementMs: STATEMENT_MS,
  connectMs: LIMITS.commandConnectMs,
  onError: () => {},
});
try {
  const state = await readRegionState(database);
  if (action === 'join') await join(state);
  else if (action === 'take-over') await takeOver(state);
  else await show(state);
} catch (error) {
  const reason = error instanceof Error ? error.message : String(error);
  process.stderr.write(error instanceof Refused ? `refused: ${reason}\n` : `it failed: ${reason}\n`);
  process.exitCode = error instanceof Refused ? 1 : 2;
} finally {
  await database.close();
}

async function join({ region, epoch }: RegionState): Promise<void> {
  if (region === config.own) return print(`this installation is ${region} already, with epoch ${epoch}`);
  if (region !== null) throw new Refused(`This installation is ${region}. A region is never renamed.`);
  const numbers = campaignNumbersOf(config.own, config.layout);
  const foreign = await database.transaction(async (client) => {
    const foreignNumbers = await joinRegion(client, config.own, numbers);
    if (foreignNumbers === 0) await audit(client, 'region.join', { region: config.own, epoch: 1 });
    return foreignNumbers;
  });
  if (foreign > 0)
    throw new Refused(
      `${foreign} campaigns have numbers outside of ${numbers.first} to ${numbers.last}, those of ${config.own}. ` +
        'An installation that has campaigns already must be the first of REGIONS.',
    );
  print(`this installation is ${config.own} now, with epoch 1; its campaigns get the numbers from ${numbers.first}`);
}

async function takeOver({ region, epoch, learnt }: RegionState): Promise<void> {
  if (region !== config.own)
    throw new Refused(`This database is of ${region ?? 'no region'}. Restore the one of ${config.own} first.`);
  const others = await askOthers();
  const highest = Math.max(epoch ?? 0, learnt.get(config.own) ?? 0, ...others.map(({ known }) => known));
  for (const { name, problem } of others) print(problem === null ? `asked ${name}` : `not asked: ${name}, ${problem}`);
  print(`${config.own} has epoch ${highest}; this installation would own it under epoch ${highest + 1}.`);
  print('The old installation refuses to serve as soon as it reaches another region, or another region reaches it.');
  print(
    'Until then it goes on. Make sure that it is stopped, or that no client reaches it: nothing else excludes that',
  );
  print('both redeem the same code. Promises that were not in the restored database are lost.');
  if (!yes) return print('To do it, repeat the command with --yes.');
  await database.transaction(async (client) => {
    await takeOverRegion(client, config.own, highest + 1);
    await audit(client, 'region.take_over', { region: config.own, epoch: highest + 1 });
  });
  print(`done. Start the workers and the APIs, and set the URL of ${config.own} in REGIONS everywhere.`);
}

async function show({ region, epoch, learnt }: RegionState): Promise<void> {
  const owner = learnt.get(config.own) ?? 0;
  const state =
    region === null
      ? 'has not joined: npm run regions -- join'
      : owner > (epoch ?? 0)
        ? `does not serve: another installation owns it since epoch ${owner}`
        : `serves with epoch ${epoch}`;
  print(`${config.own} (this installation, which is ${region ?? 'no region'}) ${state}`);
  for (const { name, problem, serves } of await askOthers())
    print(`${name} ${problem ?? (serves ? 'can be called and serves' : 'can be called and does not serve')}`);
  const open = await new RegionTransfers(database).unfinished(MAX_SHOWN);
  for (const { id, product, direction, region: other, units, status, detail } of open)
    print(
      `transfer ${id}: ${units} of ${product} ${direction === 'out' ? 'to' : 'from'} ${other} ${status} ${detail ?? ''}`,
    );
}

type Other = { name: RegionName; known: number; serves: boolean; problem: string | null };

/** Asks the APIs of the other regions which epoch they know for this one. */
function askOthers(): Promise<Other[]> {
  return Promise.all(
    config.peers.map(async ({ name, url }): Promise<Other> => {
      try {
        const response = await fetch(`${url}/regions/beat`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'doorbuster-region-key': config.keys[0]?.secret ?? '' },
          // A very high number, because the campaigns are not needed.
          body: JSON.stringify({ region: config.own, layout: '', epochs: {}, campaigns_after: 2 ** 31 - 1 }),
          signal: AbortSignal.timeout(ASK_MS),
        });
        if (response.status !== 200) return failed(name, `it replied with ${response.status}`);
        const { data } = (await response.json()) as { data: { serves: boolean; epochs: Record<string, number> } };
        return { name, known: data.epochs[config.own] ?? 0, serves: data.serves, problem: null };
      } catch (error) {
        return failed(name, error instanceof Error ? error.message : String(error));
      }
    }),
  );
}

function failed(name: RegionName, reason: string): Other {
  return { name, known: 0, serves: false, problem: `cannot be reached: ${reason}` };
}

function audit(client: Parameters<typeof writeAudit>[0], does: string, after: Record<string, unknown>): Promise<void> {
  return writeAudit(client, {
    actor: `npm run regions (${userInfo().username})`,
    action: does,
    campaignId: null,
    before: null,
    after,
    requestId: '',
  });
}

function options(): { action: 'show' | 'join' | 'take-over'; yes: boolean } {
  try {
    const { values, positionals } = parseArgs({ allowPositionals: true, options: { yes: { type: 'boolean' } } });
    const [given = 'show', ...more] = positionals;
    const known = (['show', 'join', 'take-over'] as const).find((one) => one === given);
    if (known && more.length === 0) return { action: known, yes: values.yes ?? false };
    process.stderr.write(`unknown: ${positionals.join(' ')}; see npm run regions -- --help\n`);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  }
  process.exit(2);
}

function configuration(): { config: RegionsConfig; databaseUrl: string } {
  try {
    const given = readCommandConfig();
    if (given.regions) return { config: given.regions, databaseUrl: given.databaseUrl };
    process.stderr.write('REGION is missing: this installation is not one of several regions\n');
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\n`);
  }
  process.exit(2);
}
