import { ClaimErasure } from '../shared/archive/claim-erasure.js';
import type { UserId } from '../shared/domain/ids.js';
import { type CampaignOfUser, UserRows } from '../shared/postgres/user-rows.js';
import { UserRecords } from '../shared/sale/user-records.js';
import type { Core } from './core.js';

/** What replaces the claims of a user in both engines. */
export function claimErasureOf({ shards, database, sales }: Core): { rows: UserRows; claims: ClaimErasure } {
  const { cursor } = shards.home;
  const rows = new UserRows(database, async (client) => {
    await cursor.lock(client);
    await cursor.lockWrites(client);
  });
  const recordsOf = ({ productId }: CampaignOfUser, user: UserId) =>
    new UserRecords(sales.of(productId, sales.bucketOf(productId, user)).reader.scripts);
  return { rows, claims: new ClaimErasure({ rows, recordsOf }) };
}
