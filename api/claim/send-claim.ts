import type { Problem, ProblemExtras } from '../../shared/errors/catalogue.js';
import { policyField } from '../guards/limits/quotas.js';
import type { KeySource } from '../http/idempotency-key.js';
import { retryAfter } from '../http/respond.js';
import type { PlaceData } from './claim.contract.js';
import type { ClaimLimits } from './claim.js';

export type PlaceAnswer = { status: 202; data: PlaceData };

/** The outcome of a claim in the form that a route sends. */
export type Claimed<Unit extends { status: number; data: object }> = {
  answer: Unit | PlaceAnswer;
  /** Whether this is a replay of the first response to the key. */
  replayed: boolean;
  /** Remaining calls of the device in its window; null = a replay, which does not count. */
  quotaLeft: number | null;
};

/** The call of a route that claims: its contract has the responses of claims and `duplicate_request`. */
type ClaimCall<Unit extends { status: number; data: object }> = {
  reply(status: Unit['status'] | 202, data: Unit['data'] | PlaceData, headers: readonly string[]): void;
  refusal(code: 'duplicate_request', detail: string, extras: ProblemExtras): Problem;
};

/**
 * Returns the function that sends the outcomes of claims.
 * @param limits quota of a device, which every first response contains
 */
export function claimSender({ deviceQuota, deviceWindowMs }: Pick<ClaimLimits, 'deviceQuota' | 'deviceWindowMs'>) {
  const windowSeconds = deviceWindowMs / 1000;
  const policy = policyField('device', deviceQuota, windowSeconds);

  /**
   * Sends a unit or a place.
   * @param source where the key was sent: a replay of a key in the body gets 409 with the first response
   * @param claimed product and user of the queue-status in `Location`
   * @param rateLimit fields of other quotas, for a first response
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
      throw call.refusal('duplicate_request', 'This key was used before. `data` is the first response.', {
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
