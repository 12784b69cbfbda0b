import { describe, expect, it } from '@jest/globals';
import { judge } from '../../torture/judge/judge.js';
import { BEGAN_AT, HandMade, PRODUCT } from './hand-made.js';

const ANNA = 'anna';
const BEN = 'ben';

const set = (target: object, values: object): void => void Object.assign(target, values);

/** `rule: what` of each violation that the judge finds; what is only slow begins with "slow ". */
function findings(made: HandMade): string[] {
  const { violations, slow } = judge(made, made.final, made.campaigns);
  const textsOf = (found: typeof violations) => found.map(({ rule, what }) => `${rule}: ${what}`);
  return [...textsOf(violations), ...textsOf(slow).map((text) => `slow ${text}`)];
}

describe('the judge', () => {
  it('finds nothing in a history without violations', () => {
    const made = new HandMade();
    const paid = made.unit(ANNA, 100, { status: 'redeemed', payment_ref: 'p' });
    made.confirm(paid.id, 200);
    made.final.campaigns[0]!.taken = 1;
    const released = made.unit(BEN, 300, { status: 'released' });
    made.release(released.id, 400);
    made.place('carl', 500, 1);
    made.place('dora', 600, 2);
    made.call('stats', 700, 503, { code: 'temporarily_unavailable' });
    made.fault(650, 750);
    expect(findings(made)).toEqual([]);
  });
});

describe('the rule on promises', () => {
  it('finds an acknowledged reservation without a row', () => {
    const made = new HandMade();
    made.unit(ANNA, 100);
    made.final.redemptions.length = 0;
    expect(findings(made)).toEqual(['promises: an acknowledged reservation has no row']);
  });

  it('finds a row that differs from what was acknowledged', () => {
    const made = new HandMade();
    made.unit(ANNA, 100, { order_id: 'another' });
    expect(findings(made)).toEqual(['promises: the row of an acknowledged reservation differs']);
  });

  it('finds a voided reservation', () => {
    const made = new HandMade();
    made.unit(ANNA, 100, { status: 'voided', reason: 'campaigns_cap' });
    expect(findings(made)).toEqual([
      'promises: an acknowledged reservation was voided',
      'traces: a reservation was voided although Redis lost nothing',
    ]);
  });

  it('finds a place in line without a row', () => {
    const made = new HandMade();
    made.place(ANNA, 100, 1);
    made.final.tickets.length = 0;
    made.final.lines[PRODUCT] = [];
    expect(findings(made)).toEqual(['promises: an acknowledged place in line has no row']);
  });

  it('finds a paid reservation that expired', () => {
    const made = new HandMade();
    const { id } = made.unit(ANNA, 100, { status: 'expired' });
    made.confirm(id, 200);
    expect(findings(made)).toContain('promises: a paid reservation is expired');
  });

  it('finds a released reservation that is redeemed', () => {
    const made = new HandMade();
    const { id } = made.unit(ANNA, 100, { status: 'redeemed', payment_ref: 'p' });
    made.final.campaigns[0]!.taken = 1;
    made.release(id, 200);
    made.confirm(id, 300, 409);
    expect(findings(made)).toEqual(['promises: a released reservation is redeemed']);
  });

  it('finds a refund that is lost', () => {
    const made = new HandMade();
    const { id } = made.unit(ANNA, 100, { status: 'redeemed', payment_ref: 'p' });
    made.final.campaigns[0]!.taken = 1;
    made.confirm(id, 200);
    made.refund(id, 300);
    expect(findings(made)).toEqual(['promises: a refunded reservation is redeemed']);
  });

  it('finds units that were given back and are taken, and those that no client gave back', () => {
    const row = { status: 'reserved', pay_before: null, qty: 2, released_qty: 1 };
    const part = (kept: Partial<typeof row>, called: boolean) => {
      const made = new HandMade();
      const { id, call } = made.unit(ANNA, 100, { ...row, ...kept });
      Object.assign(call.body as object, { qty: 3 });
      made.final.campaigns[0]!.taken = kept.qty ?? 2;
      if (called) made.releasePart(id, 200, 2, 1);
      return findings(made).filter((one) => one.startsWith('promises'));
    };
    expect(part({}, true)).toEqual([]);
    expect(part({ qty: 3, released_qty: 0 }, true)).toEqual(['promises: units that were released are taken']);
    expect(part({}, false)).toEqual(['promises: units are released although no client asked']);
    expect(part({ qty: 3 }, true)).toContain('promises: the row of an acknowledged reservation differs');
  });

  it('excuses units that an isolated process gave back when the reservation has ended since', () => {
    const lost = (status: string, isIsolated: boolean) => {
      const made = new HandMade();
      const { id, call } = made.unit(ANNA, 100, { status, qty: 3, pay_before: null });
      Object.assign(call.body as object, { qty: 3 });
      made.final.campaigns[0]!.taken = status === 'reserved' ? 3 : 0;
      made.releasePart(id, 200, 2, 1);
      made.fault(150, 3_000);
      made.event({ at: 150, what: 'redis-lost', mode: 'promoted' });
      if (isIsolated) made.event({ at: 150, what: 'isolated', phase: 'begin', processes: ['api-1'] });
      return findings(made).filter((one) => one.startsWith('promises'));
    };
    expect(lost('expired', true)).toEqual([]);
    expect(lost('expired', false)).toEqual(['promises: units that were released are taken']);
    expect(lost('reserved', true)).toEqual(['promises: units that were released are taken']);
  });

  it('finds a lost payment reference', () => {
    const made = new HandMade();
    const { id } = made.unit(ANNA, 100, { status: 'redeemed' });
    made.final.campaigns[0]!.taken = 1;
    made.confirm(id, 200);
    expect(findings(made)).toEqual(['promises: the payment reference of a paid reservation is lost']);
  });

  it.each(['redeemed', 'released', 'refunded'])('finds a reservation that is %s although no client asked', (status) => {
    const made = new HandMade();
    made.unit(ANNA, 100, { status });
    made.final.campaigns[0]!.taken = status === 'redeemed' ? 1 : 0;
    expect(findings(made)).toHaveLength(1);
  });

  it('finds a hold that never ended', () => {
    const made = new HandMade();
    made.unit(ANNA, 100, { status: 'reserved' });
    made.final.campaigns[0]!.taken = 1;
    expect(findings(made)).toEqual(['promises: a reservation is still reserved long after its deadline']);
  });

  it('finds a promotion that its holder saw and that is gone', () => {
    const made = new HandMade();
    const text = '{"type":"promoted","seq":2,"time":"t","reservation_id":"gone"}';
    const about = { type: 'frame', socket: 's', process: 'api-1#1', product: PRODUCT, user: ANNA } as const;
    made.frames.push({ ...about, at: 1, text: '{"type":"welcome","seq":1,"time":"t"}' }, { ...about, at: 2, text });
    expect(findings(made)).toEqual([
      'promises: a reservation that its holder saw is missing, voided or of another user',
    ]);
  });

  it('finds a user who left the line and waits again', () => {
    const made = new HandMade();
    made.place(ANNA, 100, 1);
    made.call('leave', 200, 200, { user: ANNA, data: { status: 'left' } });
    expect(findings(made)).toEqual(['promises: a user who left the line waits again']);
  });
});

