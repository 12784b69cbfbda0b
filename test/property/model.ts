import {
  type Action,
  type CampaignType,
  type Checkout,
  type Promised,
  type State,
  type Status,
  statusAfter,
  type Terms,
  type Ticket,
} from './model-types.js';

const TAKES_UNITS: readonly State[] = ['reserved', 'redeemed', 'burned'];
/** Owner of the keys of operators. */
export const OPERATORS = '';
/** Under which an answer is remembered: each user has keys of their own. */
const answerName = (user: string, key: string) => `${user}|${key}`;
const orderFor = (id: string, order: string) => order || `ord_${id.replaceAll('-', '')}`;

/**
 * What the sale must do, written down again and simply: lists that are searched, numbers that are counted when they are
 * needed. It knows nothing of Redis, of Lua or of Postgres.
 */
export class SaleModel {
  promised: Promised[] = [];
  tickets: Ticket[] = [];
  /** By `user|key`. */
  answers = new Map<string, { request: string; answer: object }>();
  /** The last result of a user: a ticket or a reservation. */
  last = new Map<string, Ticket | Promised>();
  admitted = new Map<string, number>();
  #made = 0;
  /** The end of the sale has passed, although no operator has closed it. */
  over = false;
  /** Of the terms. */
  version = 1;
  /** It was found that everything is used up. */
  spent = false;
  /** A user was served before another who had joined earlier and was absent, or wanted more than was free. */
  passedOver = false;
  /** It has left Redis, and who asks is recalled. */
  archived = false;
  /** Postgres follows the total through restocks only. */
  totalInPostgres: number | null;
  /** The head that wanted more than was free, and whether those behind it were served meanwhile. */
  blocked: { lineNo: number; passedOver: boolean } | null = null;

  constructor(
    /** null = unlimited */
    public total: number | null,
    public status: Status,
    public terms: Terms,
    readonly deviceQuota: number,
    readonly type: CampaignType,
    public codes: number,
  ) {
    this.totalInPostgres = total;
  }

  get phase(): 'draft' | 'ended' | 'paused' | 'open' {
    if (this.status === 'draft') return 'draft';
    if (this.status === 'closed' || this.over) return 'ended';
    return this.status === 'paused' ? 'paused' : 'open';
  }
  get line(): Ticket[] {
    return this.tickets.filter(({ status }) => status === 'waiting');
  }
  units(...states: readonly State[]): number {
    const whole = this.promised.filter(({ state }) => states.includes(state)).reduce((sum, { qty }) => sum + qty, 0);
    return whole + (states.includes('burned') ? this.promised.reduce((sum, { burned }) => sum + burned, 0) : 0);
  }
  get taken(): number {
    return this.units(...TAKES_UNITS);
  }
  get free(): number {
    return this.total === null ? Number.POSITIVE_INFINITY : this.total - this.taken;
  }
  get present(): Ticket[] {
    return this.line.filter(({ away }) => !away);
  }
  /** The line as in Redis: users who stepped back are behind all others. */
  get order(): Ticket[] {
    return [...this.present, ...this.line.filter(({ away }) => away)];
  }
  /** The position of a waiting user; for a user who stepped back, the one on return. */
  position(user: string): number {
    const ticket = this.line.find((one) => one.user === user);
    if (!ticket) return 0;
    return this.present.filter(({ lineNo }) => lineNo < ticket.lineNo).length + 1;
  }
  /** The position that sockets get, which differs while a campaign has just stopped asking for presence. */
  shownPosition(user: string): number {
    if (this.terms.presence) return this.position(user);
    return this.order.findIndex((ticket) => ticket.user === user) + 1;
  }
  slotsOf(user: string): number[] {
    return this.promised.filter((one) => one.user === user && TAKES_UNITS.includes(one.state)).map(({ slot }) => slot);
  }
  freeSlot(user: string): number | null {
    const taken = this.slotsOf(user);
    for (let slot = 1; slot <= this.terms.perUserLimit; slot += 1) if (!taken.includes(slot)) return slot;
    return null;
  }

