import { expect } from '@jest/globals';
import fc from 'fast-check';
import { type CampaignNo, type IdempotencyKey, newReservationPrefix, type UserId } from '../../shared/domain/ids.js';
import { decodeIdempotencyRecord } from '../../shared/redis/idempotency-record.js';
import type { SaleModel } from './model.js';
import type { Action, Claim, Promised, Terms } from './model-types.js';
import { DEVICES, type Real, USERS } from './real.js';

type Step = fc.AsyncCommand<SaleModel, Real>;

/** One thing that may happen at any time. */
function step(name: string, run: (model: SaleModel, real: Real) => Promise<void>): Step {
  return {
    check: () => true,
    async run(model, real) {
      await run(model, real);
      await real.expectLike(model);
    },
    toString: () => name,
  };
}

/** One event of the reservation that is the nth at that time; 0 = one that does not exist. */
function stepWith(
  name: string,
  n: number,
  run: (id: string, model: SaleModel, real: Real, one?: Promised) => Promise<void>,
): Step {
  return step(`${name} #${n}`, async (model, real) => {
    const one = n === 0 ? undefined : model.promised[(n - 1) % Math.max(1, model.promised.length)];
    await run(one?.id ?? '01890a5d-ac96-774b-bcce-b302099a8057', model, real, one);
  });
}

const user = fc.constantFrom(...USERS);
const qty = fc.integer({ min: 1, max: 3 });
const nth = fc.nat(30);
const key = fc.integer({ min: 1, max: 15 }).map((n) => `shared-key-${n}`);
const limit = fc.integer({ min: 1, max: 3 });

/** The terms by which a redemption was judged: those in force, other ones, or ones that exclude the user. */
type Judged = 'now' | 'others' | 'excluded';
/** By the nth code. */
type RedeemStep = { nth: number; judged: Judged };

type CheckoutStep = {
  who: string;
  qty: number;
  key: string | null;
  device: string | null;
  order: string;
  times: 1 | 2;
  redeem: RedeemStep | null;
};

/** Checks out; a second time at once with the same key, like a client whose response was lost. */
const checkout = fc
  .record<CheckoutStep>({
    who: user,
    qty: fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: qty }),
    key: fc.oneof({ weight: 2, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: key }),
    device: fc.oneof(
      { weight: 4, arbitrary: fc.constant(null) },
      { weight: 1, arbitrary: fc.constantFrom(...DEVICES) },
    ),
    order: fc.constantFrom('', 'cart-1'),
    times: fc.constantFrom(1, 1, 1, 2),
    redeem: fc.option(
      fc.record<RedeemStep>({
        nth: fc.nat(6),
        judged: fc.oneof(
          { weight: 12, arbitrary: fc.constant('now' as const) },
          { weight: 1, arbitrary: fc.constantFrom('others' as const, 'excluded' as const) },
        ),
      }),
      { freq: 2 },
    ),
  })
  .map((given) =>
    step(`checkout(${JSON.stringify(given)})`, async (model, real) => {
      const uniqueKey = `${real.campaign.product}-${given.key ?? newReservationPrefix()}`;
      const calls = Array.from({ length: given.times }, () => newReservationPrefix());
      const claim = given.redeem && claimOf(given.redeem, model);
      const earliest = await real.store.sale.nowMs();
      const outcomes = await Promise.all(
        calls.map((reservationPrefix) =>
          real.campaign.store.claims.reserve({
            claim: {
              product: real.campaign.product,
              user: given.who as UserId,
              qty: given.qty,
              order: (given.order || null) as never,
              key: uniqueKey as IdempotencyKey,
              device: given.device === null ? null : real.device(given.device),
              counted: given.device === null ? null : real.device(given.device),
              ...{ token: null, proven: false, holderDevice: null, network: '', trace: '', metadata: null },
              coupon: claim && { code: claim.code, once: null },
            },
            ...{ reservationPrefix, ticketKey: 't1', newKeys: 60, terms: claim?.terms ?? 0, bucket: null },
          }),
        ),
      );
      const latest = await real.store.sale.nowMs();
      for (const [i, prefix] of calls.entries()) {
        const id = prefix + hex(real.campaign.terms.no);
        const expected = model.checkout({
          user: given.who,
          qty: given.qty,
          key: uniqueKey,
          device: given.device,
          order: given.order,
          id,
          claim,
        });
        expectAnswer(outcomes[i], expected, { earliest, latest, holdMs: model.terms.holdSeconds * 1000 });
      }
    }),
  );

