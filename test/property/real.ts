import { expect } from '@jest/globals';
import type { JournalEntry } from '../../shared/contracts/journal.js';
import type { DeviceId, IdempotencyKey, UserId } from '../../shared/domain/ids.js';
import type { CampaignTerms } from '../../shared/domain/terms.js';
import { campaignKeys, keys } from '../../shared/redis/keys.js';
import type { Persist } from '../../worker/persist/persist.js';
import { restoreCampaign } from '../../worker/recovery/restore-campaign.js';
import { TestArchive } from '../harness/archive.js';
import { inconsistencies } from '../harness/audit.js';
import type { TestCampaign } from '../harness/campaign.js';
import type { Persistence } from '../harness/persistence.js';
import { TEST_LIMITS } from '../harness/sale.js';
import { promised } from '../harness/violation.js';
import { OPERATORS, type SaleModel } from './model.js';
import type { Terms } from './model-types.js';

export const USERS = ['ann', 'bob', 'cid', 'dan', 'eve'];
export const DEVICES = ['phone', 'pad'];

/** The sale itself, and what it has journaled since it was opened. */
export class Real {
  readonly history: JournalEntry[] = [];
  #seen = '0-0';

  constructor(
    readonly store: Persistence,
    readonly campaign: TestCampaign,
  ) {}

  /** Devices are shared by all campaigns, those of this run are its own. */
  device(name: string): DeviceId {
    return `${name}-of-${this.campaign.product}` as DeviceId;
  }

  /** An operator's change: first in Postgres, then in Redis. */
  async amend(terms: Partial<Terms>): Promise<void> {
    const { campaigns, database, sale } = this.store;
    const current = await campaigns.find(this.campaign.product);
    if (!current) throw new Error('the campaign is gone');
    const changed = await campaigns.amend(
      current,
      { ...current, ...campaignTerms(terms, current) },
      current.rules,
      database,
    );
    if (!changed) throw new Error('another program has changed the campaign');
    expect(await sale.store.campaigns.updateTerms(changed)).toEqual({ kind: 'amended' });
  }

  /** What an operator asks for whose Postgres takes the campaign for a draft. */
  async lowerLimit(perUserLimit: number): Promise<object> {
    const { campaigns, sale } = this.store;
    const current = await campaigns.find(this.campaign.product);
    if (!current) throw new Error('the campaign is gone');
    return sale.store.campaigns.updateTerms({ ...current, perUserLimit, termsVersion: current.termsVersion + 1 });
  }

  async persist(model: SaleModel, persist?: Persist): Promise<void> {
    await this.#remember();
    await this.store.persist(persist);
    await this.#expectRows(model);
  }

  /** After each step: Redis is consistent in itself and says what the model says, to each shopper too. */
  async expectLike(model: SaleModel): Promise<void> {
    const [state, positions, ...standings] = await Promise.all([
      this.campaign.inRedis(),
      this.campaign.positions(USERS),
      ...USERS.map((user) => this.campaign.standing(user)),
    ]);
    promised(() => expect(inconsistencies(this.campaign.product, state)).toEqual([]));
    const { fields, reservations, line, usedCodes } = state;
    expect(fields.archived !== undefined).toBe(model.archived);
    expect({
      status: fields.status,
      total: Number(fields.total),
      free: Number(fields.free),
      held: Number(fields.held),
      redeemed: Number(fields.redeemed),
      burned: Number(fields.burned),
      codes: Number(fields.codes),
      usedCodes,
    }).toEqual({
      status: model.status,
      total: model.total ?? -1,
      free: model.total === null ? 0 : model.free,
      held: model.units('reserved'),
      redeemed: model.units('redeemed'),
      burned: model.units('burned'),
      codes: model.codes,
      usedCodes: model.usedCodes,
    });
    expect(line).toEqual(model.order.map(({ user, lineNo, away }) => ({ user, lineNo, away })));
    const records = [...reservations].map(([id, { state, user, qty, slot, lineNo, order, code, reduced }]) => ({
      id,
      state,
      user,
      qty,
      slot,
      lineNo,
      order,
      code,
      givenBack: reduced.split(',').slice(0, 2).join(),
    }));
    expect(records.sort(byId)).toEqual(
      model.promised
        .filter(({ id }) => !model.archived || reservations.has(id))
        .map(({ id, state, user, qty, slot, lineNo, order, code, reacquired, released, refunded }) => ({
          id,
          state: state === 'redeemed' && reacquired ? 'reacquired' : state,
          user,
          qty,
          slot,
          lineNo,
          order,
          code: code === null ? '' : String(code),
          givenBack: released + refunded === 0 ? '' : `${released},${refunded}`,
        }))
        .sort(byId),
    );
    expect(positions).toMatchObject({
      kind: 'positions',
      queueSize: model.line.length,
      positions: USERS.map((user) => model.shownPosition(user)),
    });
    for (const [i, user] of USERS.entries()) expect([user, standings[i]]).toMatchObject([user, model.standing(user)]);
    for (const user of USERS) expect(model.slotsOf(user).length).toBeLessThanOrEqual(model.terms.perUserLimit);
    // The next command finds all users absent.
    if (model.archived) await this.archive(model);
  }