  /** A code belongs to the user who holds or has used it, or who waits with it or did so when the line was closed. */
  get usedCodes(): number[] {
    const used = [
      ...this.promised.filter(({ state }) => TAKES_UNITS.includes(state)),
      ...this.tickets.filter(({ status, codeIsFree }) => status === 'waiting' || (status === 'closed' && !codeIsFree)),
    ];
    // A closed ticket may have the code of another user who got it since.
    return [...new Set(used.flatMap(({ code }) => code ?? []))].sort((a, b) => a - b);
  }
  /** The code for a user who brought none; null when one is needed and none is free. */
  handedCode(): { code: number | null } | null {
    if (this.type !== 'pool') return { code: null };
    const used = this.usedCodes;
    for (let code = 1; code <= this.codes; code += 1) if (!used.includes(code)) return { code };
    return null;
  }

  checkout({ user, qty, key, device, order, id, claim }: Checkout): { kind: string } & Record<string, unknown> {
    const request = JSON.stringify(['checkout', user, qty, claim && [claim.code, order]]);
    const answered = this.answers.get(answerName(user, key));
    if (this.archived && !answered) return { kind: 'ended' };
    if (answered)
      return answered.request === request ? { kind: 'replayed', answer: answered.answer } : { kind: 'key_reused' };
    if (device) {
      const admitted = this.admitted.get(device) ?? 0;
      if (admitted >= this.deviceQuota) return { kind: 'rate_limited' };
      this.admitted.set(device, admitted + 1);
    }
    if (this.phase === 'draft') return { kind: 'not_found' };
    if (this.phase !== 'open') return { kind: this.phase };
    if (qty > this.terms.maxQty) return { kind: 'qty_above_max', maxQty: this.terms.maxQty };
    if (this.type === 'unique' && !claim) return { kind: 'code_needed' };
    const waits = this.line.find((ticket) => ticket.user === user);
    if (waits) {
      if (this.terms.presence) Object.assign(waits, { presence: 'seen', away: false });
      return this.#remember(key, request, 'waiting', {
        position: this.shownPosition(user),
        queueSize: this.line.length,
      });
    }
    if (claim && Math.abs(claim.terms) !== this.version) return { kind: 'terms_changed', version: this.version };
    if (claim && claim.terms < 0) return { kind: 'audience_mismatch' };
    if (this.freeSlot(user) === null) return { kind: 'limit_reached' };
    const brought = claim?.code || null;
    if (brought !== null && this.usedCodes.includes(brought)) return { kind: 'code_used' };
    const handed = brought === null ? this.handedCode() : { code: brought };
    const lineFirst = this.total !== null || (brought === null && this.type === 'pool');
    const nobodyWaits = !lineFirst || this.line.length === 0 || (this.terms.presence && this.present.length === 0);
    if (this.line.length > 0 && !lineFirst) this.passedOver = true;
    if (nobodyWaits && this.free >= qty && handed) {
      const reservation = this.#promise({ user, qty, id, order, lineNo: 0, code: handed.code });
      return this.#remember(key, request, 'reserved', {
        reservationId: id,
        orderId: reservation.order,
        code: handed.code,
        terms: this.version,
      });
    }
    const never = this.spent && this.free + this.units('reserved') === 0;
    if (!this.terms.lineEnabled || never) return { kind: 'sold_out' };
    if (this.line.length >= this.terms.lineMax) return { kind: 'line_full' };
    const ticket: Ticket = {
      lineNo: this.tickets.length + 1,
      user,
      qty,
      id,
      order,
      code: brought,
      status: 'waiting',
      presence: this.terms.presence ? 'seen' : 'none',
      missed: 0,
      away: false,
      codeIsFree: false,
      made: this.#next(),
    };
    this.tickets.push(ticket);
    this.last.set(user, ticket);
    const position = this.terms.presence ? this.present.length : this.line.length;
    return this.#remember(key, request, 'queued', { position, queueSize: this.line.length });
  }

  confirm(id: string, payment: string): object {
    const one = this.#find(id);
    if (!one) return { kind: 'not_found' };
    const qty = one.released + one.refunded > 0 ? one.qty : null;
    const redeemed = (paidBy = '') => ({
      ...{ kind: 'redeemed', orderId: one.order, reacquired: one.reacquired, paidBy, qty },
    });
    if (one.state === 'redeemed') {
      const first = one.payment || payment;
      if (payment) one.payment = first;
      return redeemed(payment && payment !== first ? first : '');
    }
    // The unit of an overdue reservation goes to the line first. What is left then, and who still waits, decides.
    if (one.state === 'reserved' && one.overdue !== null) this.#giveBack(one, 'expired', 'deadline');
    const nobodyWaits = this.line.length === 0;
    // A user has one record, which is that of the place. In an unlimited pool without codes, the user may have one.
    const userWaits = this.line.some(({ user }) => user === one.user);
    const free = this.total === null || (nobodyWaits && this.free >= one.qty);
    const slot = this.freeSlot(one.user);
    const codeIsFree = one.code === null || !this.usedCodes.includes(one.code);
    if (one.state === 'reserved') {
      one.state = 'redeemed';
    } else if (
      (one.state === 'released' || one.state === 'expired') &&
      this.terms.latePayment === 'reacquire' &&
      free &&
      !userWaits &&
      slot !== null &&
      codeIsFree
    ) {
      Object.assign(one, { state: 'redeemed', reacquired: true, slot, made: this.#next() });
      this.last.set(one.user, one);
    } else {
      return { kind: 'ended', state: one.state };
    }
    one.payment = payment || one.payment;
    return redeemed();
  }

  /** @param keep units that it keeps; 0 = none */
  release(id: string, holder: string | null, reason: string, keep = 0): object {
    const one = this.#find(id);
    if (!one) return { kind: 'not_found' };
    if (holder !== null && holder !== one.user) return { kind: 'foreign' };
    if (one.state === 'reserved' && keep > 0) {
      if (one.overdue !== null) return { kind: 'released', state: 'expired' };
      const units = Math.max(0, one.qty - keep);
      one.qty -= units;
      one.released += units;
      this.#handOver(units);
      return { kind: 'kept', qty: one.qty, released: one.released };
    }
    if (one.state === 'reserved') this.#giveBack(one, one.overdue === null ? 'released' : 'expired', reason);
    else if (one.state !== 'released' && one.state !== 'expired') {
      return { kind: 'settled', state: one.state === 'redeemed' && one.reacquired ? 'reacquired' : one.state };
    }
    return { kind: 'released', state: one.state };
  }

  refund(id: string, keep = 0): object {
    const one = this.#find(id);
    if (!one) return { kind: 'not_found' };
    if (one.state === 'redeemed' && keep > 0) {
      const units = Math.max(0, one.qty - keep);
      one.qty -= units;
      one.refunded += units;
      if (this.terms.refundPolicy === 'burn') one.burned += units;
      else this.#handOver(units);
      return { kind: 'kept', qty: one.qty, refunded: one.refunded, burned: one.burned };
    }
    if (one.state === 'redeemed') {
      if (this.terms.refundPolicy === 'burn') one.state = 'burned';
      else this.#giveBack(one, 'refunded', '');
    }
    if (one.state !== 'refunded' && one.state !== 'burned') return { kind: 'unpaid', state: one.state };
    return { kind: 'refunded', returned: one.state === 'refunded' };
  }

  void(id: string, unit: 'returns' | 'never_existed', reason: string): object {
    const one = this.#find(id);
    if (!one) return { kind: 'not_found' };
    if (one.state === 'voided') return { kind: 'voided' };
    if (one.state !== 'reserved' && one.state !== 'redeemed') return { kind: 'not_active', state: one.state };
    const units = one.qty + one.burned;
    if (unit === 'never_existed' && this.total !== null) this.total -= units;
    one.burned = 0;
    this.#giveBack(one, 'voided', reason, units);
    return { kind: 'voided' };
  }

  expire(limit: number): object {
    const overdue = this.overdue();
    let promoted = 0;
    for (const one of overdue.slice(0, limit)) promoted += this.#giveBack(one, 'expired', 'deadline');
    promoted += this.#handOver(limit);
    return {
      kind: 'swept',
      expired: Math.min(limit, overdue.length),
      promoted,
      due: Math.max(0, overdue.length - limit),
    };
  }
  /** Held though their deadline has passed, in the order of their deadlines. */
  overdue(): Promised[] {
    return this.promised
      .filter((one) => one.state === 'reserved' && one.overdue !== null)
      .sort((a, b) => Number(a.overdue) - Number(b.overdue));
  }

  /**
   * @param groupWaited whether free units were kept long enough for a group
   * @param settled whether there was nothing to wait for long enough
   * @param limit people of each sort
   */
  tend(groupWaited: boolean, settled: boolean, limit: number): object {
    const done = { kind: 'tended', away: 0, left: 0, closed: 0, promoted: 0, more: false };
    if (this.phase !== 'open' || this.line.length === 0) {
      if (this.phase === 'open') this.spent = this.#isSpent(settled);
      return done;
    }
    const stored = this.order;
    this.#tendPresence(done, limit);
    this.spent = this.#isSpent(settled);
    const first = (tickets: readonly Ticket[]) => tickets.filter(({ status }) => status === 'waiting').slice(0, limit);
    const close = (tickets: readonly Ticket[]) => {
      for (const ticket of tickets) Object.assign(ticket, { status: 'closed', codeIsFree: true });
      done.closed += tickets.length;
    };
    if (this.spent) {
      close(this.type === 'shared' ? this.line : first(stored));
      done.more ||= this.line.length > 0;
    }
    if (this.spent || this.line.length === 0) return done;
    const left = this.free + this.units('reserved');
    const most = Math.max(this.terms.maxQty, this.present[0]?.qty ?? 0);
    if (this.total !== 0 && most > 1 && left < most && settled) close(first(stored).filter(({ qty }) => qty > left));
    done.promoted += this.#handOver(limit);
    const [head, ...behind] = this.present;
    if (!head || head.qty <= this.free || this.free === 0) return done;
    if (this.blocked?.lineNo !== head.lineNo) this.blocked = { lineNo: head.lineNo, passedOver: false };
    if (!groupWaited || this.blocked.passedOver) return done;
    for (const ticket of behind.slice(0, limit)) {
      if (this.free === 0) break;
      if (ticket.qty > this.free || this.#steppedBack(ticket)) continue;
      if (!this.#serve(ticket)) break;
      this.passedOver = true;
      this.blocked.passedOver = true;
      done.promoted += 1;
    }
    return done;
  }
  #isSpent(settled: boolean): boolean {
    return this.total !== null && this.total > 0 && this.free + this.units('reserved') === 0 && settled;
  }
  #tendPresence(done: { away: number; left: number; more: boolean }, limit: number): void {
    if (!this.terms.presence) {
      const back = this.line.filter(({ away }) => away).slice(0, limit);
      const known = back.length < limit ? this.line : back;
      for (const ticket of back) ticket.away = false;
      for (const ticket of known) ticket.presence = 'none';
      done.more = back.length === limit;
      return;
    }
    const unseen = this.line.filter(({ presence, away }) => presence === 'unseen' && !away);
    for (const ticket of unseen.sort((a, b) => a.missed - b.missed).slice(0, limit)) {
      this.#stepBack(ticket);
      done.away += 1;
    }
    const gone = this.line.filter(({ presence }) => presence === 'gone');
    for (const ticket of gone.sort((a, b) => (a.user < b.user ? -1 : 1)).slice(0, limit)) {
      ticket.status = 'left';
      done.left += 1;
    }
    done.more = done.away === limit || done.left === limit;
  }
  heartbeat(user: string): object {
    const ticket = this.line.find((one) => one.user === user);
    if (!ticket || !this.terms.presence) return { kind: 'attended', returned: 0 };
    const returned = ticket.away ? 1 : 0;
    Object.assign(ticket, { presence: 'seen', away: false });
    return { kind: 'attended', returned };
  }

  promote(limit: number): object {
    return { kind: 'promoted', count: this.#handOver(limit) };
  }

  leave(user: string): object {
    const last = this.last.get(user);
    if (!last || !('status' in last) || last.status === 'closed') return { kind: 'not_waiting' };
    if (last.status === 'waiting') {
      last.status = 'left';
      this.#handOver(this.terms.maxQty);
    }
    return { kind: 'left' };
  }

  restock(delta: number, limit: number, key: string | null): object {
    const request = JSON.stringify(['restock', delta]);
    const answered = key === null ? undefined : this.answers.get(answerName(OPERATORS, key));
    if (answered) return answered.request === request ? answered.answer : { kind: 'key_reused' };
    if (this.status === 'closed') return { kind: 'closed' };
    if (this.total === null || this.totalInPostgres === null) return { kind: 'unlimited' };
    if (this.free + delta < 0) return { kind: 'insufficient', free: this.free };
    this.total += delta;
    this.totalInPostgres += delta;
    this.#handOver(limit);
    const answer = { kind: 'restocked', total: this.total };
    if (key !== null) this.answers.set(answerName(OPERATORS, key), { request, answer });
    return answer;
  }

  setStatus(action: Action): object {
    const before = this.status;
    const after = statusAfter(action, before, this.over);
    if (after === null) return { kind: 'refused', status: before };
    if (after === before) return { kind: 'unchanged', status: before };
    this.status = after;
    if (after === 'closed') for (const ticket of this.line) ticket.status = 'closed';
    return { kind: 'changed', before, after };
  }
  standing(user: string): object {
    if (this.status === 'draft') return { kind: 'not_found' };
    const base = {
      kind: 'standing',
      position: 0,
      queueSize: this.line.length,
      reservationId: '',
      orderId: '',
      code: null,
    };
    const last = this.last.get(user);
    if (!last) return { ...base, status: 'not_queued' };
    if ('status' in last) {
      if (last.status === 'left') return { ...base, status: 'left' };
      if (last.status === 'closed' || this.phase === 'ended') return { ...base, status: 'closed' };
      return { ...base, status: 'queued', position: this.position(user) };
    }
    const holds = last.overdue !== null ? 'expired' : last.lineNo > 0 ? 'promoted' : 'completed';
    const status = { reserved: holds, redeemed: 'redeemed', expired: 'expired' }[last.state as string] ?? 'released';
    return { ...base, status, reservationId: last.id, orderId: last.order, code: last.code };
  }

  /**
   * After Redis was lost: answers that no journal entry carries are gone, and so is which of a user's doings was the
   * last. What the tests moved in Redis alone is as Postgres has it.
   */
  forgetWhatIsNotJournaled(): void {
    this.total = this.totalInPostgres;
    this.over = false;
    this.spent = false;
    this.blocked = null;
    for (const ticket of this.line)
      Object.assign(ticket, { presence: this.terms.presence ? 'seen' : 'none', away: false });
    const doings = [...this.promised, ...this.tickets.filter(({ status }) => status !== 'promoted')];
    for (const doing of doings.sort((a, b) => a.made - b.made)) this.last.set(doing.user, doing);
    // Postgres does not say whose line had ended before the campaign did: what they came with is taken for used.
    for (const ticket of this.tickets)
      if (ticket.status === 'closed')
        ticket.codeIsFree = this.status !== 'closed' || this.last.get(ticket.user) !== ticket;
  }

  #next(): number {
    this.#made += 1;
    return this.#made;
  }
  #find(id: string): Promised | undefined {
    return this.promised.find((one) => one.id === id);
  }
  #promise({
    user,
    qty,
    id,
    order,
    lineNo,
    code,
  }: {
    user: string;
    qty: number;
    id: string;
    order: string;
    lineNo: number;
    code: number | null;
  }): Promised {
    const one: Promised = {
      id,
      user,
      qty,
      slot: this.freeSlot(user) as number,
      state: this.terms.holdSeconds > 0 ? 'reserved' : 'redeemed',
      lineNo,
      order: orderFor(id, order),
      code,
      terms: this.version,
      overdue: null,
      reacquired: false,
      payment: null,
      reason: null,
      released: 0,
      refunded: 0,
      burned: 0,
      made: this.#next(),
    };
    this.promised.push(one);
    this.last.set(user, one);
    return one;
  }
  #remember(key: string, request: string, kind: string, answer: object): { kind: string } & Record<string, unknown> {
    const [, user = ''] = JSON.parse(request) as string[];
    this.answers.set(answerName(user, key), { request, answer: { kind, ...answer } });
    return { kind, ...answer };
  }
  /** Ends a promise; its units serve those at the head of the line, as many people as there are units at most. */
  #giveBack(one: Promised, state: State, reason: string, units = one.qty): number {
    one.state = state;
    one.reason = reason || one.reason;
    return this.#handOver(units);
  }
  /**
   * Strictly in the order of the line: a head that wants more than is free blocks all users behind it, and absent users
   * step back.
   */
  #handOver(people: number): number {
    let served = 0;
    while (served < people && this.phase === 'open' && this.free > 0) {
      const [head] = this.present;
      if (!head) break;
      if (this.#steppedBack(head)) continue;
      if (head.qty > this.free || !this.#serve(head)) break;
      served += 1;
    }
    return served;
  }
  #serve(ticket: Ticket): boolean {
    const handed = ticket.code === null ? this.handedCode() : { code: ticket.code };
    if (!handed) return false;
    ticket.status = 'promoted';
    this.#promise({ ...ticket, code: handed.code });
    return true;
  }
  #stepBack(ticket: Ticket): void {
    ticket.away = true;
    this.passedOver = true;
  }
  #steppedBack(ticket: Ticket): boolean {
    if (!this.terms.presence || ticket.presence === 'none' || ticket.presence === 'seen') return false;
    this.#stepBack(ticket);
    return true;
  }
}
