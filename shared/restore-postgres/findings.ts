/** What Postgres lacked of one campaign, beside what the journal still has. */
export type CampaignFindings = {
  product: string;
  /** Postgres does not have the campaign at all. */
  unknown: boolean;
  archived: boolean;
  total: { redis: number | null; postgres: number | null } | null;
  status: { redis: string; postgres: string } | null;
  terms: { redis: number; postgres: number } | null;
  /** Redis has name, discount, audience and the like too. */
  hasDetails: boolean;
  codes: { redis: number; postgres: number } | null;
  /** Of an archived campaign, whose reservations Redis does not have: units by which the counters differ. */
  archivedUnits: number;
  missing: { reservations: number; units: number };
  /** `reserved → redeemed` → how many. */
  changed: Record<string, number>;
  places: { missing: number; ended: number };
  /** Rows that only Postgres has, or that it has in a later state. */
  leftAlone: number;
  /** Another campaign that has its number in Postgres; then nothing of it can be written. null = none */
  conflict: string | null;
};

export type Findings = {
  cursor: string;
  lastId: string;
  /** Entries that the journal still has after the cursor. */
  backlog: number;
  /** Entries between the cursor and the first one that the journal still has are gone. */
  gap: boolean;
  campaigns: CampaignFindings[];
  /** Events that were numbered again; null in a dry run. */
  renumberedEvents: number | null;
};
