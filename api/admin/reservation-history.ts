import type { Database } from '../../shared/postgres/pool.js';
import type { AuditRow } from './audit-search.js';

/** State of a reservation after a change; a change that is not here leaves the state as it is. */
const STATE_AFTER: Readonly<Record<string, string>> = {
  redeemed: 'redeemed',
  released: 'released',
  expired: 'expired',
  refunded: 'refunded',
  voided: 'voided',
};
/** A reservation has a handful of changes. */
const MOST = 500;

type First = { campaign_id: string; product_id: string; at: Date; order_id: string; qty: number; is_free: boolean };
type Change = {
  journal_id: string;
  at: Date;
  kind: string;
  actor: string;
  reason: string | null;
  detail: object | null;
};

/**
 * Reads everything that was done to a reservation, latest first: what operators did to it and each change of its state,
 * in the form of entries of the audit log. @throws EngineUnavailable
 */
export async function findReservationHistory(database: Database, reservation: string): Promise<AuditRow[]> {
  const [first, changes, actions] = await Promise.all([
    database.query<First>(
      `select r.campaign_id, c.product_id, r.reserved_at as at, r.order_id, r.qty, r.pay_before is null as is_free
       from campaigns c join redemptions r using (campaign_id) where r.redemption_id = $1
         and c.no = ('x' || right($1::text, 8))::bit(32)::bigint - (redemption_bucket($1::uuid)::bigint << 23)`,
      [reservation],
    ),
    database.query<Change & { campaign_id: string; product_id: string }>(
      `select h.*, c.product_id from campaigns c join redemption_history h using (campaign_id) where h.reservation_id = $1
         and c.no = ('x' || right($1::text, 8))::bit(32)::bigint - (redemption_bucket($1::uuid)::bigint << 23)
       order by h.batch, h.position limit ${MOST}`,
      [reservation],
    ),
    database.query<AuditRow>(
      `select a.audit_id, a.at, a.actor, null as role, null as subject, a.action, a.campaign_id, c.product_id, a.before, a.after, a.request_id
       from audit_log a left join campaigns c using (campaign_id)
       where a.after ? 'reservation_id' and a.after ->> 'reservation_id' = $1 order by a.audit_id limit ${MOST}`,
      [reservation],
    ),
  ]);
  const none = { role: null, subject: null, request_id: null };
  const [made] = first.rows;
  let status = made?.is_free ? 'redeemed' : 'reserved';
  const states = changes.rows.map(({ journal_id, at, kind, actor, reason, detail, campaign_id, product_id }) => {
    const before = status;
    status = STATE_AFTER[kind] ?? status;
    const after = { status, ...detail, ...(reason === null ? {} : { reason }) };
    const about = { audit_id: journal_id, at, actor, action: `redemption.${kind}`, campaign_id, product_id };
    return { ...none, ...about, before: { status: before }, after };
  });
  const beginning = made && {
    ...{ ...none, audit_id: reservation, at: made.at, actor: '', action: 'redemption.reserved', before: null },
    ...{ campaign_id: made.campaign_id, product_id: made.product_id },
    after: { status: made.is_free ? 'redeemed' : 'reserved', order_id: made.order_id },
  };
  const all = [...(beginning ? [beginning] : []), ...states, ...actions.rows];
  // Stable, so that changes of the same time stay in their order.
  return all.sort((a, b) => a.at.getTime() - b.at.getTime()).reverse();
}