function claimOf({ nth, judged }: RedeemStep, model: SaleModel): Claim {
  const code = model.type === 'shared' ? 0 : 1 + (nth % model.codes);
  return { code, terms: judged === 'excluded' ? -model.version : model.version + (judged === 'others' ? 1 : 0) };
}

function expectAnswer(
  actual: Awaited<ReturnType<Real['campaign']['checkout']>> | undefined,
  expected: { kind: string } & Record<string, unknown>,
  { earliest, latest, holdMs }: { earliest: number; latest: number; holdMs: number },
): void {
  if (expected.kind === 'replayed') {
    expect(actual?.kind).toBe('replayed');
    const answer = decodeIdempotencyRecord(actual?.kind === 'replayed' ? actual.answer : '');
    const { kind, ...first } = expected.answer as { kind: string };
    expect(answer).toMatchObject({ ...first, kind: kind === 'reserved' ? 'completed' : 'queued' });
    return;
  }
  expect(actual).toMatchObject(expected);
  if (actual?.kind !== 'reserved') return;
  const madeAt = actual.dueMs - holdMs;
  expect(holdMs === 0 ? actual.dueMs === 0 : madeAt >= earliest && madeAt <= latest).toBe(true);
}

const confirm = fc.tuple(nth, fc.constantFrom('', 'pay-1', 'pay-2')).map(([n, payment]) =>
  stepWith(`confirm(${payment})`, n, async (id, model, real) => {
    expect(await real.campaign.confirm(id, payment)).toMatchObject(model.confirm(id, payment));
  }),
);
const release = fc
  .tuple(
    nth,
    fc.oneof({ weight: 4, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: user }),
    fc.constantFrom('', 'no money'),
  )
  .map(([n, holder, reason]) =>
    stepWith(`release(${holder}, ${reason})`, n, async (id, model, real) => {
      expect(await real.campaign.release(id, holder, reason)).toMatchObject(model.release(id, holder, reason));
    }),
  );
const refund = nth.map((n) =>
  stepWith('refund', n, async (id, model, real) => {
    expect(await real.campaign.refund(id)).toMatchObject(model.refund(id));
  }),
);
const keep = fc.integer({ min: 1, max: 3 });
const releaseInPart = fc
  .tuple(nth, keep, fc.oneof({ weight: 4, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: user }))
  .map(([n, units, holder]) =>
    stepWith(`release(${holder}) all but ${units}`, n, async (id, model, real) => {
      const actual = await real.campaign.release(id, holder, 'too many', '', units);
      expect(actual).toMatchObject(model.release(id, holder, 'too many', units));
    }),
  );
const refundInPart = fc.tuple(nth, keep).map(([n, units]) =>
  stepWith(`refund all but ${units}`, n, async (id, model, real) => {
    expect(await real.campaign.refund(id, '', units)).toMatchObject(model.refund(id, units));
  }),
);
const voided = fc.tuple(nth, fc.constantFrom('returns' as const, 'never_existed' as const)).map(([n, unit]) =>
  stepWith(`void(${unit})`, n, async (id, model, real) => {
    const expected = model.void(id, unit, 'a_constraint');
    const state = 'state' in expected ? { state: expected.state } : {};
    expect(await real.campaign.void(id, unit, 'a_constraint')).toEqual({ ...expected, ...state });
  }),
);
/** Three calls at the same time, sent in one go; with the scripts known they are carried out in their order. */
const confirmAndRelease = nth.map((n) =>
  stepWith('confirm and release at once', n, async (id, model, real) => {
    await real.campaign.store.scripts.load(['confirm', 'release']);
    const calls = [() => real.campaign.confirm(id), () => real.campaign.release(id), () => real.campaign.confirm(id)];
    const outcomes: object[] = [];
    // A payment that may come too late asks for the order in between, and others may be decided then.
    if (model.terms.latePayment === 'reacquire') for (const call of calls) outcomes.push(await call());
    else outcomes.push(...(await Promise.all(calls.map((call) => call()))));
    expect(outcomes).toMatchObject([model.confirm(id, ''), model.release(id, null, ''), model.confirm(id, '')]);
  }),
);