  /** What is over, and is in Postgres, leaves Redis; and the answers that were recalled for a moment. */
  async archive(model: SaleModel): Promise<void> {
    const { product, terms } = this.campaign;
    await this.persist(model);
    const directory = async () => new Map([[terms.no as number, product]]);
    await new TestArchive(this.store.sale, this.store).worker({}, { sale: { directory } }).run();
    model.archived = model.status === 'closed' && model.units('reserved') === 0;
    const { fields, people, reservations } = await this.campaign.inRedis();
    expect(fields.archived !== undefined).toBe(model.archived);
    if (!model.archived) return;
    expect([people.size, reservations.size]).toEqual([0, 0]);
    const recalled = [...model.answers.keys()].filter((name) => !name.startsWith(`${OPERATORS}|`)).map(recordKeyOf);
    if (recalled.length > 0) await this.store.sale.redis.del(...recalled);
  }

  /**
   * The end of a run: all of it in Postgres, nothing left in the journal, and a history in which no promise was broken.
   */
  async expectEnd(model: SaleModel): Promise<void> {
    await this.persist(model);
    const { entries } = await this.store.sale.journal.backlog();
    expect(entries).toBe(0);
    expect(await this.store.rejects()).toEqual([]);
    expectHonestHistory(this.history, model.passedOver);
  }

  async #remember(): Promise<void> {
    const entries = (await this.campaign.entries()).filter(({ journalId }) => later(journalId, this.#seen));
    this.history.push(...entries);
    this.#seen = this.history.at(-1)?.journalId ?? this.#seen;
  }

  async #expectRows(model: SaleModel): Promise<void> {
    const rows = (await this.store.redemptions(this.campaign)).map((row) => ({
      id: row.redemption_id,
      user: row.user_id,
      qty: row.qty,
      slot: row.slot,
      status: row.status,
      burned: row.burned,
      reacquired: row.reacquired,
      lineNo: Number(row.line_no ?? 0),
      order: row.order_id,
      code: row.code_no,
      terms: row.terms_version,
      payment: row.payment_ref,
      reason: row.reason,
      released: row.released_qty,
      refunded: row.refunded_qty,
      burnedInPart: row.burned_qty,
    }));
    expect(rows.sort(byId)).toEqual(
      model.promised
        .map(({ id, user, qty, slot, state, reacquired, lineNo, order, code, terms, payment, reason, ...parts }) => ({
          released: parts.released,
          refunded: parts.refunded,
          burnedInPart: parts.burned,
          id,
          user,
          qty,
          slot,
          status: state === 'burned' ? 'refunded' : state,
          burned: state === 'burned',
          reacquired,
          lineNo,
          order,
          code,
          terms,
          payment,
          reason,
        }))
        .sort(byId),
    );
    expect(await this.store.tickets(this.campaign)).toEqual(
      model.tickets.map(({ lineNo, user, qty, id, order, code, status }) => ({
        line_no: lineNo,
        user_id: user,
        qty,
        status,
        reservation_id: id,
        order_id: order || null,
        code_no: code,
      })),
    );
    expect(await this.store.campaignRow(this.campaign)).toEqual({
      status: model.status,
      total_limit: model.totalInPostgres,
      taken: model.taken,
    });
  }

  /** Redis loses the campaign with everything that belongs to it, and a worker fills it again from Postgres. */
  async loseAndRestore(model: SaleModel): Promise<void> {
    const { sale, sql, database, cursor, campaigns, log } = this.store;
    const { product } = this.campaign;
    await this.persist(model);
    // Deadlines were moved in Redis only; Postgres has to know of it.
    const { deadlines } = await this.campaign.inRedis();
    for (const [id, dueMs] of deadlines)
      await sql.query('update redemptions set pay_before = ms($2) where redemption_id = $1', [id, dueMs]);
    const answers = [...model.answers.keys()].map(recordKeyOf);
    await sale.redis.del(...campaignKeys(product), ...answers);
    const stored = await campaigns.find(product);
    if (!stored) throw new Error('the campaign is gone');
    const parts = { database, cursor, sale: sale.store, log, idempotencyTtlMs: TEST_LIMITS.idempotencyTtlMs };
    await sale.fill(async (token) => restoreCampaign(parts, stored, await sale.nowMs(), token));
    model.forgetWhatIsNotJournaled();
    model.archived = model.status === 'closed' && model.units('reserved') === 0;
  }

  /** The clock goes past a reservation's deadline. */
  async passDeadline(id: string, rank: number): Promise<void> {
    await this.campaign.setDeadline(id, rank);
  }

