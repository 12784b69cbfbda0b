import { TOKEN_LIFE_MS, TOKEN_SKEW_MS } from '../domain/device-token.js';
import { type OrderId, orderIdOf } from '../domain/ids.js';
import { keys, saleKeys } from '../redis/keys.js';
import type { CallOf } from '../redis/script-contract.js';
import { requestOf } from './checkout-entries.js';
import type { ReserveInput } from './reserve-input.js';
import type { SaleLimits } from './sale-calls.js';
import type { ReserveCall, ReserveRequest, reserveScript } from './scripts/reserve.js';

/** Returns the call of lua/reserve.lua for claims of one campaign. */
export function reserveCall(inputs: readonly ReserveInput[], limits: SaleLimits): CallOf<typeof reserveScript> {
  const { claim, ticketKey, bucket } = inputs[0] as ReserveInput;
  const requestKeys: string[] = [];
  // Three for each request, needed or not.
  for (const input of inputs) {
    const { user, key, counted } = input.claim;
    requestKeys.push(keys.idempotency(user, key), keys.order(user, orderOf(input)), keys.device(counted ?? ''));
  }
  const input: ReserveCall = {
    requests: inputs.map((input) => requestAs(input, limits, (key) => requestKeys.push(key))),
    key_ttl_ms: String(limits.idempotencyTtlMs),
    ticket_key: ticketKey,
    journal_limit: limits.journalLimitEntries,
    device_quota: limits.deviceQuota,
    device_window_ms: limits.deviceWindowMs,
    token_life_ms: TOKEN_LIFE_MS,
    token_skew_ms: TOKEN_SKEW_MS,
    replicated: limits.waitReplicas > 0,
    order_ttl_ms: String(limits.orderMemoryMs),
  };
  if (bucket) input.buckets = bucket.buckets;
  return { keys: { ...saleKeys(claim.product), request_keys: requestKeys }, args: { input } };
}

/** @param place adds a key to the request_keys and returns its position, from 1 */
function requestAs(
  input: ReserveInput,
  { oneTimeTokenMs }: SaleLimits,
  place: (key: string) => number,
): ReserveRequest {
  const { claim } = input;
  const { user, product, coupon } = claim;
  const request: ReserveRequest = { user, qty: String(claim.qty), prefix: input.reservationPrefix, key: claim.key };
  if (input.terms !== 0) request.terms = input.terms;
  // The limit per user is at least 1, so a value from 0 refuses nothing.
  if (input.newKeys < 0) request.new_keys = input.newKeys;
  if (claim.counted !== null) request.has_quota = true;
  if (claim.order !== null) request.order = claim.order;
  if (claim.token) request.token_expires_at = String(claim.token.expiresAtSeconds);
  if (claim.device !== null) request.device = claim.device;
  if (claim.trace !== '') request.trace = claim.trace;
  if (claim.metadata) request.metadata = claim.metadata;
  if (claim.proven) request.proven = true;
  if (claim.holderDevice !== null) request.holder_device = claim.holderDevice;
  if (input.bucket?.place) {
    if (input.bucket.place.lineNo !== null) request.line_no = input.bucket.place.lineNo;
    request.position = input.bucket.place.position;
    request.queue_size = input.bucket.place.queueSize;
  }
  if (coupon) {
    request.request = requestOf(claim);
    request.code = coupon.code;
    if (coupon.once) {
      request.once_key = place(keys.once(product, coupon.once.nonce));
      request.once_expires_at = coupon.once.expiresAtMs;
      request.once_issued_at = coupon.once.expiresAtMs - oneTimeTokenMs;
    }
  }
  return request;
}

/** Returns the order of a claim: the caller's, else the beginning of the one that the script will create. */
export const orderOf = ({ claim, reservationPrefix }: Pick<ReserveInput, 'claim' | 'reservationPrefix'>): OrderId =>
  claim.order ?? orderIdOf(reservationPrefix);
