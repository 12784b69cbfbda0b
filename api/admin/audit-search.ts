import type { Role } from '../../shared/domain/role.js';
import type { Database } from '../../shared/postgres/pool.js';

export type AuditFilter = {
  /** null = any, in each field. `action`: an action, or the beginning of several that ends with a dot. */
  actor: string | null;
  action: string | null;
  /** Id or product id. */
  campaign: string | null;
  from: Date | null;
  /** Exclusive. */
  to: Date | null;
};

export type AuditRow = {
  audit_id: string;
  at: Date;
  actor: string;
  /** Of the created key or operator with this name, at that time; null = there is none. */
  role: Role | null;
  /** Of the operator at the issuer; null = not an operator of OpenID Connect. */
  subject: string | null;
  action: string;
  campaign_id: string | null;
  product_id: string | null;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  request_id: string | null;
};

/**
 * Reads the audit log, latest first.
 * @param before `audit_id` of the page before; null = the first page
 */
export async function findAudit(
  database: Database,
  filter: AuditFilter,
  limit: number,
  before: string | null,
): Promise<AuditRow[]> {
  const { actor, action, campaign, from, to } = filter;
  const { rows } = await database.query<AuditRow>(
    `select a.audit_id, a.at, a.actor, coalesce(k.role, l.role) as role, o.subject, a.action, a.campaign_id, c.product_id, a.before, a.after, a.request_id
     from audit_log a
     left join campaigns c using (campaign_id)
     left join api_keys k on k.name = a.actor
     left join operators o on o.name = a.actor
     left join lateral (
       select b.after ->> 'role' as role from audit_log b
       where o.name is not null and b.actor = a.actor and b.action = 'operator.login' and b.audit_id <= a.audit_id
       order by b.audit_id desc limit 1
     ) l on true
     where ($1::text is null or a.actor = $1)
       and ($2::text is null or a.action = $2 or (right($2, 1) = '.' and starts_with(a.action, $2)))
       and ($3::text is null or a.campaign_id in (select campaign_id from campaigns where product_id = $3 or campaign_id::text = $3))
       and ($4::timestamptz is null or a.at >= $4) and ($5::timestamptz is null or a.at < $5)
       and ($6::bigint is null or a.audit_id < $6)
     order by a.audit_id desc limit $7`,
    [actor, action, campaign, from, to, before, limit],
  );
  return rows;
}
