import type { EngineUrls } from '../../shared/config/config.js';
import { isClean } from '../../shared/contracts/verdict.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { compareCampaign } from '../../shared/image/compare-campaign.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import type { Database } from '../../shared/postgres/pool.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import { connectDatabase, reasonOf, type Terminal } from '../command.js';
import type { CommandShards } from '../command-shards.js';
import { ledgerDeps } from '../ledger/ledger-deps.js';
import type { Findings } from './findings.js';
import { learnDivided } from './found-campaigns.js';
import { isLost } from './need.js';
import { OutOfService, RedisBehind } from './refusals.js';
import { isWhole, reportOf, verdictLine } from './report.js';
import { restoreTogether } from './restore.js';
import { RestoredPlaces } from './restored-places.js';

const STATEMENT_MS = 120_000;
/** How long the cursor may stay unchanged before the command assumes that no worker is persisting. */
const STANDSTILL_MS = 2_000;
/** Campaigns that are compared at a time. */
const COMPARED_AT_ONCE = 5;

/** `untilWritten`: what is printed before the reason if it fails before anything was written. */
type Options = { dryRun: boolean; untilWritten?: string };
const NOTHING_WRITTEN = 'nothing was written';
/** `isWritten`: Postgres has what these shards have. */
type Outcome = { code: number; isWritten: boolean; hasCreated: boolean };

/**
 * Repairs Postgres from Redis after it was set back, and prints the verdict of the ledger.
 * @returns 0 if nothing is lost or drifted afterwards (in a dry run: if nothing is missing), 1 otherwise; 2 if a shard
 * could not be repaired
 */
export async function repairAfterRestore(
  { redis: target, databaseUrl }: EngineUrls,
  options: Options,
  terminal: Terminal,
): Promise<number> {
  terminal.failed = options.untilWritten ?? NOTHING_WRITTEN;
  const database = connectDatabase('reconcile', databaseUrl, STATEMENT_MS);
  let shards: CommandShards | null = null;
  try {
    const places = await RestoredPlaces.read({ target, database, limits: { commandMs: STATEMENT_MS } });
    shards = places.shards;
    for (const line of places.lines) terminal.print(line);
    if (places.hasLostNumber && options.dryRun) return reportLostNumber(terminal);
    return await new Repair(database, places, options, terminal).all();
  } finally {
    shards?.close();
    await database.close();
  }
}

/** The journals of these shards have no cursor in Postgres yet. @returns the exit code */
function reportLostNumber({ print }: Terminal): number {
  print('What else Postgres lacks is known when it has the number of shards.');
  print('Dry run: nothing was written.');
  return 1;
}

class Repair {
  readonly shards: CommandShards;

  constructor(
    readonly database: Database,
    readonly places: RestoredPlaces,
    readonly options: Options,
    readonly terminal: Terminal,
  ) {
    this.shards = places.shards;
  }

  /** First the number of shards and the places of campaigns, then what is in them. @returns the exit code */
  async all(): Promise<number> {
    const { places } = this;
    const { dryRun } = this.options;
    const stream = new EventStream((await this.shards.open(0)).scripts, 0);
    // Units move between the buckets of a campaign, so their shards are repaired in one transaction.
    const together = learnDivided(this.shards.map, places.found);
    const { isBehind } = places;
    const { count } = this.shards.map;
    const alone = Array.from({ length: count }, (_, index) => index).filter((index) => !together.includes(index));
    if (isBehind && !dryRun) await places.begin();
    let [code, isCurrent, hasCreated] = [0, true, false];
    for (const group of [together, ...alone.map((index) => [index])].filter(({ length }) => length > 0)) {
      const outcome = await this.#group(group, stream);
      code = Math.max(code, outcome.code);
      isCurrent &&= outcome.isWritten;
      hasCreated ||= outcome.hasCreated;
    }
    if (dryRun) return isBehind ? Math.max(code, 1) : code;
    if (!isBehind && !(hasCreated && count > 1)) return code;
    // Processes must not take their map for current while Postgres may lack a campaign.
    if (isCurrent) await places.finish();
    else this.terminal.warn('repeat the command: until then, requests for campaigns that moved get 503');
    return code;
  }

  /** Goes on after shards that cannot be repaired, because the others may be. */
  async #group(group: readonly number[], stream: EventStream): Promise<Outcome> {
    try {
      return await this.#shards(group, stream);
    } catch (error) {
      if (this.shards.map.count === 1) throw error;
      const name = group.length === 1 ? `shard ${group[0]}` : `shards ${group.join(', ')}`;
      this.terminal.warn(`${name}: ${this.terminal.failed}: ${reasonOf(error)}`);
      const isWritten = group.length === 1 && this.#provesNothing(group[0] as number, error);
      return { code: 2, isWritten, hasCreated: false };
    }
  }

  /**
   * Whether a shard that was not repaired has nothing that Postgres lacks: it is empty, or has less than Postgres. Its
   * worker fills it.
   */
  #provesNothing(index: number, error: unknown): boolean {
    if (error instanceof RedisBehind) return true;
    if (!(error instanceof OutOfService)) return false;
    return this.places.found.every(({ shard }) => shard !== index);
  }

  async #shards(group: readonly number[], stream: EventStream): Promise<Outcome> {
    const { dryRun } = this.options;
    const { shards, database, terminal } = this;
    terminal.failed = this.options.untilWritten ?? NOTHING_WRITTEN;
    const parts = [];
    for (const index of group) parts.push({ ...(await shards.open(index)), stream, database });
    const bucketsOf = (product: ProductId) => shards.map.bucketsOf(product);
    const numbers = new Set(this.places.found.map(({ no }) => no));
    const onWriting = () => {
      terminal.failed = 'a part was written; repeat the command';
    };
    const found = await restoreTogether(parts, { dryRun, settleMs: STANDSTILL_MS, bucketsOf, numbers, onWriting });
    terminal.failed = 'the ledger could not be compared; repeat the command';
    for (const [i, findings] of found.entries()) {
      if (shards.map.count > 1) terminal.print(`shard ${group[i]}`);
      for (const line of reportOf(findings, dryRun)) terminal.print(line);
    }
    const hasCreated = found.some(({ campaigns }) => campaigns.some(({ unknown }) => unknown));
    const code = dryRun ? (found.every(isWhole) ? 0 : 1) : await this.#judge(found);
    return { code, isWritten: true, hasCreated };
  }

  /** Prints the ledger's verdict on every campaign. @returns the exit code */
  async #judge(found: readonly Findings[]): Promise<number> {
    const table = new CampaignsTable(this.database);
    const compared = found.flatMap(({ campaigns }) =>
      campaigns.flatMap(({ product, archived, archivedLoss }) => (archived && !isLost(archivedLoss) ? [] : [product])),
    );
    const products = [...new Set(compared)] as ProductId[];
    let code = 0;
    this.terminal.print('');
    const compare = async (product: ProductId) => {
      const campaign = await table.find(product);
      return campaign && compareCampaign(await ledgerDeps(this.database, this.shards, campaign), campaign);
    };
    for (let start = 0; start < products.length; start += COMPARED_AT_ONCE) {
      for (const verdict of await Promise.all(products.slice(start, start + COMPARED_AT_ONCE).map(compare))) {
        if (!verdict) continue;
        this.terminal.print(verdictLine(verdict));
        if (!isClean(verdict)) code = 1;
      }
    }
    // The ledger compares archived campaigns by their counters.
    if (found.some(({ campaigns }) => campaigns.some(({ archivedLoss }) => archivedLoss.hidden))) code = 1;
    return code;
  }
}
