import { uuidv7 } from 'uuidv7';
import type { Ban } from '../../shared/domain/ban.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Log } from '../../shared/observability/log.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import type { BanFilter, BansTable, StoredBan } from '../../shared/postgres/bans.js';
import { type Bans, banView } from '../guards/abuse/bans.js';
import { invalidFields } from '../http/validate.js';
import type { BanBody } from './ban.contract.js';

export type Operator = { name: string; requestId: string };

/** Bans by operators: written to Postgres with an audit entry, then published to every API process. */
export class BanDesk {
  constructor(
    readonly table: BansTable,
    readonly bans: Bans,
    readonly log: Log,
    readonly nowMs: () => number,
  ) {}

  async create(body: BanBody, operator: Operator): Promise<StoredBan> {
    const untilMs = body.until === null ? null : Date.parse(body.until);
    if (untilMs !== null && untilMs <= this.nowMs()) {
      throw invalidFields({ pointer: '#/until', detail: 'must be in the future' });
    }
    const { effect, kind, subject, reason } = body;
    const ban: Ban = { id: uuidv7(), effect, kind, subject, untilMs, reason, actor: operator.name };
    const stored = await this.table.database.transaction(async (client) => {
      const inserted = await this.table.insert(ban, client);
      await this.#audit(client, operator, 'ban.create', null, banView(ban));
      return inserted;
    });
    if (!stored) throw new Error('the new ban id already exists');
    await this.#publish(() => this.bans.announce(ban));
    return stored;
  }

  /** Lifts a ban. Idempotent. @throws Problem 404 */
  async lift(id: string, operator: Operator): Promise<StoredBan> {
    const before = await this.table.find(id);
    if (!before) throw new Problem('ban_not_found', 'No ban has this id.');
    const lifted = await this.table.database.transaction(async (client) => {
      const ban = await this.table.lift(id, operator.name, client);
      if (ban) await this.#audit(client, operator, 'ban.lift', banView(before), null);
      return ban;
    });
    await this.#publish(() => this.bans.announceLifted(id));
    return lifted ?? (await this.table.find(id)) ?? before;
  }

  list(filter: BanFilter, limit: number, beforeId: string | null): Promise<StoredBan[]> {
    return this.table.list(filter, limit, beforeId);
  }

  /** Publishes a change. During an outage of Redis, other processes enforce it after they have read Postgres again. */
  async #publish(publish: () => Promise<void>): Promise<void> {
    await publish().catch((error: unknown) =>
      this.log.warn({ reason: String(error) }, 'change of a ban could not be published'),
    );
  }

  #audit(
    client: Parameters<typeof writeAudit>[0],
    operator: Operator,
    action: string,
    before: Record<string, unknown> | null,
    after: Record<string, unknown> | null,
  ): Promise<void> {
    return writeAudit(client, {
      actor: operator.name,
      action,
      campaignId: null,
      before,
      after,
      requestId: operator.requestId,
    });
  }
}
