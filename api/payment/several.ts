import { Problem } from '../../shared/errors/catalogue.js';
import type { Found, Located, ReservationName } from '../../shared/payments/reservation-lookup.js';

/** What was decided about one reservation: its state, and the data of a success or the refusal. */
type Decision<Data> = { status: string } & ({ data: Data } | { refusal: Problem });
type DataIn<One> = One extends { data: infer Data } ? Data : never;
type OfOrder = {
  order_id: string;
  reservations: ({ reservation_id: string; status: string } & Record<string, unknown>)[];
};

export const done = <Data>(status: string, data: Data) => ({ status, data });
export const refused = (status: string, refusal: Problem) => ({ status, refusal });

/** Members of a success or a refusal that an entry of the list has as well. */
const OF_ENTRY = ['already_paid_by', 'reacquired', 'qty', 'pay_before'];

/**
 * Decides a call about one reservation, or about those of an order. No script decides over two shards, so each of
 * several reservations is decided by itself, in the order of the ids, and a repetition completes a call that failed in
 * between.
 * @returns the data of the only reservation, or a list
 * @throws Problem the refusal of the only reservation, or the one that all have; else 409 `order_partly_decided`
 *   · EngineUnavailable after those that are known were decided, if others may be missing
 */
export async function decideAll<One extends Decision<object>>(
  { order_id, keep }: ReservationName & { keep?: number | undefined },
  { reservations: all, missing }: Found,
  decide: (at: Located) => Promise<One>,
): Promise<DataIn<One> | OfOrder> {
  const [first, ...others] = all;
  if (missing) {
    // `keep` may count the units of one of several, which is refused.
    if (!keep) for (const at of all) await decide(at);
    throw missing;
  }
  if (first && others.length === 0) {
    const found = await decide(first);
    if ('refusal' in found) throw found.refusal;
    return found.data as DataIn<One>;
  }
  if (keep)
    throw new Problem('order_ambiguous', 'The order has several reservations, and `keep` counts the units of one.', {
      members: {
        reservations: all.slice(0, 10).map(({ id, product }) => ({ reservation_id: id, product_id: product })),
      },
    });
  const decisions: Decision<object>[] = [];
  for (const at of all) decisions.push(await decide(at));
  const reservations = all.map(({ id }, i) => ({ reservation_id: id, ...entryOf(decisions[i] as Decision<object>) }));
  const refusals = decisions.flatMap((one) => ('refusal' in one ? [one.refusal] : []));
  const isAll = refusals.length === all.length;
  // A call that failed in between had extended some, and its repetition extends the others.
  const isDone = refusals.every(({ code }) => code === 'already_extended') && !isAll;
  const [refusal] = refusals;
  if (!refusal || isDone) return { order_id: String(order_id), reservations };
  if (isAll && refusals.every(({ code }) => code === refusal.code))
    throw new Problem(refusal.code, refusal.detail, { members: { ...refusal.extras.members, reservations } });
  throw new Problem('order_partly_decided', 'The reservations of the order could not all be decided in the same way.', {
    members: { reservations },
  });
}

function entryOf(decision: Decision<object>): { status: string } & Record<string, unknown> {
  const members = 'data' in decision ? decision.data : (decision.refusal.extras.members ?? {});
  const own = Object.entries(members).filter(([name]) => OF_ENTRY.includes(name));
  return { status: decision.status, ...Object.fromEntries(own) };
}