describe('what may be lost', () => {
  /** An acknowledged reservation without a row; Redis loses its data and a process dies, each at a time. */
  function lost(lossAt: number, death: { at: number; process: string } | null, durability = 'journaled'): string[] {
    const made = new HandMade();
    const { call } = made.unit(ANNA, 1_000);
    call.text = String(call.text).replace('journaled', durability);
    made.final.redemptions.length = 0;
    made.fault(900, 3_000);
    made.event({ at: lossAt, what: 'redis-lost', mode: 'promoted' });
    if (death) made.event({ ...death, what: 'down', how: 'kill' });
    return findings(made);
  }
  const missing = ['promises: an acknowledged reservation has no row'];
  const API = 'api-1#1';

  it('is a journaled promise of a process that died together with the data of Redis', () => {
    expect(lost(2_000, { at: 1_500, process: API })).toEqual([]);
  });

  it('is not a promise whose process lives, or another one died', () => {
    expect(lost(2_000, null)).toEqual(missing);
    expect(lost(2_000, { at: 1_500, process: 'api-2#1' })).toEqual(missing);
  });

  it('is not a promise that a living process acknowledged again', () => {
    const made = new HandMade();
    const { call } = made.unit(ANNA, 1_000);
    const again = (api: string) =>
      made.call('checkout', 1_700, 200, { ...call, at: 1_700, end: 1_710, n: 2, api, process: `${api}#1` });
    again('api-2');
    made.final.redemptions.length = 0;
    made.fault(900, 3_000);
    made.event({ at: 2_000, what: 'redis-lost', mode: 'promoted' });
    made.event({ at: 1_500, what: 'down', how: 'kill', process: API });
    expect(findings(made)).toEqual(missing);
    made.event({ at: 1_900, what: 'down', how: 'kill', process: 'api-2#1' });
    expect(findings(made)).toEqual([]);
  });

  it('is not a promise that Redis lost long after it was made, or before', () => {
    expect(lost(20_000, { at: 20_000, process: API })).toEqual(missing);
    expect(lost(100, { at: 1_500, process: API })).toEqual(missing);
  });

  it('is neither a committed promise nor one that the promoted replica had', () => {
    expect(lost(2_000, { at: 1_500, process: API }, 'committed')).toEqual(missing);
    expect(lost(2_000, { at: 1_500, process: API }, 'replicated')).toEqual(missing);
  });

  describe('when both engines are set back one after the other', () => {
    /** Postgres gets a backup of 10 s and is repaired at 20 s. */
    function setBack(madeAt: number, emptiedAt: number): string[] {
      const made = new HandMade();
      made.unit(ANNA, madeAt);
      made.final.redemptions.length = 0;
      made.fault(10_000, 20_000, 1, 'postgres-restore');
      made.event({ at: 13_000, what: 'postgres-restored' });
      made.event({ at: emptiedAt, what: 'redis-lost', mode: 'empty' });
      return findings(made);
    }

    it('is what was promised since the backup, if Redis was lost before the repair', () => {
      expect(setBack(11_000, 15_000)).toEqual([]);
      expect(setBack(11_000, 5_000)).toEqual([]);
    });

    it('is not what Postgres had before the backup', () => {
      expect(setBack(1_000, 15_000)).toEqual(missing);
    });

    it('is nothing if Redis was lost after the repair', () => {
      expect(setBack(11_000, 20_500)).toEqual(missing);
    });
  });

  it('is not excused longer by faults that let everything be saved', () => {
    const found = (fault: string) => {
      const made = new HandMade();
      made.unit(ANNA, 1_000);
      made.final.redemptions.length = 0;
      made.fault(900, 3_000);
      made.fault(4_000, 12_000, 2, fault);
      made.event({ at: 13_000, what: 'redis-lost', mode: 'empty' });
      made.event({ at: 13_000, what: 'down', how: 'kill', process: API });
      return findings(made);
    };
    for (const fault of ['postgres-freeze', 'kill worker-1', 'freeze api-2']) expect(found(fault)).toEqual([]);
    for (const fault of ['move-campaign', 'process-clock', 'kill api-2']) expect(found(fault)).toEqual(missing);
  });

  it('is a promise of a process that was frozen when Redis lost its data, if a row says so', () => {
    const made = new HandMade();
    const { row } = made.unit(ANNA, 1_000, { status: 'voided', reason: 'taken' });
    made.fault(900, 3_000);
    made.event({ at: 1_100, what: 'redis-lost', mode: 'empty' });
    expect(findings(made)).toContain('promises: an acknowledged reservation was voided');
    made.event({ at: 1_050, what: 'freeze', process: 'api-1#1', phase: 'begin' });
    made.event({ at: 2_900, what: 'freeze', process: 'api-1#1', phase: 'end' });
    expect(findings(made)).toEqual([]);
    row.reason = null;
    expect(findings(made)).toContain('promises: an acknowledged reservation was voided');
  });

  it('is a promise of an isolated process, if a reject or a voided row says so', () => {
    const made = new HandMade();
    made.unit(ANNA, 1_000);
    made.final.redemptions.length = 0;
    made.fault(900, 3_000);
    made.event({ at: 950, what: 'redis-lost', mode: 'promoted' });
    made.event({ at: 950, what: 'isolated', phase: 'begin', processes: ['api-1'] });
    made.event({ at: 2_000, what: 'isolated', phase: 'end', processes: ['api-1'] });
    expect(findings(made)).toEqual(missing);
    made.final.rejects.push({ journal_id: '1-1', fields: { reservation: 'reservation-of-anna' }, reason: 'taken' });
    expect(findings(made)).toEqual([]);
  });

  it.each(['queued', 'acknowledged'])('is a place of an isolated process, if a reject of kind %s says so', (kind) => {
    const made = new HandMade();
    made.place(BEN, 1_000, 1);
    made.final.tickets.length = 0;
    made.final.lines.shop = [];
    made.fault(900, 3_000);
    made.event({ at: 950, what: 'redis-lost', mode: 'promoted' });
    made.event({ at: 950, what: 'isolated', phase: 'begin', processes: ['api-1'] });
    made.event({ at: 2_000, what: 'isolated', phase: 'end', processes: ['api-1'] });
    expect(findings(made)).toContain('promises: an acknowledged place in line has no row');
    made.final.rejects.push({ journal_id: '1-1', fields: { kind, of: 'place', user: BEN }, reason: 'taken' });
    expect(findings(made)).toEqual([]);
  });

  it('is a refund, also if a living process acknowledged another one later', () => {
    const made = new HandMade();
    const { id } = made.unit(ANNA, 100, { status: 'refunded', payment_ref: 'p' });
    made.confirm(id, 900);
    made.refund(id, 1_000);
    made.fault(900, 3_000);
    made.event({ at: 1_500, what: 'down', how: 'kill', process: API });
    made.event({ at: 2_000, what: 'redis-lost', mode: 'empty' });
    for (const call of [made.confirm(id, 20_000), made.refund(id, 30_000)])
      Object.assign(call, { api: 'api-2', process: 'api-2#1' });
    expect(findings(made)).toEqual([]);
  });
});

