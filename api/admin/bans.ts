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

/** What operators do about bans: in Postgres with its audit entry, then to every API process. */
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
    if (!stored) throw new Error('a new id was taken');
    await this.#tell(() => this.bans.announce(ban));
    return stored;
  }

  /** Repeatable. @throws Problem 404 */
  async lift(id: string, operator: Operator): Promise<StoredBan> {
    const before = await this.table.find(id);
    if (!before) throw new Problem('ban_not_found', 'No ban has this id.');
    const lifted = await this.table.database.transaction(async (client) => {
      const ban = await this.table.lift(id, operator.name, client);
      if (ban) await this.#audit(client, operator, 'ban.lift', banView(before), null);
      return ban;
    });
    await this.#tell(() => this.bans.announceLifted(id));
    return lifted ?? (await this.table.find(id)) ?? before;
  }

  list(filter: BanFilter, limit: number, beforeId: string | null): Promise<StoredBan[]> {
    return this.table.list(filter, limit, beforeId);
  }

  /** With Redis away it is in force here, and everywhere once each process has read Postgres again. */
  async #tell(tell: () => Promise<void>): Promise<void> {
    await tell().catch((error: unknown) =>
      this.log.warn({ reason: String(error) }, 'a change of bans could not be announced'),
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
