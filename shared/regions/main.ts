import { userInfo } from 'node:os';
import { parseArgs } from 'node:util';
import { ConfigError, readCommandConfig } from '../config/config.js';
import { LIMITS } from '../config/limits.js';
import type { RegionsConfig } from '../config/regions.js';
import { campaignNumbersOf, type RegionName } from '../domain/regions.js';
import { writeAudit } from '../postgres/audit-log.js';
import { Database } from '../postgres/pool.js';
import { failOverRegion, joinRegion, type RegionState, readRegionState } from '../postgres/region-state.js';
import { RegionTransfers } from '../postgres/region-transfers.js';

/** `npm run regions`: see scripts/regions.mjs for its arguments. */
const STATEMENT_MS = 30_000;
const ASK_MS = 3_000;
const MAX_SHOWN = 100;

/** The command was not carried out, for a reason that the operator can remove. */
class Refused extends Error {}

const print = (line: string) => void process.stdout.write(`${line}\n`);
const { action, name } = options();
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
  else if (action === 'failover') await failOver(state, name);
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

/**
 * Makes this installation the owner of its region instead of a lost one.
 * @param name as the operator typed it
 */
async function failOver({ region, epoch, learnt }: RegionState, name: string): Promise<void> {
  const { own } = config;
  if (name !== own)
    throw new Refused(`This installation is ${own}, not ${name}. Run the command where REGION is ${name}.`);
  if (region !== own)
    throw new Refused(`This database is of ${region ?? 'no region'}. Restore the one of ${own} first.`);
  const others = await askOthers();
  for (const { name: other, problem } of others)
    print(problem === null ? `asked ${other}` : `not asked: ${other}, ${problem}`);
  const reaching = others.filter(({ reached }) => reached.includes(own));
  const places = [
    ...((await answers(config.url)) ? [config.url] : []),
    ...reaching.map(({ name: other }) => `the URL that ${other} has for it`),
  ];
  if (places.length > 0)
    throw new Refused(
      `${own} answers at ${places.join(' and at ')}. Stop the lost installation and its load balancer, then repeat.`,
    );
  const next = Math.max(epoch ?? 0, learnt.get(own) ?? 0, ...others.map(({ known }) => known)) + 1;
  await database.transaction(async (client) => {
    await failOverRegion(client, own, next);
    await audit(client, 'region.failover', { region: own, epoch: next });
  });
  print(`${own} has epoch ${next} now, and this installation owns it.`);
  print('Promises that were not in the restored database are lost.');
  print(`Start the workers and the APIs, and set the URL of ${own} in REGIONS everywhere.`);
}

/** Whether anything replies at the URL of a region, with any status: then it is not stopped. */
async function answers(url: string): Promise<boolean> {
  try {
    await fetch(`${url}/livez`, { redirect: 'manual', signal: AbortSignal.timeout(ASK_MS) });
    return true;
  } catch {
    return false;
  }
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

type Other = {
  name: RegionName;
  /** The epoch of this region that the other one knows. */
  known: number;
  serves: boolean;
  /** The regions that can be called from there. */
  reached: readonly RegionName[];
  problem: string | null;
};

type BeatReply = { serves: boolean; epochs: Record<string, number>; reached?: string[] };

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
        const { data } = (await response.json()) as { data: BeatReply };
        const { serves, epochs, reached = [] } = data;
        return { name, known: epochs[config.own] ?? 0, serves, reached, problem: null };
      } catch (error) {
        return failed(name, error instanceof Error ? error.message : String(error));
      }
    }),
  );
}

function failed(name: RegionName, reason: string): Other {
  return { name, known: 0, serves: false, reached: [], problem: `cannot be reached: ${reason}` };
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

/** `name`: of the region that `failover` takes over; "" for other actions. */
function options(): { action: 'show' | 'join' | 'failover'; name: string } {
  try {
    const { positionals } = parseArgs({ allowPositionals: true, options: {} });
    const [action = 'show', name = '', ...more] = positionals;
    if ((action === 'show' || action === 'join') && name === '') return { action, name };
    if (action === 'failover' && name !== '' && more.length === 0) return { action, name };
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
