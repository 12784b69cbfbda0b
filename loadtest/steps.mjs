// The steps of Artillery's shoppers, one request each. `{{ … }}` is a value that the hooks in artillery/shopper.mjs
// keep.

/** @typedef {import('./scenario.js').Request} Request */
/** @typedef {import('./scenario.js').Step} Step */

/** Requests a device token over the public endpoint, as every client does. */
export const token = { get: { url: '/flash-sale/token?device_fp={{ device }}', name: 'token' } };

/**
 * @param {string} product
 * @param {Record<string, unknown>} [fields] other than usual
 * @param {Partial<Request>} [more] of the step
 * @returns {Step}
 */
export function checkout(product, fields = {}, more = {}) {
  return {
    post: {
      url: '/flash-sale/checkout',
      name: 'checkout',
      headers: { 'Idempotency-Key': '{{ key }}' },
      json: {
        product_id: product,
        user_id: '{{ user }}',
        qty: 1,
        device_fp: '{{ device }}',
        attestation: '{{ attestation }}',
        expires_at: '{{ expires_at }}',
        ...fields,
      },
      ...more,
    },
  };
}

/** @param {string} product @param {Partial<Request>} [more] @returns {Step} */
export function queueStatus(product, more = {}) {
  const url = `/flash-sale/queue-status?product_id=${product}&user_id={{ user }}`;
  return { get: { url, name: 'queue-status', headers: { 'X-Ticket': '{{ ticket }}' }, ...more } };
}

/**
 * Calls the API as the payment service.
 * @param {'confirm' | 'release' | 'refund'} what
 * @param {string} [ifTrue]
 * @returns {Step}
 */
export function payment(what, ifTrue = 'hasUnit') {
  return {
    post: {
      url: `/flash-sale/${what}`,
      name: what,
      ifTrue,
      headers: { Authorization: 'Bearer {{ serviceKey }}' },
      json: { reservation_id: '{{ reservation_id }}' },
    },
  };
}

/** Leaves the line if the user is still waiting. */
export const leave = {
  delete: { url: '/flash-sale/queue', name: 'leave', ifTrue: 'isWaiting', headers: { 'X-Ticket': '{{ ticket }}' } },
};

/** @param {number} seconds */
export const think = (seconds) => ({ think: seconds });

/** Phases with exact numbers of people. @param {readonly [name: string, seconds: number, people: number][]} parts */
export function phases(parts) {
  return parts
    .filter(([, , people]) => people > 0)
    .map(([name, duration, arrivalCount]) => ({ name, duration, arrivalCount }));
}

/** The statuses that queue-status may return. */
export const STANDINGS = [
  'queued',
  'promoted',
  'completed',
  'redeemed',
  'released',
  'expired',
  'left',
  'closed',
  'not_queued',
].map((standing) => `200 ${standing}`);