describe('the rule on keys', () => {
  it('finds a key with two responses', () => {
    const made = new HandMade();
    const { call } = made.unit(ANNA, 100);
    made.calls.push({ ...call, at: 200, end: 210, text: String(call.text).replace('"ticket":"t"', '"ticket":"u"') });
    expect(findings(made)).toEqual(['keys: a key has two responses']);
  });

  it('accepts a code that a later response has and the first one lacked, and no other code', () => {
    const made = new HandMade();
    const { call } = made.unit(ANNA, 100);
    const withCode = (code: string | null) => JSON.stringify({ data: { ...JSON.parse(String(call.text)).data, code } });
    call.text = withCode(null);
    made.calls.push({ ...call, at: 200, end: 210, text: withCode('ONE') });
    expect(findings(made)).toEqual([]);
    call.text = withCode('TWO');
    expect(findings(made)).toEqual(['keys: a key has two responses']);
  });

  it('finds another response in a replay with the key in the body', () => {
    const made = new HandMade();
    const { call } = made.unit(ANNA, 100);
    const { user = '', key = '' } = call;
    made.call('checkout', 200, 409, {
      user,
      key,
      code: 'duplicate_request',
      data: { reservation_id: 'reservation-of-anna' },
    });
    expect(findings(made)).toEqual(['keys: a key has two responses']);
  });

  it('finds a key that is forgotten', () => {
    const made = new HandMade();
    const { call } = made.unit(ANNA, 100);
    made.call('checkout', 200, 410, { user: ANNA, key: String(call.key), code: 'sold_out' });
    expect(findings(made)).toEqual(['keys: a key was acknowledged and is refused later']);
  });
});

