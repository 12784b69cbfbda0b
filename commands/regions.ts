import { userInfo } from 'node:os';
import { parseArgs } from 'node:util';
import { readCommandConfig } from '../shared/config/config.js';
import { LIMITS } from '../shared/config/limits.js';
import type { RegionsConfig } from '../shared/config/regions.js';
import { campaignNumbersOf, type RegionName } from '../shared/domain/regions.js';
import { Refused } from '../shared/errors/faults.js';
import { writeAudit } from '../shared/postgres/audit-log.js';
import type { Database } from '../shared/postgres/pool.js';
import { failOverRegion, joinRegion, type RegionState, readRegionState } from '../shared/postgres/region-state.js';
import { RegionTransfers } from '../shared/postgres/region-transfers.js';
import { connectDatabase, runCommand, type Terminal } from './command.js';
import { callRegion } from './command-regions.js';
import { listLost } from './regions/lost.js';

const USAGE = `usage: npm run regions                         shows this region, whether the others can be called, and open transfers
       npm run regions -- join                 makes this installation the region that REGION names, once
       npm run regions -- failover NAME        makes this installation the owner of its region NAME instead of a lost one
         --without OTHER   although OTHER cannot be asked; once for each such region
       npm run regions -- lost                 lists again what the last failover lost

join gives the campaigns of this installation numbers that no other region has. An installation that has campaigns already
must be the first of REGIONS.

failover is for an installation that was restored from the database of a lost region. Stop the lost installation first. The
command refuses while anything answers at the URL of the region in REGIONS, or while another region reaches it. Then it
raises the epoch of the region, and tells the other regions. An old installation that starts again serves nothing until
another region has replied, and refuses to serve once it learns of the new epoch. A region that does not know of it cannot say
so: the command refuses while one cannot be asked, unless it is named with --without. docs/regions.md has the steps.

At its end it lists the decisions of the lost region that other regions returned to clients and that the restored database
lacks. If there are more than 100, all are in a file of JSON lines. lost prints that list again, for a week.

Exit code 0 when done, 1 when refused, 2 when it failed. REGION, REGIONS and REGION_KEYS are read as by the API; DATABASE_URL
names Postgres, without it that of \`npm start\`.
`;

const STATEMENT_MS = 30_000;
const ASK_MS = 3_000;
const MAX_SHOWN = 100;
const KEPT_DAYS = LIMITS.regions.acknowledgementsKeepMs / 86_400_000;

type Options = { action: 'show' | 'join' | 'lost' } | { action: 'failover'; name: string; without: readonly string[] };

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

class Regions {
  constructor(
    readonly config: RegionsConfig,
    readonly database: Database,
    readonly terminal: Pick<Terminal, 'print' | 'warn'>,
  ) {}

  get print(): Terminal['print'] {
    return this.terminal.print;
  }

  async join({ region, epoch }: RegionState): Promise<void> {
    if (region === this.config.own) return this.print(`this installation is ${region} already, with epoch ${epoch}`);
    if (region !== null) throw new Refused(`This installation is ${region}. A region is never renamed.`);
    const numbers = campaignNumbersOf(this.config.own, this.config.layout);
    const foreign = await this.database.transaction(async (client) => {
      const foreignNumbers = await joinRegion(client, this.config.own, numbers);
      if (foreignNumbers === 0) await audit(client, 'region.join', { region: this.config.own, epoch: 1 });
      return foreignNumbers;
    });
    if (foreign > 0)
      throw new Refused(
        `${foreign} campaigns have numbers outside of ${numbers.first} to ${numbers.last}, those of ${this.config.own}. ` +
          'An installation that has campaigns already must be the first of REGIONS.',
      );
    this.print(
      `this installation is ${this.config.own} now, with epoch 1; its campaigns get the numbers from ${numbers.first}`,
    );
  }

  /**
   * Makes this installation the owner of its region instead of a lost one.
   * @param name as the operator typed it
   * @param without regions that may be away
   */
  async failOver({ region, epoch, learnt }: RegionState, name: string, without: readonly string[]): Promise<void> {
    const { own } = this.config;
    if (name !== own)
      throw new Refused(`This installation is ${own}, not ${name}. Run the command where REGION is ${name}.`);
    if (region !== own)
      throw new Refused(`This database is of ${region ?? 'no region'}. Restore the one of ${own} first.`);
    const others = await this.#askOthers();
    for (const { name: other, problem } of others)
      this.print(problem === null ? `asked ${other}` : `not asked: ${other}, ${problem}`);
    const unknown = without.find((other) => !others.some(({ name: one }) => one === other));
    if (unknown !== undefined) throw new Refused(`${unknown} is no other region of REGIONS.`);
    const missing = others.filter(({ name: other, problem }) => problem !== null && !without.includes(other));
    if (missing.length > 0)
      throw new Refused(
        `Not every region can be asked. The old ${own} would serve if it starts again and reaches only one that does not know ` +
          `of its replacement. Repeat when they reply, or with ${missing.map(({ name: other }) => `--without ${other}`).join(' ')}.`,
      );
    const reaching = others.filter(({ reached }) => reached.includes(own));
    const places = [
      ...((await answers(this.config.url)) ? [this.config.url] : []),
      ...reaching.map(({ name: other }) => `the URL that ${other} has for it`),
    ];
    if (places.length > 0)
      throw new Refused(
        `${own} answers at ${places.join(' and at ')}. Stop the lost installation and its load balancer, then repeat.`,
      );
    const ended = await this.#endOfDatabase();
    const highest = Math.max(epoch ?? 0, learnt.get(own) ?? 0, ...others.map(({ known }) => known));
    const next = await this.database.transaction(async (client) => {
      const epoch = await failOverRegion(client, own, highest);
      await audit(client, 'region.failover', { region: own, epoch, ended_at: ended?.toISOString() ?? null });
      return epoch;
    });
    this.print(`${own} has epoch ${next} now, and this installation owns it.`);
    await this.#tell(others, next);
    this.print(
      ended
        ? `The restored database ends at ${ended.toISOString()}. What the lost region acknowledged later is lost.`
        : 'The restored database has no promise. What the lost region acknowledged is lost.',
    );
    this.print(`Start the workers and the APIs, and set the URL of ${own} in REGIONS everywhere.`);
    await this.#listLost(next);
    this.print(
      'npm run ledger -- <product_id> --regions compares the transfers of a product that several regions sell.',
    );
  }