  /** So much time goes by that the oldest checkouts of a device leave the window. */
  async forgetOldest(device: string, count: number): Promise<void> {
    const { redis } = this.store.sale;
    const key = keys.device(this.device(device));
    const times = await redis.get(key);
    if (times === null) return;
    const newest = times.split(',').filter((time) => time !== '');
    await redis.set(key, newest.slice(0, Math.max(0, newest.length - count)).join(','), 'KEEPTTL');
  }
}

export function campaignTerms(
  terms: Partial<Terms>,
  current: Pick<CampaignTerms, 'waitingRoom'>,
): Partial<CampaignTerms> {
  const { waitingRoom } = current;
  const { lineEnabled = waitingRoom.enabled, lineMax = waitingRoom.maxSize, presence, ...rest } = terms;
  const seconds = presence === undefined ? waitingRoom.presenceSeconds : presence ? PRESENCE_SECONDS : null;
  return { ...rest, waitingRoom: { enabled: lineEnabled, maxSize: lineMax, presenceSeconds: seconds } };
}

/** So long that no user becomes absent in a run by itself. */
const PRESENCE_SECONDS = 3_600;

const byId = (a: { id: unknown }, b: { id: unknown }) => (String(a.id) < String(b.id) ? -1 : 1);
const later = (a: string, b: string) => {
  const [aMs = 0, aSeq = 0, bMs = 0, bSeq = 0] = `${a}-${b}`.split('-').map(Number);
  return aMs > bMs || (aMs === bMs && aSeq > bSeq);
};

/**
 * P = redeemed at once, R = reserved, D = redeemed, A = redeemed after it had ended, L, X, V, F = released, expired,
 * voided, refunded.
 */
const LIFE = /^(P[FV]?|R(V|D[FV]?|[LX](A[FV]?)?)?)$/;
const LETTERS = { released: 'L', expired: 'X', voided: 'V', refunded: 'F' } as const;

/**
 * Checks the journal by itself: each promise is made once and ends once, the line is served in its order, no user who
 * came later got a unit while another waited, and one user at a time uses a code.
 * @param passedOver a user was absent or wanted more than was free: then the order was checked step by step only
 */
export function expectHonestHistory(history: readonly JournalEntry[], passedOver = false): void {
  const lives = new Map<string, string>();
  const line: { user: string; lineNo: number; reservation: string }[] = [];
  const codes = new Map<number, string>();
  const codeOf = new Map<string, number | null>();
  const use = (reservation: string) => {
    const code = codeOf.get(reservation) ?? null;
    if (code === null) return;
    expect([undefined, reservation]).toContain(codes.get(code));
    codes.set(code, reservation);
  };
  const free = (reservation: string | undefined) => {
    const code = codeOf.get(String(reservation)) ?? null;
    if (code !== null && codes.get(code) === reservation) codes.delete(code);
  };
  let lastServed = 0;
  for (const entry of history) {
    switch (entry.kind) {
      case 'queued':
        line.push(entry);
        codeOf.set(entry.reservation, entry.code);
        use(entry.reservation);
        break;
      case 'line_closed':
        for (const { reservation } of line.splice(0)) free(reservation);
        break;
      case 'left':
        free(
          line.splice(
            line.findIndex(({ user }) => user === entry.user),
            1,
          )[0]?.reservation,
        );
        break;
      case 'status':
        if (entry.status === 'closed') line.splice(0);
        break;
      case 'reserved':
        codeOf.set(entry.reservation, entry.code);
        use(entry.reservation);
        lives.set(entry.reservation, (lives.get(entry.reservation) ?? '') + (entry.state === 'redeemed' ? 'P' : 'R'));
        if (passedOver) {
          const place = line.findIndex(({ lineNo }) => lineNo === entry.lineNo);
          expect(place >= 0).toBe(entry.lineNo > 0);
          if (place >= 0) expect(line.splice(place, 1)).toMatchObject([{ user: entry.user }]);
        } else if (entry.lineNo === 0) {
          expect(line).toEqual([]);
        } else {
          expect(line.shift()).toMatchObject({ user: entry.user, lineNo: entry.lineNo });
          expect(entry.lineNo).toBeGreaterThan(lastServed);
          lastServed = entry.lineNo;
        }
        break;
      case 'redeemed':
        use(entry.reservation);
        lives.set(entry.reservation, lives.get(entry.reservation) + (entry.reacquired ? 'A' : 'D'));
        break;
      case 'restocked':
      case 'answered':
      case 'paid_again':
      case 'extended':
      case 'reduced':
      case 'sealed':
      case 'moved_out':
      case 'moved_in':
        break;
      default:
        if (entry.kind !== 'refunded' || !entry.burned) free(entry.reservation);
        lives.set(entry.reservation, lives.get(entry.reservation) + LETTERS[entry.kind]);
    }
  }
  for (const life of lives.values()) expect(life).toMatch(LIFE);
}

/** The key in Redis of a remembered answer. @param name `user|key` */
function recordKeyOf(name: string): string {
  const [user, key] = name.split('|') as [UserId, IdempotencyKey];
  return keys.idempotency(user, key);
}