describe('a key of a paused campaign', () => {
  it('is forgotten when it gets 503 `campaign_paused`, and is not when the service is away', () => {
    const made = new HandMade();
    const { call } = made.unit(ANNA, 100);
    const again = { user: ANNA, key: String(call.key) };
    made.call('checkout', 200, 503, { ...again, code: 'temporarily_unavailable' });
    expect(findings(made)).toEqual([]);
    made.call('checkout', 300, 503, { ...again, code: 'campaign_paused' });
    expect(findings(made)).toEqual(['keys: a key was acknowledged and is refused later']);
  });
});

describe('the rule on caps', () => {
  it('finds more units than there are', () => {
    const made = new HandMade();
    made.final.campaigns[0]!.total_limit = 0;
    made.final.campaigns[0]!.taken = 1;
    made.campaigns[0]!.total = 0;
    made.final.stats[0]!.stats = { ...made.final.stats[0]!.stats!, total: 0, free: 0 };
    made.unit(ANNA, 100, { status: 'redeemed', pay_before: null });
    expect(findings(made)).toEqual(['caps: more units are taken than there are']);
  });

  it('finds a wrong sum, a user beyond the limit and a code that was used twice', () => {
    const made = new HandMade();
    made.unit(ANNA, 100, { status: 'redeemed', pay_before: null, code_no: 1 });
    made.unit(BEN, 200, { status: 'redeemed', pay_before: null, code_no: 1 });
    made.final.redemptions.push({ ...made.final.redemptions[0]!, redemption_id: 'second', code_no: 2 });
    expect(findings(made)).toEqual([
      'caps: `taken` is not the sum of the rows',
      'caps: anna has more than the limit of 1',
      'caps: a code is used twice',
    ]);
  });
});

describe('the rule on the line', () => {
  it('finds a later place in front of an earlier one', () => {
    const made = new HandMade();
    made.place(ANNA, 100, 2);
    made.place(BEN, 200, 1);
    expect(findings(made)).toEqual(['line: a later place is before an earlier one']);
  });

  it('finds a later place that was served first', () => {
    const made = new HandMade();
    const [first, second] = [made.place(ANNA, 100, 1), made.place(BEN, 200, 2)];
    made.serve(first, 400);
    made.serve(second, 300);
    expect(findings(made)).toEqual(['line: a later place was served first']);
  });

  it('finds a user who waits while a later place was served', () => {
    const made = new HandMade();
    made.place(ANNA, 100, 1);
    made.serve(made.place(BEN, 200, 2), 300);
    expect(findings(made)).toEqual(['line: a later place was served first']);
  });

  it('lets a smaller group pass a larger one, and no larger one', () => {
    const made = new HandMade();
    const group = made.place(ANNA, 100, 1, { qty: 2 });
    made.serve(made.place(BEN, 200, 2, { qty: 1 }), 300);
    expect(findings(made)).toEqual([]);
    group.row.qty = 1;
    expect(findings(made)).toEqual(['line: a later place was served first']);
  });

  it('finds a unit that was given to a new user while another user waited', () => {
    const made = new HandMade();
    made.place(ANNA, 100, 1);
    made.unit(BEN, 200);
    expect(findings(made)).toEqual(['line: a unit was given to a new user while another user waited']);
  });

  describe('when the repair of a Postgres that was set back wrote the end of a place', () => {
    /** Anna's place ended before the repair at 900, which wrote its own time; Ben was served at 600. */
    function repaired(endedAt = 900): HandMade {
      const made = new HandMade();
      made.place(ANNA, 100, 1, { status: 'closed', ended_at: BEGAN_AT + endedAt });
      made.serve(made.place(BEN, 200, 2), 600);
      made.event({ at: 150, what: 'fault', fault: 'postgres-restore', phase: 'begin', id: 7 });
      made.event({ at: 700, what: 'postgres-restored' });
      made.event({ at: 950, what: 'fault', fault: 'postgres-restore', phase: 'end', id: 7 });
      return made;
    }
    const queued = { user: ANNA, data: { status: 'queued', position: 1, queue_size: 2 } };
    const status = { ...queued, data: { ...queued.data, estimated_wait_seconds: null, poll_after_seconds: 1 } };
    const servedFirst = ['line: a later place was served first'];

    it('does not take its time for the end of the place', () => {
      expect(findings(repaired())).toEqual([]);
    });

    it('finds a later place that was served before an API returned the place for the last time', () => {
      const made = repaired();
      made.call('status', 610, 200, status);
      expect(findings(made)).toEqual(servedFirst);
    });

    it('compares places that ended at other times', () => {
      expect(findings(repaired(690))).toEqual(servedFirst);
      expect(findings(repaired(960))).toEqual(servedFirst);
    });
  });
});

