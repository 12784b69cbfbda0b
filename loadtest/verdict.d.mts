export type Ledger = Record<'confirmed' | 'persisted' | 'lost' | 'duplicated' | 'over_cap' | 'drift', number>;
export type Told = Record<'promises' | 'missing' | 'another' | 'voided' | 'twice', number>;
export type CampaignVerdict = { product: string; ledger: Ledger; told: Told };
export function compareTold(
  promises: readonly { user: string; reservation: string }[],
  rows: ReadonlyMap<string, { user: string; status: string }>,
): Told;
