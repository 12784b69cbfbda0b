import type { ProductId, ReservationId, UserId } from '../domain/ids.js';
import { STANDINGS } from '../domain/reservation.js';
import { ContractError } from '../errors/faults.js';
import { saleKeys } from '../redis/keys.js';
import { count, countOrNone, oneOf, reply, text } from '../redis/reply-fields.js';
import type { OutcomeOf } from '../redis/script-contract.js';
import type { ScriptRunner } from '../redis/script-runner.js';
import type { Missed } from './recall.js';
import { type ShopperStatusOutcome, shopperStatusScript } from './scripts/line.js';

/** Maximum number of requests in a call: less than 1 ms of Redis. */
export const MAX_STANDINGS = 64;

/** One user to look up; `place` as in `SaleStore.standing`. */
export type StandingRequest = { user: UserId; place: ReservationId | null };
export type StandingReply = ShopperStatusOutcome | Required<Missed>;

/**
 * Reads the standings of users in one campaign with one call.
 * @param requests 1 to `MAX_STANDINGS`
 * @returns a reply or an error for each request
 * @throws EngineUnavailable when Redis cannot be used
 */
export async function readStandings(
  scripts: ScriptRunner,
  product: ProductId,
  requests: readonly StandingRequest[],
): Promise<readonly (StandingReply | ContractError)[]> {
  const outcome = await scripts.run(shopperStatusScript, {
    keys: saleKeys(product),
    each: requests.map(({ user, place }) => ({ user, place: place ?? '' })),
  });
  if (outcome.kind === 'not_found') return requests.map(() => outcome);
  return outcome.standings.map((standing) => scripts.located('shopper_status', decodeStanding(standing, outcome)));
}

type Standings = Extract<OutcomeOf<typeof shopperStatusScript>, { kind: 'standings' }>;

const passOf = reply({ archived: text, pass: text });
const standingOf = reply({
  ...{ status: oneOf(STANDINGS), position: count, reservationId: text, orderId: text, dueMs: count, code: countOrNone },
  qty: count,
});

/** Decodes one standing of the reply (lua/shopper_status.lua). */
function decodeStanding(standing: string, all: Standings): StandingReply | ContractError {
  const { queueSize, presenceMs, durable, paceMs } = all;
  const fields = standing.split('|');
  if (fields[0] === 'archived') return { kind: 'archived', pass: passOf(fields).pass, presenceMs };
  if (fields[0] === 'failed')
    return new ContractError(`script shopper_status failed: ${standing.slice('failed|'.length)}`);
  const decoded = standingOf(fields);
  const pace = decoded.status === 'queued' ? paceMs : null;
  return { kind: 'standing', ...decoded, queueSize, paceMs: pace, presenceMs, durable };
}
