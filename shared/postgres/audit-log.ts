import type { CampaignId } from '../domain/ids.js';
import type { Queryable } from './pool.js';

export type AuditEntry = {
  actor: string;
  action: string;
  /** null = the action concerns no campaign */
  campaignId: string | null;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  requestId: string;
};

/** Writes an operator's action, in the transaction that executes it. */
export async function writeAudit(client: Queryable, entry: AuditEntry): Promise<void> {
  await client.query(
    `insert into audit_log (at, actor, action, campaign_id, before, after, request_id) values (now(), $1, $2, $3, $4, $5, $6)`,
    [
      entry.actor,
      entry.action,
      entry.campaignId,
      entry.before === null ? null : JSON.stringify(entry.before),
      entry.after === null ? null : JSON.stringify(entry.after),
      entry.requestId,
    ],
  );
}

/** A read that takes secrets or people away. */
export type ExportAction = 'codes.export' | 'redemptions.export' | 'user.export';

/** Records an export before its first byte is sent. @param of the campaign, or the user whose data are exported */
export function writeExport(
  client: Queryable,
  action: ExportAction,
  { actor, requestId }: Pick<AuditEntry, 'actor' | 'requestId'>,
  of: { campaignId: string } | { user: string },
): Promise<void> {
  const about = 'user' in of ? { campaignId: null, after: { user_id: of.user } } : { ...of, after: null };
  return writeAudit(client, { actor, requestId, action, before: null, ...about });
}

/** Who paused a campaign, when, and why. `reason`: null = no reason was given. */
export type CampaignPause = { by: string; at: Date; reason: string | null };

/** The last pause of each of these campaigns, even if the campaign was resumed since. */
export async function lastPauses(
  client: Queryable,
  campaigns: readonly CampaignId[],
): Promise<ReadonlyMap<CampaignId, CampaignPause>> {
  if (campaigns.length === 0) return new Map();
  const { rows } = await client.query<{ campaign_id: CampaignId; actor: string; at: Date; reason: string | null }>(
    `select distinct on (campaign_id) campaign_id, actor, at, after ->> 'reason' as reason from audit_log
     where campaign_id = any($1::uuid[]) and action = 'campaign.pause' order by campaign_id, audit_id desc`,
    [campaigns],
  );
  return new Map(rows.map(({ campaign_id, actor, at, reason }) => [campaign_id, { by: actor, at, reason }]));
}
