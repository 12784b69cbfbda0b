import { setTimeout as sleep } from 'node:timers/promises';
import type { EngineUrls } from '../../shared/config/config.js';
import { LIMITS } from '../../shared/config/limits.js';
import type { RegionsConfig } from '../../shared/config/regions.js';
import type { Stock } from '../../shared/domain/campaign.js';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { type RegionName, regionOfUser, storedRegions } from '../../shared/domain/regions.js';
import { Refused } from '../../shared/errors/faults.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { isPseudonym } from '../../shared/postgres/erasures.js';
import type { Database } from '../../shared/postgres/pool.js';
import { type RedemptionRow, RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { type RegionTransfer, RegionTransfers } from '../../shared/postgres/region-transfers.js';
import { connectDatabase } from '../command.js';
import { callRegion } from '../command-regions.js';
import { CommandShards } from '../command-shards.js';
import { ledgerDeps } from './ledger-deps.js';
import { compareTransfers, type Side, type TransferSums } from './region-transfers.js';

const STATEMENT_MS = 60_000;
/** As the API shows transfers to other regions; older ones are not compared. */
const MAX_COMPARED = 1_000;
const PAGE = 10_000;
/** The sides are read one after the other. A difference that is still there after these looks is no step in between. */
const LOOKS = 5;
const BETWEEN_LOOKS_MS = 1_000;
/** The taker records its side later than the giver, after a cut link for example. */
const BETWEEN_SIDES_MS = 600_000;

type Counts = Omit<Stock, 'status'>;
/** What `npm run ledger -- <product> --regions` adds. `problem`: why a region has no numbers; null = it has. */
export type RegionsVerdict = TransferSums & {
  /** Reservations of this region whose users another region sells to. */
  misplaced: number;
  regions: ({ region: RegionName; problem: string | null } & Partial<Counts>)[];
};

/** Whether every unit is in one region or on the way, and every user had a unit from their own region. */
export const isWhole = ({ misplaced, units_lost, units_duplicated, stuck }: RegionsVerdict): boolean =>
  misplaced + units_lost + units_duplicated + stuck.length === 0;

/**
 * Compares a product with the other regions that sell it: both sides of all transfers, and whose users have units here.
 * @throws Refused if one region alone sells it
 */
export async function compareRegions(
  urls: EngineUrls,
  config: RegionsConfig,
  product: string,
): Promise<RegionsVerdict> {
  const database = connectDatabase('ledger', urls.databaseUrl, STATEMENT_MS, 2);
  const shards = await CommandShards.of(urls.redis, database, { commandMs: STATEMENT_MS });
  try {
    const campaign = await new CampaignsTable(database).find(product);
    const sellers = campaign && storedRegions(campaign.rules.regions);
    if (!sellers) throw new Refused(`${product} is not sold by several regions`);
    const { parts } = await ledgerDeps(database, shards, campaign);
    const stockHere = async () => (await parts[0]?.sale.stock(campaign.productId)) ?? null;
    const misplaced = await countMisplaced(database, campaign.id, sellers, config.own);
    for (let look = 1; ; look += 1) {
      const sides = new RegionTransfers(database).ofProduct(campaign.productId, MAX_COMPARED);
      const others = sellers.filter((region) => region !== config.own);
      const found = await Promise.all([
        here(config.own, await stockHere(), await sides),
        ...others.map((region) => there(config, region, campaign.productId)),
      ]);
      const sums = compareTransfers(
        new Map(found.flatMap(({ region, sides: of }) => (of ? [[region, of] as const] : []))),
        Math.max(since(found), await bothSidesSince(database)),
      );
      const regions = found.map(({ sides: _, ...shown }) => shown);
      if (look === LOOKS || sums.units_lost + sums.units_duplicated === 0) return { misplaced, ...sums, regions };
      await sleep(BETWEEN_LOOKS_MS);
    }
  } finally {
    shards.close();
    await database.close();
  }
}

type Found = RegionsVerdict['regions'][number] & { sides: readonly Side[] | null };

function here(region: RegionName, stock: Stock | null, transfers: readonly RegionTransfer[]): Found {
  const sides = transfers.map(({ id, createdAt, ...side }) => ({
    ...side,
    ...{ transfer_id: id, created_at: createdAt.toISOString() },
  }));
  return { region, problem: stock ? null : 'it has no campaign in Redis', ...(stock && countsOf(stock)), sides };
}

async function there(config: RegionsConfig, region: RegionName, product: ProductId): Promise<Found> {
  try {
    const request = { product_ids: [product], transfers: true };
    const [found] = await callRegion<(Stock & { transfers: Side[] })[]>(config, region, 'units', request);
    if (!found) return { region, problem: 'it has no campaign in Redis', sides: null };
    return { region, problem: null, ...countsOf(found), sides: found.transfers };
  } catch (error) {
    return { region, problem: error instanceof Error ? error.message : String(error), sides: null };
  }
}

/** Before that a region may have deleted its side, ms. */
async function bothSidesSince(database: Database): Promise<number> {
  const { rows } = await database.query<{ at: Date }>('select now() - make_interval(secs => $1::float8 / 1000) as at', [
    LIMITS.regions.transferGiveUpMs,
  ]);
  return rows[0]?.at.getTime() ?? 0;
}

/** From when on the lists have both sides of every transfer, ms: a full list may lack what is older. */
function since(found: readonly Found[]): number {
  const oldest = found.flatMap(({ sides }) =>
    sides && sides.length >= MAX_COMPARED ? [Math.min(...sides.map(({ created_at }) => Date.parse(created_at)))] : [],
  );
  return oldest.length === 0 ? 0 : Math.max(...oldest) + BETWEEN_SIDES_MS;
}

const countsOf = ({ total, free, held, redeemed, burned, waiting }: Stock): Counts => ({
  ...{ total, free, held, redeemed, burned, waiting },
});

/** Reservations here of users of another region. Whose user was replaced by a pseudonym is not known any more. */
async function countMisplaced(
  database: Database,
  campaignId: string,
  sellers: readonly RegionName[],
  own: RegionName,
): Promise<number> {
  const table = new RedemptionsTable(database);
  let misplaced = 0;
  let after: RedemptionRow | null = null;
  do {
    const page: RedemptionRow[] = await table.page(campaignId, PAGE, after);
    for (const { user_id, status } of page)
      if (status !== 'voided' && !isPseudonym(user_id as UserId) && regionOfUser(user_id, sellers) !== own)
        misplaced += 1;
    after = page.length < PAGE ? null : (page.at(-1) ?? null);
  } while (after !== null);
  return misplaced;
}
