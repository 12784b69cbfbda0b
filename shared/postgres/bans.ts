import { type Ban, type BanEffect, type BanKind, RULE_PREFIX } from '../domain/ban.js';
import { Batch } from './batch.js';
import type { Database, Queryable } from './pool.js';

export type StoredBan = Ban & { createdAt: Date; liftedAt: Date | null; liftedBy: string | null };

export type BanFilter = {
  effect: BanEffect | null;
  kind: BanKind | null;
  subject: string | null;
  /** false = also bans that have ended */
  inForceOnly: boolean;
};

type Row = {
  ban_id: string;
  effect: BanEffect;
  kind: BanKind;
  subject: string;
  until: Date | null;
  reason: string;
  actor: string;
  created_at: Date;
  lifted_at: Date | null;
  lifted_by: string | null;
};

const IN_FORCE = 'lifted_at is null and (until is null or until > now())';

const ROWS = new Batch({
  ...{ id: 'uuid', effect: 'text', kind: 'text', subject: 'text', until: 'timestamptz', reason: 'text', actor: 'text' },
});

/** Table `bans`. Ids are UUIDv7, so they are ordered by time. */
export class BansTable {
  constructor(readonly database: Database) {}

  /** @returns null when the same ban exists already */
  async insert(ban: Ban, client: Queryable = this.database): Promise<StoredBan | null> {
    const { rows } = await client.query<Row>(
      `insert into bans (ban_id, effect, kind, subject, until, reason, actor) values ($1, $2, $3, $4, $5, $6, $7)
       on conflict (ban_id) do nothing returning *`,
      [
        ban.id,
        ban.effect,
        ban.kind,
        ban.subject,
        ban.untilMs === null ? null : new Date(ban.untilMs),
        ban.reason,
        ban.actor,
      ],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }

  /** Inserts bans by rules with one statement. Existing bans stay as they are. */
  async insertOfRules(bans: readonly Ban[]): Promise<void> {
    await this.database.query(
      `insert into bans (ban_id, effect, kind, subject, until, reason, actor)
       select * from ${ROWS.sql}
       on conflict (ban_id) do nothing`,
      ROWS.of(bans.map((ban) => ({ ...ban, until: ban.untilMs === null ? null : new Date(ban.untilMs) }))),
    );
  }

  /** Bans in force, newest first: at most `limit` by operators and `limit` by rules. */
  async inForce(limit: number): Promise<StoredBan[]> {
    const { rows } = await this.database.query<Row>(
      `(select * from bans where ${IN_FORCE} and actor not like $1 order by ban_id desc limit $2)
       union all (select * from bans where ${IN_FORCE} and actor like $1 order by ban_id desc limit $2)`,
      [`${RULE_PREFIX}%`, limit],
    );
    return rows.map(fromRow);
  }

  /** Deletes bans by rules that ended before `before`, at most `limit`. @returns how many were deleted */
  async pruneOfRules(before: Date, limit: number): Promise<number> {
    const { rowCount } = await this.database.query(
      `delete from bans where ban_id in (select ban_id from bans where actor like $1 and until < $2 order by until limit $3)`,
      [`${RULE_PREFIX}%`, before, limit],
    );
    return rowCount ?? 0;
  }

  /** Bans that were made or lifted in the last `ms` milliseconds. */
  async changedWithin(ms: number): Promise<StoredBan[]> {
    const { rows } = await this.database.query<Row>(
      'select * from bans where changed_at > now() - make_interval(secs => $1::float8 / 1000) order by ban_id',
      [ms],
    );
    return rows.map(fromRow);
  }

  /** A page of bans, newest first. @param beforeId the last id of the page before */
  async list(filter: BanFilter, limit: number, beforeId: string | null): Promise<StoredBan[]> {
    const { rows } = await this.database.query<Row>(
      `select * from bans where ($1::text is null or effect = $1) and ($2::text is null or kind = $2)
         and ($3::text is null or subject = $3) and (not $4::boolean or (${IN_FORCE})) and ($5::uuid is null or ban_id < $5)
       order by ban_id desc limit $6`,
      [filter.effect, filter.kind, filter.subject, filter.inForceOnly, beforeId, limit],
    );
    return rows.map(fromRow);
  }

  async find(id: string): Promise<StoredBan | null> {
    const { rows } = await this.database.query<Row>('select * from bans where ban_id = $1', [id]);
    return rows[0] ? fromRow(rows[0]) : null;
  }

  /** Which of these ids exist, in force or not. */
  async known(ids: readonly string[]): Promise<ReadonlySet<string>> {
    const { rows } = await this.database.query<{ ban_id: string }>(
      'select ban_id from bans where ban_id = any($1::uuid[])',
      [ids],
    );
    return new Set(rows.map((row) => row.ban_id));
  }

  /** @returns null when the ban has been lifted already */
  async lift(id: string, actor: string, client: Queryable): Promise<StoredBan | null> {
    const { rows } = await client.query<Row>(
      'update bans set lifted_at = now(), lifted_by = $2, changed_at = now() where ban_id = $1 and lifted_at is null returning *',
      [id, actor],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }
}

function fromRow(row: Row): StoredBan {
  return {
    id: row.ban_id,
    effect: row.effect,
    kind: row.kind,
    subject: row.subject,
    untilMs: row.until?.getTime() ?? null,
    reason: row.reason,
    actor: row.actor,
    createdAt: row.created_at,
    liftedAt: row.lifted_at,
    liftedBy: row.lifted_by,
  };
}