  /** Lists again what hand-overs to this installation have lost. */
  async lost({ region, epoch }: RegionState): Promise<void> {
    const { own } = this.config;
    if (region !== own) throw new Refused(`This database is of ${region ?? 'no region'}, not of ${own}.`);
    await this.#listLost(epoch ?? 0);
  }

  /** The first failover of the time counts, because another one may be run when the replacement serves already. */
  async #listLost(epochsBelow: number): Promise<void> {
    const { rows } = await this.database.query<{ ended: Date }>(
      `select coalesce((after ->> 'ended_at')::timestamptz, to_timestamp(0)) as ended from audit_log
       where chain = 'operator:service' and action = 'region.failover'
         and at > now() - make_interval(secs => $1::float8 / 1000) order by ended limit 1`,
      [LIMITS.regions.acknowledgementsKeepMs],
    );
    const [first] = rows;
    if (!first)
      throw new Refused(
        `No failover to this installation in the last ${KEPT_DAYS} days, for which other regions record what they return.`,
      );
    await listLost(this.config, this.database, this.terminal, { epochsBelow, ended: first.ended });
  }

  /** Tells the other regions of the new epoch: an old installation learns of it from whichever it reaches first. */
  async #tell(others: readonly Other[], epoch: number): Promise<void> {
    for (const { name, problem } of others) {
      const why = problem ?? (await this.#ask(name, { [this.config.own]: epoch })).problem;
      if (why !== null) this.print(`not told: ${name}. Keep the old installation away from it until it replies here.`);
    }
  }

  /** Until when the restored database has what the lost region acknowledged; null = it has no promise. */
  async #endOfDatabase(): Promise<Date | null> {
    const { rows } = await this.database.query<{ at: Date | null }>(
      `select greatest((select max(updated_at) from journal_cursor), (select max(reserved_at) from redemptions)) as at`,
    );
    return rows[0]?.at ?? null;
  }

  async show({ region, epoch, learnt }: RegionState): Promise<void> {
    const owner = learnt.get(this.config.own) ?? 0;
    const state =
      region === null
        ? 'has not joined: npm run regions -- join'
        : owner > (epoch ?? 0)
          ? `does not serve: another installation owns it since epoch ${owner}`
          : `serves with epoch ${epoch}`;
    this.print(`${this.config.own} (this installation, which is ${region ?? 'no region'}) ${state}`);
    for (const { name, problem, serves } of await this.#askOthers())
      this.print(`${name} ${problem ?? (serves ? 'can be called and serves' : 'can be called and does not serve')}`);
    const open = await new RegionTransfers(this.database).unfinished(MAX_SHOWN);
    for (const { id, product, direction, region: other, units, status, detail } of open)
      this.print(
        `transfer ${id}: ${units} of ${product} ${direction === 'out' ? 'to' : 'from'} ${other} ${status} ${detail ?? ''}`,
      );
  }

  /** Asks the APIs of the other regions which epoch they know for this one. */
  #askOthers(): Promise<Other[]> {
    return Promise.all(this.config.peers.map(({ name }) => this.#ask(name, {})));
  }

  /** @param epochs what the region learns */
  async #ask(name: RegionName, epochs: Record<RegionName, number>): Promise<Other> {
    try {
      // A very high number, because the campaigns are not needed.
      const beat = { region: this.config.own, layout: '', epochs, campaigns_after: 2 ** 31 - 1 };
      const reply = await callRegion<BeatReply>(this.config, name, 'beat', beat);
      const { serves, reached = [] } = reply;
      return { name, known: reply.epochs[this.config.own] ?? 0, serves, reached, problem: null };
    } catch (error) {
      return failed(name, error instanceof Error ? error.message : String(error));
    }
  }
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

await runCommand<Options>({
  usage: USAGE,
  parse(args) {
    const { positionals, values } = parseArgs({
      args,
      allowPositionals: true,
      options: { without: { type: 'string', multiple: true, default: [] } },
    });
    const { without } = values;
    const [action = 'show', name, ...more] = positionals;
    if (!['show', 'join', 'failover', 'lost'].includes(action)) throw new TypeError(`There is no action ${action}`);
    const isAlone = name === undefined && without.length === 0;
    if (isAlone && (action === 'show' || action === 'join' || action === 'lost')) return { action };
    return action === 'failover' && name !== undefined && more.length === 0 ? { action, name, without } : null;
  },
  async run(options, terminal) {
    const { regions, databaseUrl } = readCommandConfig();
    if (!regions) throw new Error('REGION is missing: this installation is not one of several regions');
    const database = connectDatabase('regions', databaseUrl, STATEMENT_MS, 1);
    try {
      const command = new Regions(regions, database, terminal);
      const state = await readRegionState(database);
      if (options.action === 'join') await command.join(state);
      else if (options.action === 'lost') await command.lost(state);
      else if (options.action === 'failover') await command.failOver(state, options.name, options.without);
      else await command.show(state);
      return 0;
    } finally {
      await database.close();
    }
  },
});
