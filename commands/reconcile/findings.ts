/** What Postgres lacked of one campaign, without the entries that the journal still has. */
export type CampaignFindings = {
  product: string;
  /** The findings of one bucket of a divided campaign. Those of the campaign have no bucket. */
  bucket?: number;
  /** Postgres does not have the campaign. */
  unknown: boolean;
  archived: boolean;
  total: { redis: number | null; postgres: number | null } | null;
  status: { redis: string; postgres: string } | null;
  terms: { redis: number; postgres: number } | null;
  codes: { redis: number; postgres: number } | null;
  /**
   * Of an archived campaign, whose reservations Redis does not have: the units by which the counters differ, and the
   * reservations that Postgres lacks. `hidden`: both are 0, but lost changes may have cancelled each other: a refund,
   * and a late payment that took the unit again.
   */
  archivedLoss: { units: number; reservations: number; hidden?: boolean };
  missing: { reservations: number; units: number };
  /** `reserved → redeemed` → how many. */
  changed: Record<string, number>;
  places: { missing: number; ended: number };
  /** Rows that only Postgres has, or that are in a later state there. */
  leftAlone: number;
  /** Rows of users who were erased since. */
  erased: number;
  /** Of a divided campaign: transfers that have left, with their units, and those on their way that have arrived. */
  transfers?: { left: number; units: number; arrived: number };
  /** The campaign that has the same number in Postgres, so that this one cannot be written; null = none */
  conflict: string | null;
};

export type Findings = {
  cursor: string;
  lastId: string;
  /** Number of entries that the journal has, and that a worker writes. */
  backlog: number;
  /** Whether entries between the cursor and the first entry of the journal are lost. */
  gap: boolean;
  campaigns: CampaignFindings[];
  /** How many events got a new number; null in a dry run. */
  renumberedEvents: number | null;
};
