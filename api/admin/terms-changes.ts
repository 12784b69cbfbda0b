import type { Database } from '../../shared/postgres/pool.js';

export type TermsChangeRow = {
  audit_id: string;
  at: Date;
  actor: string;
  action: string;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
};

/**
 * Reads the changes of a campaign's terms from the audit log, latest first.
 * @param before `audit_id` of the page before
 */
export async function termsChanges(
  database: Database,
  campaignId: string,
  limit: number,
  before: string | null,
): Promise<TermsChangeRow[]> {
  const { rows } = await database.query<TermsChangeRow>(
    `select audit_id, at, actor, action, before, after from audit_log
     where campaign_id = $1 and action in ('campaign.create', 'campaign.amend') and ($3::bigint is null or audit_id < $3)
     order by audit_id desc limit $2`,
    [campaignId, limit, before],
  );
  return rows;
}

/** Reads what was done to a campaign in a period: by operators, by its schedule (`clock`), and by `velocity`. */
export async function operatorActions(
  database: Database,
  campaignId: string,
  from: Date,
  to: Date,
  limit: number,
): Promise<{ at: Date; actor: string; action: string }[]> {
  const { rows } = await database.query<{ at: Date; actor: string; action: string }>(
    `select at, actor, action from audit_log
     where campaign_id = $1 and action like 'campaign.%' and at >= $2 and at < $3 order by audit_id limit $4`,
    [campaignId, from, to, limit],
  );
  return rows;
}
