import type { Queryable } from './pool.js';

export type AuditEntry = {
  actor: string;
  action: string;
  /** null = about no campaign */
  campaignId: string | null;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  requestId: string;
};

/** Writes one operator action in the transaction that carries it out. */
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
