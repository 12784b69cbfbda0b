import { type RegionName, storedRegions } from '../domain/regions.js';
import type { Queryable } from './pool.js';

/**
 * Which region this installation is, and under which epoch. `region` and `epoch`: null = it has not joined one.
 * `learnt`: the highest epoch of each region that it has learnt of.
 */
export type RegionState = {
  region: RegionName | null;
  epoch: number | null;
  learnt: ReadonlyMap<RegionName, number>;
};

/**
 * A campaign that a region has. `code`: the code of a shared campaign, as its operator typed it. `regions`: those that
 * sell the product together; null = this one alone.
 */
export type RegionCampaign = {
  no: number;
  productId: string;
  code: string | null;
  regions: readonly RegionName[] | null;
};

export async function readRegionState(database: Queryable): Promise<RegionState> {
  const { rows } = await database.query<{ region: string | null; region_epoch: string | null; learnt: object }>(
    `select region, region_epoch, coalesce((select json_object_agg(region, epoch) from region_epochs), '{}') as learnt
     from installation`,
  );
  const [row] = rows;
  return {
    region: row?.region ?? null,
    epoch: row?.region_epoch == null ? null : Number(row.region_epoch),
    learnt: new Map(Object.entries(row?.learnt ?? {}).map(([region, epoch]) => [region, Number(epoch)])),
  };
}

/** Records epochs of regions. An epoch never falls. */
export async function learnEpochs(database: Queryable, epochs: ReadonlyMap<RegionName, number>): Promise<void> {
  await database.query(
    `insert into region_epochs (region, epoch) select * from unnest($1::text[], $2::bigint[]) as given (region, epoch)
     on conflict (region) do update set epoch = excluded.epoch, learnt_at = now()
     where excluded.epoch > region_epochs.epoch`,
    [[...epochs.keys()], [...epochs.values()]],
  );
}

/**
 * Makes this installation the first owner of a region, and gives its campaigns the numbers of the region.
 * @returns the number of campaigns whose numbers belong to another region; if it is not 0, nothing was changed
 */
export async function joinRegion(
  client: Queryable,
  region: RegionName,
  { first, last }: { first: number; last: number },
): Promise<number> {
  await client.query('lock table campaigns in share row exclusive mode');
  const { rows } = await client.query<{ foreign_numbers: number }>(
    'select count(*)::int as foreign_numbers from campaigns where no not between $1 and $2',
    [first, last],
  );
  const foreignNumbers = rows[0]?.foreign_numbers ?? 0;
  if (foreignNumbers > 0) return foreignNumbers;
  await client.query(
    `select setval(pg_get_serial_sequence('campaigns', 'no'),
       greatest($1::bigint, (select coalesce(max(no), 0) + 1 from campaigns)), false)`,
    [first],
  );
  await client.query('update installation set region = $1, region_epoch = 1', [region]);
  await learnEpochs(client, new Map([[region, 1]]));
  return 0;
}

/**
 * Makes this installation the owner of its region under a new epoch. It is the time in milliseconds, so of two
 * replacements that were restored from one backup the later one owns the region.
 * @param above the new epoch is also higher than this one
 */
export async function failOverRegion(client: Queryable, region: RegionName, above: number): Promise<number> {
  const { rows } = await client.query<{ region_epoch: string }>(
    `update installation set region_epoch =
       greatest($1::bigint + 1, (extract(epoch from clock_timestamp()) * 1000)::bigint) returning region_epoch`,
    [above],
  );
  const epoch = Number(rows[0]?.region_epoch);
  await learnEpochs(client, new Map([[region, epoch]]));
  return epoch;
}

/** Raises the epoch of an installation to the one that it had in its region before a restore. */
export async function keepEpoch(client: Queryable, region: RegionName, epoch: number): Promise<void> {
  await client.query('update installation set region_epoch = greatest(region_epoch, $2) where region = $1', [
    region,
    epoch,
  ]);
}

/** Campaigns with higher numbers, by number. A campaign is never removed, and keeps its number, code and regions. */
export async function campaignsAfter(database: Queryable, no: number, limit: number): Promise<RegionCampaign[]> {
  const { rows } = await database.query<{ no: number; product_id: string; code: string | null; regions: unknown }>(
    "select no, product_id, code, rules -> 'regions' as regions from campaigns where no > $1 order by no limit $2",
    [no, limit],
  );
  return rows.map((row) => ({
    ...{ no: row.no, productId: row.product_id, code: row.code },
    regions: storedRegions(row.regions),
  }));
}
