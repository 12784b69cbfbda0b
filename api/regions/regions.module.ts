import { LIMITS } from '../../shared/config/limits.js';
import { FIRST_BUCKET } from '../../shared/domain/buckets.js';
import type { Code } from '../../shared/domain/codes.js';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import type { RegionName } from '../../shared/domain/regions.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { RegionAcknowledgements } from '../../shared/postgres/region-acknowledgements.js';
import { campaignsAfter } from '../../shared/postgres/region-state.js';
import { RegionTransfers } from '../../shared/postgres/region-transfers.js';
import type { Claims } from '../claim/claim.module.js';
import type { Core } from '../core.js';
import type { Tickets } from '../guards/auth/ticket.js';
import type { Guards } from '../guards/guards.module.js';
import { LocalQuota } from '../guards/limits/local-quota.js';
import type { Route } from '../http/route.js';
import { Acknowledged } from './acknowledged.js';
import { acknowledgementsRoute } from './acknowledgements.route.js';
import { arrival, beatRoute } from './arrivals.js';
import { Balance } from './balance.js';
import { every } from './every.js';
import { forwarded } from './forward.js';
import { Owners } from './owners.js';
import type { RegionDirectory } from './region-directory.js';
import { RegionKeys } from './region-keys.js';
import { RegionUnits } from './region-units.js';
import { Regions } from './regions.js';
import { Transfers } from './transfers.js';
import { transferRoutes } from './transfers.route.js';
import { unitsRoutes } from './units.route.js';

type Check = { ok: boolean; detail: string };

/** What the API has as one of several regions. */
export type RegionParts = {
  /** Routes of regions themselves. */
  routes: Route[];
  /** Returns the routes, each decided by the owner of its subject. */
  withOwners(routes: readonly Route[]): Route[];
  /** Returns the routes at which requests arrive that other regions forward. */
  arrivals(routes: readonly Route[]): Route[];
  /** Whether another region decides about a code of a user. */
  isOfOther: (code: Code, user: UserId) => boolean;
  /** What the other regions sell, for the creation of campaigns (api/admin/campaign-regions.ts). */
  others: {
    knowsAll: () => boolean;
    reaches: (region: RegionName) => boolean;
    othersWith: (product: string) => ReturnType<RegionDirectory['othersWith']>;
  };
  checks: () => { own: Check; others: Record<string, Check> };
};

/** The links to the other regions; null without REGION. */
export function connectRegions({ config, database, log, life }: Core): Regions | null {
  if (config.regions === null) return null;
  const regions = new Regions({ config: config.regions, database, log, limits: LIMITS.regions });
  life.add('regions', regions);
  return regions;
}

/** The installation as one of several regions; null without REGION, where requests cost nothing more. */
export function regionsModule(
  core: Core,
  { auth }: Pick<Guards, 'auth'>,
  claims: Claims,
  regions: Regions | null,
): RegionParts | null {
  const { config, database, metrics, log } = core;
  if (config.regions === null || regions === null) return null;
  const { own, layout, keys: secrets } = config.regions;
  const keys = new RegionKeys(secrets, new LocalQuota(config.wrongKeysPerMinute, 60_000, LIMITS.abuse.callersKept));
  const { tickets, apiKeys } = auth;
  const owners = new Owners(own, layout, regions.directory);
  const isHere = async (product: string) => {
    const { reader } = core.sales.of(product as ProductId, FIRST_BUCKET);
    return (await reader.stock(product as ProductId)) !== null;
  };
  const arrivals = { regions, owners, keys, tickets };
  const table = new RegionTransfers(database);
  const units = new RegionUnits(new CampaignsTable(database), core.sales, new RedemptionsTable(database));
  const transfers = createTransfers(core, claims, regions, units);
  const acknowledged = recordAcknowledged(core, regions, tickets);
  const nowMs = () => core.clock.nowMs();
  observeRegions(core, regions, table);
  return {
    routes: [
      beatRoute(regions, keys, (after) => campaignsAfter(database, after, LIMITS.regions.campaignsPerBeat)),
      ...transferRoutes({ transfers, table, regions, apiKeys, keys }),
      acknowledgementsRoute({
        table: new RegionAcknowledgements(database),
        regions,
        keys,
        nowMs,
        limits: LIMITS.regions,
      }),
      ...unitsRoutes({ units, table, transfers, regions, apiKeys, keys }),
    ],
    withOwners: (routes) =>
      routes.map((route) => forwarded(route, { regions, owners, tickets, isHere, acknowledged, metrics, log })),
    arrivals: (routes) => routes.flatMap((route) => arrival(route, arrivals) ?? []),
    isOfOther: (code, user) => owners.ofCode(code, user) !== own,
    others: {
      knowsAll: () => regions.directory.isComplete,
      reaches: (region) => regions.linkTo(region) !== null,
      othersWith: (product) => regions.directory.othersWith(product),
    },
    checks: () => checksOf(regions),
  };
}

