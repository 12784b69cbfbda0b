import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { ReservationRecord } from '../../shared/sale/reservation-record.js';
import type { CampaignCopy } from '../../shared/sale/sale-copy.js';
import type { CampaignFindings } from './findings.js';
import type { BucketRow } from './restored-buckets.js';

/** The changes that the campaign's own row needs. */
export type Need = Pick<CampaignFindings, 'total' | 'status' | 'terms' | 'codes'>;

/** What the pages of a campaign have found. */
export type Counts = Pick<CampaignFindings, 'missing' | 'changed' | 'places' | 'leftAlone' | 'erased'>;
export const noCounts = (): Counts => ({
  ...{ missing: { reservations: 0, units: 0 }, changed: {}, places: { missing: 0, ended: 0 }, leftAlone: 0, erased: 0 },
});

export const NO_LOSS = { units: 0, reservations: 0 };

const NO_NEED: Need = { total: null, status: null, terms: null, codes: null };

/**
 * The findings about a campaign whose reservations and places have not been compared.
 * @param mayHide whether equal counters of an archived campaign prove nothing
 */
export function findingsOf(
  copy: CampaignCopy,
  row: StoredCampaign | null,
  mayHide = false,
  need = needOf(copy, row),
): CampaignFindings {
  const conflict = row && row.productId !== copy.product ? row.productId : null;
  return {
    ...need,
    product: copy.product,
    unknown: row === null,
    archived: copy.archived,
    archivedLoss: conflict === null ? archivedLoss(copy, row, mayHide) : NO_LOSS,
    ...noCounts(),
    conflict,
  };
}

/** The findings about one bucket. What the divided campaign itself needs is found for all of its buckets together. */
export function findingsOfBucket(
  copy: CampaignCopy,
  row: StoredCampaign | null,
  bucket: BucketRow | null,
  mayHide = false,
): CampaignFindings {
  const found = findingsOf(copy, row, mayHide, NO_NEED);
  const hasTotal = bucket !== null && !found.conflict && copy.total !== bucket.total;
  return {
    ...found,
    archivedLoss: found.conflict === null ? archivedLoss(copy, bucket, mayHide) : NO_LOSS,
    bucket: copy.part?.bucket ?? 0,
    unknown: false,
    total: hasTotal ? { redis: copy.total, postgres: bucket.total } : null,
  };
}

/** Whether reservations are lost that neither side has. */
export const isLost = ({ units, reservations, hidden }: CampaignFindings['archivedLoss']): boolean =>
  hidden === true || units + reservations > 0;

/** @param row of the campaign, or of the bucket; null = Postgres lacks it, and so all of its reservations */
function archivedLoss(
  copy: CampaignCopy,
  row: Pick<StoredCampaign, 'held' | 'redeemed' | 'burned' | 'reservations'> | null,
  mayHide: boolean,
): CampaignFindings['archivedLoss'] {
  if (!copy.archived) return NO_LOSS;
  const states = ['held', 'redeemed', 'burned'] as const;
  const units = states.reduce((sum, state) => sum + Math.abs(copy[state] - (row?.[state] ?? 0)), 0);
  const reservations = Math.max(0, copy.promised - (row?.reservations ?? 0));
  return { units, reservations, ...(mayHide && units + reservations === 0 ? { hidden: true } : {}) };
}

export function needOf(copy: CampaignCopy, row: StoredCampaign | null): Need {
  const codes = copy.codes > (row?.codes ?? 0) ? { redis: copy.codes, postgres: row?.codes ?? 0 } : null;
  const need: Need = { total: null, status: null, terms: null, codes };
  if (!row || row.productId !== copy.product) return need;
  if (copy.total !== row.totalLimit) need.total = { redis: copy.total, postgres: row.totalLimit };
  if (row.status !== copy.status) need.status = { redis: copy.status, postgres: row.status };
  if (copy.version > row.termsVersion) need.terms = { redis: copy.version, postgres: row.termsVersion };
  return need;
}

/** Counts a reservation that Postgres lacks, or has in an earlier state. */
export function count(findings: Counts, record: ReservationRecord, row: ReservationRecord | null): void {
  if (!row) {
    findings.missing.reservations += 1;
    findings.missing.units += record.qty;
    return;
  }
  const same = record.qty < row.qty ? 'fewer units' : 'later deadline';
  const what = row.state === record.state ? `${row.state}, ${same}` : `${row.state} → ${record.state}`;
  findings.changed[what] = (findings.changed[what] ?? 0) + 1;
}