let passed = 0;
const deadlinePasses = nth.map((n) =>
  stepWith('the deadline passes', n, async (id, _model, real, one) => {
    if (one?.state !== 'reserved' || one.overdue !== null) return;
    passed += 1;
    one.overdue = passed;
    await real.passDeadline(id, passed);
  }),
);
const expire = limit.map((n) =>
  step(`expire(${n})`, async (model, real) => expect(await real.campaign.expire(n)).toEqual(model.expire(n))),
);
const promote = limit.map((n) =>
  step(`promote(${n})`, async (model, real) => expect(await real.campaign.promote(n)).toEqual(model.promote(n))),
);
const tend = fc
  .tuple(fc.boolean(), fc.boolean(), fc.constantFrom(1, 2, 3, 100))
  .map(([groupWaited, settled, people]) =>
    step(
      `tend(${groupWaited ? 'groups have waited' : ''} ${settled ? 'settled' : ''} ${people})`,
      async (model, real) =>
        expect(await real.campaign.tend({ groupWaited, settled }, people)).toEqual(
          model.tend(groupWaited, settled, people),
        ),
    ),
  );
const heartbeat = user.map((who) =>
  step(`heartbeat(${who})`, async (model, real) =>
    expect(await real.campaign.heartbeat(who)).toEqual(model.heartbeat(who)),
  ),
);
let missed = 0;
const vanish = user.map((who) =>
  step(`${who} is not seen any more`, async (model, real) => {
    const ticket = model.line.find((one) => one.user === who && one.presence !== 'none' && !one.away);
    if (!ticket) return;
    missed += 1;
    Object.assign(ticket, { presence: 'unseen', missed });
    await real.campaign.letPresenceLapse(who);
  }),
);
const isGone = user.map((who) =>
  step(`${who} was away for too long`, async (model, real) => {
    const ticket = model.line.find((one) => one.user === who && one.away);
    if (!ticket) return;
    ticket.presence = 'gone';
    await real.campaign.letPlaceLapse(who);
  }),
);
const leave = user.map((who) =>
  step(`leave(${who})`, async (model, real) => expect(await real.campaign.leave(who)).toMatchObject(model.leave(who))),
);
const restock = fc.tuple(fc.constantFrom(-2, -1, 1, 2, 3), limit, fc.option(key)).map(([delta, people, name]) =>
  step(`restock(${delta}, ${people}, ${name})`, async (model, real) => {
    const uniqueKey = name && `${real.campaign.product}-${name}`;
    const outcome = await real.campaign.restock(delta, { limit: people, ...(uniqueKey ? { key: uniqueKey } : {}) });
    expect(outcome).toMatchObject(model.restock(delta, people, uniqueKey));
  }),
);
const act = (...actions: Action[]) =>
  fc
    .constantFrom(...actions)
    .map((action) =>
      step(action, async (model, real) =>
        expect(await real.campaign.setStatus(action)).toMatchObject(model.setStatus(action)),
      ),
    );