/** Records what other regions decided for clients of this process. */
function recordAcknowledged(
  { database, clock, metrics, log, life }: Core,
  { directory }: Regions,
  tickets: Tickets,
): Acknowledged {
  const acknowledged = new Acknowledged({
    ...{ directory, tickets, metrics, log, limits: LIMITS.regions, nowMs: () => clock.nowMs() },
    table: new RegionAcknowledgements(database),
  });
  life.add('record of decisions of other regions', acknowledged);
  return acknowledged;
}

/** Every process goes on with transfers that no other works on, and gives units to regions that need them. */
function createTransfers(
  { config, database, sales, shards, clock, log, life }: Core,
  { acknowledgements }: Claims,
  regions: Regions,
  units: RegionUnits,
): Transfers {
  const transfers = new Transfers({
    regions,
    database,
    table: new RegionTransfers(database),
    campaigns: new CampaignsTable(database),
    sales,
    commitsOf: (product) => shards.of(product, FIRST_BUCKET).commits,
    acknowledgements,
    log,
    limits: { ...LIMITS.regions, ...LIMITS.claims, ...LIMITS.line, idempotencyTtlMs: config.idempotencyTtlMs },
  });
  const stopped = new AbortController();
  let running: Promise<unknown> = Promise.resolve();
  if (config.apiRole === 'read') return transfers;
  const balance = new Balance({
    ...{ regions, units, transfers, log, limits: LIMITS.regions, nowMs: () => clock.nowMs() },
    note: (product, elsewhere) =>
      sales.of(product, FIRST_BUCKET).line.noteElsewhere(product, elsewhere, LIMITS.regions.elsewhereMs),
  });
  life.add('transfers between regions', {
    start() {
      running = Promise.all([
        every(LIMITS.regions.beatMs, stopped.signal, () => transfers.resume()),
        every(LIMITS.regions.balanceMs, stopped.signal, () => balance.run()),
      ]);
    },
    async stop() {
      stopped.abort();
      await running;
    },
  });
  return transfers;
}

function observeRegions({ metrics }: Core, regions: Regions, table: RegionTransfers): void {
  metrics.observeEach(
    'region_reply_age_seconds',
    'Time since the last reply of another region',
    'region',
    async () =>
      new Map(
        regions.others.flatMap(({ region, replyAgeSeconds: age }) => (age === null ? [] : [[region, age] as const])),
      ),
    'max',
  );
  const inTransit = async () => [{ labels: {}, value: await table.inTransit(null) }];
  metrics.observeSamples(
    'region_units_in_transit',
    'Units that have left this region and have not arrived in another one; absent while Postgres is away',
    [],
    () => inTransit().catch(() => []),
  );
}

function checksOf(regions: Regions): { own: Check; others: Record<string, Check> } {
  const { own, refusal, epoch } = regions;
  return {
    own: { ok: refusal === null, detail: refusal ?? `${own}, epoch ${epoch}` },
    others: Object.fromEntries(
      regions.others.map(({ region, problem, epoch: theirs }) => [
        `region_${region}`,
        { ok: problem === null, detail: problem ?? `epoch ${theirs}` },
      ]),
    ),
  };
}