describe('the rule on conservation', () => {
  it('finds stats that do not add up', () => {
    const made = new HandMade();
    made.final.stats[0]!.stats!.free = 9;
    expect(findings(made)).toEqual(['conservation: the stats do not add up']);
  });

  it('finds other totals and other units taken in Redis than in Postgres', () => {
    const made = new HandMade();
    made.final.stats[0]!.stats = { ...made.final.stats[0]!.stats!, total: 11, free: 11, drift: 1 };
    expect(findings(made)).toEqual([
      'conservation: Redis and Postgres have different numbers of units taken',
      'conservation: Redis and Postgres have different totals',
    ]);
  });

  it('finds a created campaign without a row, if not both engines lost it', () => {
    const lostCampaign = (createdAt: number) => {
      const made = new HandMade();
      made.call('create', createdAt, 201, {
        product: 'new-sale',
        data: { id: 'campaign-2', product_id: 'new-sale', status: 'open' },
      });
      made.events.push(
        { type: 'event', at: 50_000, what: 'fault', phase: 'begin', id: 1, fault: 'postgres-restore' },
        { type: 'event', at: 53_000, what: 'postgres-restored' },
        { type: 'event', at: 54_000, what: 'redis-lost', mode: 'empty' },
        { type: 'event', at: 60_000, what: 'fault', phase: 'end', id: 1, fault: 'postgres-restore' },
      );
      made.campaigns.push({ product: 'new-sale', total: null, isCreated: true });
      return findings(made);
    };
    expect(lostCampaign(51_000)).toEqual([]);
    // Older than the backup, and younger than the repair.
    for (const at of [10_000, 100_000])
      expect(lostCampaign(at)).toEqual(['conservation: a created campaign has no row']);
  });

  it('finds what the ledger finds', () => {
    const made = new HandMade();
    made.final.ledgers[PRODUCT]!.lost = 1;
    expect(findings(made)).toEqual(['conservation: the ledger of shop finds differences']);
  });

  it('finds a line that differs', () => {
    const made = new HandMade();
    made.final.lines[PRODUCT] = [ANNA];
    expect(findings(made)).toEqual(['conservation: the lines of shop differ']);
  });

  it('finds a standing that differs from the row', () => {
    const made = new HandMade();
    const { id } = made.unit(ANNA, 100);
    made.final.standings.push({ product: PRODUCT, user: ANNA, status: 'redeemed', reservation: id });
    expect(findings(made)).toEqual(['conservation: queue-status and the row differ']);
  });

  it('finds a lost restock', () => {
    const made = new HandMade();
    made.call('stock', 100, 200, { key: 'k', body: { delta: 2 } });
    expect(findings(made)).toEqual(['conservation: the total of shop is 10']);
    made.calls[0]!.status = null;
    made.fault(90, 120);
    made.event({ at: 90, what: 'cut', api: 'api-1' });
    expect(findings(made)).toEqual([]);
  });

  it('finds a lost pause, a lost name and a lost campaign', () => {
    const made = new HandMade();
    made.call('action', 100, 200, { detail: 'close' });
    made.call('patch', 200, 200, { body: { name: 'new' } });
    expect(findings(made)).toEqual([
      'conservation: shop is paused although the last acknowledged action is close',
      'conservation: the acknowledged name of shop is lost',
    ]);
    made.final.campaigns.length = 0;
    expect(findings(made)).toEqual(['conservation: a created campaign has no row']);
  });

  it.each(['empty', 'filling'] as const)('excuses a lost name only when both engines lost it (%s)', (mode) => {
    const made = new HandMade();
    made.call('patch', 200, 200, { body: { name: 'new' } });
    made.fault(290, 350, 1, 'postgres-restore');
    made.event({ at: 300, what: 'postgres-restored' });
    expect(findings(made)).toEqual(['conservation: the acknowledged name of shop is lost']);
    made.event({ at: 310, what: 'redis-lost', mode });
    expect(findings(made)).toEqual([]);
  });
});

