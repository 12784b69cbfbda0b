import type { Random } from '../random.js';
import type { Caller } from './caller.js';

/** What happens to a reservation that a shopper holds. */
export type PaymentChoice = {
  way: 'pay' | 'pay-late' | 'release-by-ticket' | 'release-by-service' | 'pay-and-release' | 'abandon';
  afterMs: number;
  /** The same call again afterwards. */
  twice: boolean;
  refund: boolean;
  /** Gives back one of several units before, and most of the others after the payment. */
  inParts: boolean;
};

export function choosePayment(random: Random): PaymentChoice {
  return {
    way: random.weighted([
      ['pay', 50],
      ['pay-late', 12],
      ['release-by-ticket', 10],
      ['release-by-service', 8],
      ['pay-and-release', 6],
      ['abandon', 14],
    ]),
    afterMs: random.int(0, 1_500),
    twice: random.chance(0.25),
    refund: random.chance(0.25),
    inParts: random.chance(0.3),
  };
}

export type Held = {
  product: string;
  user: string;
  reservation: string;
  ticket: string | null;
  payBefore: string | null;
  qty: number;
};

/** A payment service's and the holder's calls for one reservation. */
export async function settle(caller: Caller, held: Held, choice: PaymentChoice): Promise<void> {
  const lateMs = held.payBefore === null ? 0 : Date.parse(held.payBefore) - Date.now() + 300;
  const paysLate = choice.way === 'pay-late' && lateMs > 0;
  if (!(await caller.pause(paysLate ? Math.min(lateMs, 8_000) : choice.afterMs))) return;
  const isPart = choice.inParts && held.qty > 1;
  if (isPart && held.payBefore !== null)
    await repeat(choice.twice, () => release(caller, held, choice.way === 'release-by-ticket', held.qty - 1));
  switch (choice.way) {
    case 'pay':
    case 'pay-late':
      await repeat(choice.twice, () => confirm(caller, held));
      if (isPart) await repeat(choice.twice, () => refund(caller, held, 1));
      if (choice.refund) await repeat(choice.twice, () => refund(caller, held));
      return;
    case 'release-by-ticket':
    case 'release-by-service':
      await repeat(choice.twice, () => release(caller, held, choice.way === 'release-by-ticket'));
      return;
    case 'pay-and-release':
      await Promise.all([confirm(caller, held), release(caller, held, false)]);
      return;
    case 'abandon':
      return;
  }
}

async function repeat(twice: boolean, work: () => Promise<unknown>): Promise<void> {
  await work();
  if (twice) await work();
}

const about = ({ product, user, reservation }: Held) => ({ product, user, reservation });

const confirm = (caller: Caller, held: Held) =>
  caller.insist({
    ...about(held),
    kind: 'confirm',
    method: 'POST',
    path: '/flash-sale/confirm',
    as: 'service',
    json: { reservation_id: held.reservation, payment_ref: `payment-${held.reservation.slice(0, 13)}` },
  });

const refund = (caller: Caller, held: Held, keep?: number) =>
  caller.insist({
    ...about(held),
    kind: keep === undefined ? 'refund' : 'refund_part',
    method: 'POST',
    path: '/flash-sale/refund',
    as: 'service',
    json: { reservation_id: held.reservation, ...(keep === undefined ? {} : { keep }) },
  });

function release(caller: Caller, held: Held, byTicket: boolean, keep?: number) {
  const ticket = byTicket ? held.ticket : null;
  return caller.insist({
    ...about(held),
    kind: keep === undefined ? 'release' : 'release_part',
    method: 'POST',
    path: '/flash-sale/release',
    json: { reservation_id: held.reservation, ...(keep === undefined ? {} : { keep }) },
    ...(ticket === null ? { as: 'service' as const } : { headers: { 'x-ticket': ticket } }),
  });
}