const theEndComes = fc.constantFrom(true, true, false, false, false, false, false).map((over) =>
  step(over ? 'the end of the sale comes' : 'the end of the sale is far', async (model, real) => {
    model.over = over;
    await real.campaign.set({ ends_at: over ? 1 : 0 });
  }),
);
const amend = fc
  .record<Partial<Terms>>(
    {
      maxQty: qty,
      holdSeconds: fc.constantFrom(0, 600),
      lineEnabled: fc.boolean(),
      lineMax: fc.integer({ min: 1, max: 5 }),
      latePayment: fc.constantFrom('refuse', 'reacquire'),
      refundPolicy: fc.constantFrom('return', 'burn'),
      perUserLimit: fc.integer({ min: 1, max: 3 }),
      presence: fc.boolean(),
    },
    { requiredKeys: [] },
  )
  .map((terms) =>
    step(`amend(${JSON.stringify(terms)})`, async (model, real) => {
      const wanted = terms.perUserLimit ?? model.terms.perUserLimit;
      const mayLower = model.status === 'draft';
      if (wanted < model.terms.perUserLimit && !mayLower)
        expect(await real.lowerLimit(wanted)).toEqual({ kind: 'refused', perUserLimit: model.terms.perUserLimit });
      const perUserLimit = mayLower ? wanted : Math.max(model.terms.perUserLimit, wanted);
      await real.amend({ ...terms, perUserLimit });
      Object.assign(model.terms, terms, { perUserLimit });
      model.version += 1;
      // An amendment carries all terms, the end of the sale too.
      model.over = false;
    }),
  );
/** A campaign of one shared code has no others. */
const codesAreAdded = limit.map((count) =>
  step(`${count} codes are added`, async (model, real) => {
    if (model.type === 'shared') return;
    model.codes += count;
    expect(await real.store.issueCodes(real.campaign, count)).toBe(model.codes);
  }),
);
const timePasses = fc.tuple(fc.constantFrom(...DEVICES), limit).map(([device, count]) =>
  step(`${count} checkouts of ${device} leave the window`, async (model, real) => {
    await real.forgetOldest(device, count);
    model.admitted.set(device, Math.max(0, (model.admitted.get(device) ?? 0) - count));
  }),
);
const persist = fc
  .constantFrom(1, 2, 5, 500)
  .map((batchEntries) =>
    step(`persist in batches of ${batchEntries}`, (model, real) =>
      real.persist(model, real.store.persistWith({ batchEntries })),
    ),
  );
const redisForgetsScripts = fc.constant(
  step('Redis forgets its scripts', async (_model, real) => {
    await real.store.sale.redis.script('FLUSH');
  }),
);

const redisIsLost = fc.constant(
  step('Redis loses the campaign and is filled again', (model, real) => real.loseAndRestore(model)),
);

const archive = fc.constant(step('what is over leaves Redis', (model, real) => real.archive(model)));

const hex = (no: CampaignNo) => no.toString(16).padStart(8, '0');

/** What may happen, and how often. */
export const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 30, arbitrary: checkout },
  { weight: 7, arbitrary: confirm },
  { weight: 9, arbitrary: release },
  { weight: 5, arbitrary: refund },
  { weight: 7, arbitrary: releaseInPart },
  { weight: 7, arbitrary: refundInPart },
  { weight: 2, arbitrary: voided },
  { weight: 3, arbitrary: confirmAndRelease },
  { weight: 8, arbitrary: deadlinePasses },
  { weight: 5, arbitrary: expire },
  { weight: 3, arbitrary: promote },
  { weight: 4, arbitrary: leave },
  { weight: 5, arbitrary: tend },
  { weight: 2, arbitrary: heartbeat },
  { weight: 4, arbitrary: vanish },
  { weight: 1, arbitrary: isGone },
  { weight: 5, arbitrary: restock },
  { weight: 3, arbitrary: act('pause', 'resume', 'resume', 'resume') },
  { weight: 1, arbitrary: act('open', 'start', 'finish', 'publish') },
  { weight: 1, arbitrary: fc.oneof({ weight: 3, arbitrary: act('close') }, { weight: 6, arbitrary: theEndComes }) },
  { weight: 2, arbitrary: amend },
  { weight: 2, arbitrary: codesAreAdded },
  { weight: 1, arbitrary: timePasses },
  { weight: 4, arbitrary: persist },
  { weight: 1, arbitrary: redisForgetsScripts },
  { weight: 1, arbitrary: redisIsLost },
  { weight: 3, arbitrary: archive },
);