describe('the rule on moves', () => {
  const refused = 'stopped: redis: it is being recovered, or it is ahead of Postgres\nRepeat the command.\n';
  const move = (made: HandMade, code: number | null, output = '', shard = 1) =>
    made.event({ at: 200, what: 'move', product: PRODUCT, shard, began: 100, code, output });
  const inShards = (postgres: number[], redis: number[], status = 'paused') => {
    const made = new HandMade();
    made.final.places[PRODUCT] = { postgres, redis };
    made.final.campaigns[0]!.status = status;
    return made;
  };

  it('finds nothing when a move was refused with its reason or killed, and done when it was repeated', () => {
    const made = inShards([1], [1]);
    move(made, null);
    move(made, 1, refused);
    move(made, 2, 'it failed: connect ECONNREFUSED\n');
    move(made, 0);
    expect(findings(made)).toEqual([]);
  });

  it('finds a campaign in two shards, and one that its shard lacks', () => {
    expect(findings(inShards([1], [0, 1]))).toEqual(['moves: a shard has a campaign that is in another one']);
    expect(findings(inShards([0, 1], [1]))).toEqual(['moves: a shard lacks a campaign that Postgres has there']);
    // It may have left Redis.
    expect(findings(inShards([1], [], 'closed'))).toEqual([]);
    expect(findings(inShards([1], [0], 'closed'))).toEqual(['moves: a shard has a campaign that is in another one']);
  });

  it('finds a move that is lost, unless both engines lost it', () => {
    const made = inShards([0], [0]);
    move(made, 0);
    expect(findings(made)).toEqual(['moves: a campaign is not where its last move ended']);
    made.fault(50, 900, 1, 'postgres-restore');
    expect(findings(made)).toEqual(['moves: a campaign is not where its last move ended']);
    made.event({ at: 300, what: 'redis-lost', mode: 'empty' });
    expect(findings(made)).toEqual([]);
  });

  it('finds a move that never succeeds, and one that gives no reason', () => {
    const never = inShards([0], [0]);
    move(never, 0, '', 0);
    move(never, 1, refused);
    expect(findings(never)).toEqual(['moves: a move never succeeds']);
    const unclear = (code: number, output: string) => {
      const made = inShards([1], [1]);
      move(made, code, output);
      move(made, 0);
      return findings(made);
    };
    const without = ['moves: a move was refused without a clear reason'];
    expect(unclear(1, '')).toEqual(without);
    expect(unclear(7, refused)).toEqual(without);
    expect(unclear(1, `${refused}    at move (reshard.js:1:1)\n`)).toEqual(without);
    expect(unclear(1, refused)).toEqual([]);
  });
});

describe('the rule on backups', () => {
  /** Both engines lost everything since a backup that has the reservation in a state. */
  function restored(before: string, status: string | null): string[] {
    const made = new HandMade();
    const { id } = made.unit(ANNA, 100, { status: status ?? 'expired' });
    made.place(BEN, 150, 1);
    made.confirm(id, 180);
    made.refund(id, 190);
    made.fault(50, 900, 1, 'postgres-restore');
    made.event({ at: 200, what: 'backup', redemptions: { [id]: before }, places: [`${PRODUCT} ${BEN}`] });
    made.event({ at: 300, what: 'redis-lost', mode: 'empty' });
    if (status === 'redeemed') made.final.campaigns[0]!.taken = 1;
    if (status === null) Object.assign(made.final, { redemptions: [], tickets: [], lines: { [PRODUCT]: [] } });
    return findings(made);
  }

  it('finds what a backup had and Postgres has not, although both engines lost what came later', () => {
    expect(restored('reserved', null)).toEqual([
      'backups: a reservation that a backup had has no row',
      'backups: a place that a backup had has no row',
    ]);
  });

  it('finds a payment and a refund that a backup had and that are lost', () => {
    expect(restored('reserved', 'expired')).toEqual([]);
    expect(restored('redeemed', 'refunded')).toEqual([]);
    expect(restored('redeemed', 'expired')).toEqual([
      'backups: a reservation that was redeemed in a backup is expired',
    ]);
    expect(restored('refunded', 'redeemed')).toContain(
      'backups: a reservation that was refunded in a backup is redeemed',
    );
  });
});

