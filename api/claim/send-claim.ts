import type { Problem, ProblemExtras } from '../../shared/errors/catalogue.js';
import { policyField } from '../guards/limits/quotas.js';
import type { KeySource } from '../http/idempotency-key.js';
import { retryAfter } from '../http/respond.js';
import type { PlaceData } from './claim.contract.js';
import type { ClaimLimits } from './claim.js';

export type PlaceAnswer = { status: 202; data: PlaceData };

/** What became of a claim, as a route sends it. */
export type Claimed<Unit extends { status: number; data: object }> = {
  answer: Unit | PlaceAnswer;
  /** Whether this is the first answer to the key, sent again. */
  replayed: boolean;
  /** Calls that the device has left in its window; null for a replay, which costs none. */
  quotaLeft: number | null;
};

/** The response of a route that claims: its contract has the answers, and `duplicate_request`. */
type ClaimCall<Unit extends { status: number; data: object }> = {
  reply(status: Unit['status'] | 202, data: Unit['data'] | PlaceData, headers: readonly string[]): void;
  refusal(code: 'duplicate_request', detail: string, extras: ProblemExtras): Problem;
};

/**
 * Makes the one function that sends claims.
 * @param limits of the quota of a device, which every first answer names
 */
export function claimSender({ deviceQuota, deviceWindowMs }: Pick<ClaimLimits, 'deviceQuota' | 'deviceWindowMs'>) {
  const windowSeconds = deviceWindowMs / 1000;
  const policy = policyField('device', deviceQuota, windowSeconds);

  /**
   * Sends a unit or a place.
   * @param source of the key: a replay of a key in the body is 409 with the first answer
   * @param claimed whose queue-status `Location` names
   * @param rateLimit fields of other quotas, for a first answer
   * @throws Problem 409 `duplicate_request`
   */
  return function sendClaim<Unit extends { status: number; data: object }>(
    call: ClaimCall<Unit>,
    { answer, replayed, quotaLeft }: Claimed<Unit>,
    source: KeySource,
    claimed: { product: string; user: string },
    rateLimit: readonly string[] = [],
  ): void {
    const { status, data } = answer;
    if (replayed && source.from === 'body') {
      throw call.refusal('duplicate_request', 'This request was answered before; `data` is that answer.', {
        members: { original_status: status, data },
      });
    }
    const headers = replayed ? ['Idempotent-Replayed', 'true'] : [...rateLimit];
    if (quotaLeft !== null)
      headers.push('RateLimit-Policy', policy, 'RateLimit', `"device";r=${quotaLeft};t=${windowSeconds}`);
    if (isPlace(answer)) {
      const query = new URLSearchParams({ product_id: claimed.product, user_id: claimed.user });
      const wait = retryAfter(answer.data.poll_after_seconds);
      headers.push('Location', `/flash-sale/queue-status?${query}`, 'Retry-After', wait);
    }
    call.reply(status, data, headers);
  };
}

function isPlace(answer: { status: number; data: object }): answer is PlaceAnswer {
  return answer.status === 202;
}