describe('the rule on finality', () => {
  it('finds a reservation that was confirmed and released', () => {
    const made = new HandMade();
    const { id } = made.unit(ANNA, 100, { status: 'redeemed', payment_ref: 'p' });
    made.final.campaigns[0]!.taken = 1;
    made.confirm(id, 200);
    made.release(id, 300);
    expect(findings(made)).toContain('finality: a reservation was confirmed and released');
  });

  it('finds a paid reservation that released units', () => {
    const made = new HandMade();
    const { id } = made.unit(ANNA, 100, { status: 'redeemed', payment_ref: 'p', released_qty: 1 });
    made.final.campaigns[0]!.taken = 1;
    made.confirm(id, 200);
    made.releasePart(id, 300, 1, 1);
    expect(findings(made)).toContain('finality: a paid reservation released units');
  });

  it('finds a payment that was acknowledged and is refused later', () => {
    const made = new HandMade();
    const { id } = made.unit(ANNA, 100, { status: 'redeemed', payment_ref: 'p' });
    made.final.campaigns[0]!.taken = 1;
    made.confirm(id, 200);
    made.confirm(id, 300, 409);
    expect(findings(made)).toEqual(['finality: a reservation was paid, then a payment refused']);
  });

  it('finds a paid reservation that is unpaid again, and one that comes back to life', () => {
    const made = new HandMade();
    const paid = made.unit(ANNA, 100, { status: 'redeemed', payment_ref: 'p' });
    made.final.campaigns[0]!.taken = 1;
    made.confirm(paid.id, 200);
    const released = made.unit(BEN, 100, { status: 'released' });
    made.release(released.id, 200);
    const standing = { position: null, queue_size: 0, estimated_wait_seconds: null, poll_after_seconds: 1 };
    for (const { id, call } of [paid, released])
      made.call('status', 300, 200, {
        user: String(call.user),
        data: { status: 'completed', ...standing, reservation_id: id },
      });
    expect(findings(made)).toEqual([
      'finality: a paid reservation is unpaid again',
      'finality: a released reservation is held again',
    ]);
  });
});

describe('the rule on traces', () => {
  it('finds what was given up without a reason or without a cause', () => {
    const made = new HandMade();
    made.unit(ANNA, 100, { status: 'voided' });
    made.calls.length = 0;
    made.place(BEN, 200, 1, { status: 'left' });
    made.final.rejects.push({ journal_id: '1-1', fields: { kind: 'queued', user: BEN }, reason: 'no row' });
    expect(findings(made)).toEqual([
      'traces: a reservation was voided without a reason',
      'traces: a reservation was voided although Redis lost nothing',
      'traces: an entry was rejected although Redis lost nothing',
      'traces: a place is left although its user did not leave',
    ]);
  });
});

describe('the rule on responses', () => {
  const one = (...changes: ((made: HandMade) => unknown)[]) => {
    const made = new HandMade();
    for (const change of changes) change(made);
    return findings(made);
  };

  it('finds a server error, an unexpected status and an unknown reservation', () => {
    expect(one((made) => made.call('token', 100, 500, { code: 'internal_error' }))).toEqual(['responses: status 500']);
    expect(one((made) => made.call('checkout', 100, 422, { code: 'idempotency_key_reused' }))).toEqual([
      'responses: unexpected status 422 idempotency_key_reused',
    ]);
    expect(one((made) => made.confirm(made.unit(ANNA, 100).id, 200, 404, { code: 'reservation_not_found' }))).toEqual([
      'responses: unexpected status 404 reservation_not_found',
    ]);
  });

  it('excuses an unknown reservation of an isolated process until the reservation is recovered', () => {
    const found = (isIsolated: boolean) =>
      one((made) => {
        const { call, id } = made.unit(ANNA, 1_000);
        made.fault(900, 3_000);
        made.event({ at: 950, what: 'redis-lost', mode: 'promoted' });
        if (isIsolated) made.event({ at: 950, what: 'isolated', phase: 'begin', processes: ['api-1'] });
        if (isIsolated) made.event({ at: 1_500, what: 'isolated', phase: 'end', processes: ['api-1'] });
        made.confirm(id, 2_000, 404, { code: 'reservation_not_found' });
        made.calls.push({ ...call, n: 90, at: 20_000, end: 20_010, status: 200 });
      }).filter((text) => text.startsWith('responses'));
    expect(found(true)).toEqual([]);
    expect(found(false)).toEqual(['responses: unexpected status 404 reservation_not_found']);
  });

  it('excuses an unknown promotion by when it was first named', () => {
    const found = (namedAt: number) =>
      one((made) => {
        made.event({ at: 2_000, what: 'redis-lost', mode: 'empty' });
        made.fault(2_500, 4_000, 1, 'postgres-restore');
        const { id } = made.unit(ANNA, 100);
        const promoted = `${id.slice(0, -1)}${id.endsWith('0') ? '1' : '0'}`;
        made.confirm(promoted, namedAt, 503, { code: 'temporarily_unavailable' });
        made.confirm(promoted, 90_000, 404, { code: 'reservation_not_found' });
      }).filter((text) => text.startsWith('responses'));
    expect(found(1_000)).toEqual([]);
    expect(found(80_000)).toEqual(['responses: unexpected status 404 reservation_not_found']);
  });

  it('finds a response that did not come, and a late one slow, unless the process was away', () => {
    const late = (made: HandMade) => Object.assign(made.call('checkout', 100, 410), { end: 7_000 });
    const never = (made: HandMade) =>
      Object.assign(made.call('checkout', 100, 410), { status: null, error: 'ECONNRESET' });
    expect(one(late)).toEqual(['slow responses: a response took 6900 ms']);
    expect(one(never)).toEqual(['responses: no response (ECONNRESET) although the process runs']);
    const frozen = (made: HandMade) => {
      made.event({ at: 90, what: 'freeze', process: 'api-1#1', phase: 'begin' });
      made.event({ at: 6_900, what: 'freeze', process: 'api-1#1', phase: 'end' });
    };
    expect(one(late, frozen)).toEqual([]);
    expect(one(never, frozen)).toEqual([]);
  });

  it('finds bodies and headers that the contract does not allow', () => {
    const wrong = (change: (call: ReturnType<HandMade['call']>) => void, status = 410) =>
      one((made) => change(made.call('checkout', 100, status, { code: 'sold_out' })));
    expect(wrong((call) => set(call, { text: 'oops' }))).toEqual(['responses: the body is not a JSON object']);
    expect(wrong((call) => void delete call.headers!['x-request-id'])).toEqual(['responses: X-Request-Id is missing']);
    expect(wrong((call) => void delete call.headers!['retry-after'], 429)).toEqual([
      'responses: Retry-After is missing on 429',
    ]);
    expect(wrong((call) => set(call.headers!, { 'content-type': 'application/json' }))).toEqual([
      'responses: the error is no problem document',
    ]);
    expect(wrong((call) => set(call, { text: '{"code":"sold_out"}' }))).toEqual([
      'responses: the problem document lacks a member',
    ]);
    expect(one((made) => made.call('leave', 100, 200))).toEqual(['responses: the response lacks status']);
  });

  it('finds a place without a ticket, unless another key of the user may have taken it', () => {
    const data = { status: 'queued', position: 1, queue_size: 1, estimated_wait_seconds: null, poll_after_seconds: 1 };
    const bare = (made: HandMade) => set(made.place(BEN, 100, 1).call, { text: JSON.stringify({ data }) });
    expect(one(bare)).toEqual(['responses: the response lacks ticket']);
    const again = (made: HandMade) => {
      made.place(BEN, 100, 1);
      made.final.answers.push('another-key');
      made.call('checkout', 200, 202, { user: BEN, key: 'another-key', keyIn: 'header', body: { qty: 1 }, data });
    };
    expect(one(again)).toEqual([]);
  });

  it('finds frames that are malformed or begin without `welcome`', () => {
    const frame = (text: string) =>
      one((made) => {
        made.frames.push({ type: 'frame', at: 1, socket: 's', process: 'api-1#1', product: PRODUCT, user: ANNA, text });
      });
    expect(frame('{"type":"welcome"}')).toEqual(['frames: a frame is malformed']);
    expect(frame('{"type":"position","seq":1,"time":"t"}')).toEqual(['frames: the first frame is not `welcome`']);
  });
});

describe('the rule on recovery', () => {
  const refuse = (made: HandMade, at: number) => made.call('checkout', at, 503, { code: 'temporarily_unavailable' });

  it('finds an API that does not sell after the faults, and one that takes long slow', () => {
    const away = new HandMade();
    away.event({ at: 60_000, what: 'recovered', api: 'api-1', afterMs: null });
    expect(findings(away)).toEqual(['recovery: an API does not sell 120 s after the faults']);
    const late = new HandMade();
    late.event({ at: 60_000, what: 'recovered', api: 'api-1', afterMs: 119_000 });
    expect(findings(late)).toEqual(['slow recovery: an API does not sell 10 s after the faults']);
    const inTime = new HandMade();
    inTime.event({ at: 60_000, what: 'recovered', api: 'api-1', afterMs: 9_000 });
    expect(findings(inTime)).toEqual([]);
  });

  it('finds an outage soon after the last fault slow, and no outage in a single 503', () => {
    const made = new HandMade();
    made.fault(1_000, 2_000);
    for (const at of [3_000, 4_000, 5_000, 6_000, 7_000, 20_000]) refuse(made, at);
    made.call('checkout', 20_500, 410);
    expect(findings(made)).toEqual([]);
    for (const at of [21_000, 22_000, 23_000, 24_000, 25_000]) refuse(made, at);
    expect(findings(made)).toEqual([
      'slow recovery: api-1: 5 calls one after another get 503 more than 10 s after the last fault',
    ]);
    made.call('checkout', 125_000, 410);
    for (const at of [126_000, 127_000, 128_000, 129_000]) refuse(made, at);
    expect(findings(made).filter((text) => !text.startsWith('slow '))).toEqual([]);
  });

  it('finds an outage two minutes after the last fault, of an API or of a campaign', () => {
    const made = new HandMade();
    made.fault(1_000, 2_000);
    for (const at of [123_000, 124_000, 125_000, 126_000, 127_000]) refuse(made, at);
    expect(findings(made)).toEqual([
      'recovery: api-1: 5 calls one after another get 503 more than 120 s after the last fault',
    ]);
    for (const call of made.calls.splice(0))
      made.calls.push(call, { ...call, product: 'other', status: 410, text: '{"code":"sold_out"}', at: call.at + 20 });
    expect(findings(made)).toContain(
      'recovery: shop: 5 calls one after another get 503 more than 120 s after the last fault',
    );
  });
});
