// Hostile devices. Are they refused while no ordinary shopper is?
//
// People, in random order over 40 seconds: about 600 ordinary shoppers get a token, check out, pay, and use the coupon
// of the sale. 40 devices send 60 checkouts each, as fast as their connection takes them, for another user each time.
// 100 forgers change one character of a token, send the token of another device, and use another user's idempotency
// key. 60 guessers try fourteen codes each. What must hold: no request of an ordinary shopper is refused. No device
// gets more than 20 checkouts through in any second. Forged tokens and foreign keys get nothing. No guesser has more
// guesses checked than the limit allows: five a minute, ten across its border.
//
// Driven by Artillery. All requests come from one address here, so the rules on addresses observe only (`risk:
// observe`). The scenario tests the limits on devices, tokens, keys and users.
import { checkout, payment, phases, think, token } from '../steps.mjs';

const CHECKOUTS_EACH = 60;
const GUESSES_EACH = 14;

/**
 * @type {import('../scenario.js').Scenario<{ shoppers: number, devices: number, forgers: number, guessers: number,
 *   seconds: number }, Record<'product' | 'coupon' | 'code', string>>}
 */
export const scenario = {
  question: 'Are hostile devices stopped while no ordinary shopper is refused?',
  driver: 'Artillery',
  answers: {
    token: ['200'],
    checkout: ['200 completed'],
    confirm: ['200 redeemed'],
    validate: ['200'],
    redeem: ['201 redeemed'],
    burst: ['200 completed', '429 rate_limited'],
    'forged token': ['401 attestation_invalid'],
    'token of another device': ['401 attestation_invalid'],
    // Keys belong to their user, so this is a checkout like any other.
    'key of another user': ['200 completed'],
    guess: ['404 code_not_found', '429 rate_limited', '403 blocked'],
  },
  plan: (scale) => ({
    shoppers: Math.ceil(600 * scale),
    devices: Math.ceil(40 * scale),
    forgers: Math.ceil(100 * scale),
    guessers: Math.ceil(60 * scale),
    seconds: Math.max(3, Math.ceil(40 * scale)),
  }),
  script: ({ shoppers, devices, forgers, guessers, seconds }, { product, coupon, code }) => {
    const redeem = (
      /** @type {string} */ name,
      /** @type {string} */ which,
      /** @type {Partial<import('../scenario.js').Request>} */ more = {},
    ) => ({
      post: {
        url: '/coupons/redeem',
        name,
        headers: { 'Idempotency-Key': '{{ key }}' },
        json: { code: which, user_id: '{{ user }}', order_id: 'cart-{{ user }}' },
        product: coupon,
        ...more,
      },
    });
    const validate = {
      post: { url: '/coupons/validate', name: 'validate', json: { code, user_id: '{{ user }}' }, forgets: true },
    };
    const burst = checkout(
      product,
      { user_id: '{{ user }}-{{ $loopCount }}' },
      { name: 'burst', beforeRequest: 'newKey', counts: true },
    );
    return {
      config: { phases: phases([['all users', seconds, shoppers + devices + forgers + guessers]]) },
      scenarios: [
        {
          name: 'shops',
          weight: shoppers,
          flow: [
            token,
            checkout(product),
            think(1),
            payment('confirm'),
            validate,
            { function: 'takesNewKey' },
            redeem('redeem', code, { forgets: true }),
          ],
        },
        {
          name: 'storms',
          weight: devices,
          flow: [token, { loop: [burst], count: CHECKOUTS_EACH }, { function: 'expectsQuota' }],
        },
        {
          name: 'forges',
          weight: forgers,
          flow: [
            token,
            checkout(product),
            { function: 'forgesToken' },
            checkout(
              product,
              { user_id: '{{ user }}-forged', attestation: '{{ forged }}' },
              { name: 'forged token', beforeRequest: 'newKey' },
            ),
            checkout(
              product,
              { user_id: '{{ user }}-other', device_fp: '{{ device }}-other' },
              { name: 'token of another device', beforeRequest: 'newKey' },
            ),
            checkout(
              product,
              { user_id: '{{ user }}-thief' },
              { name: 'key of another user', beforeRequest: 'firstKey' },
            ),
          ],
        },
        {
          name: 'guesses',
          weight: guessers,
          flow: [
            {
              loop: [{ function: 'guessesCode' }, redeem('guess', '{{ guess }}', { beforeRequest: 'newKey' })],
              count: GUESSES_EACH,
            },
          ],
        },
      ],
    };
  },
  async run(run, plan) {
    const { tally } = run;
    const product = await run.openCampaign('hostile-sale', {
      total_limit: 10_000,
      hold_seconds: 900,
      waiting_room: { enabled: true },
    });
    const code = `LOAD${run.id.replaceAll('-', '').toUpperCase()}`;
    const coupon = await run.openCampaign('hostile-coupon', {
      code,
      total_limit: 1_000_000,
      discount: { kind: 'percent', percent: 10 },
    });
    const script = run.scriptOf(scenario, plan, { product, coupon, code });
    await run.underLoad(() => run.artillery(script));
    // With few people there may be no such device by chance, and on a slow machine none may exceed its quota.
    const stopped = tally.count('burst', '429 rate_limited');
    run.check('devices were stopped', stopped > 0 || plan.devices < 10, stopped);
    const guessers = (tally.kinds.get('guess')?.sent ?? 0) / GUESSES_EACH;
    const looked = tally.count('guess', '404 code_not_found');
    run.check(
      `of ${GUESSES_EACH} guesses of a person at most ten were looked at`,
      looked <= 10 * guessers,
      looked / guessers,
    );
    const shoppers = tally.kinds.get('redeem')?.sent ?? 0;
    run.check(
      'every ordinary shopper has a unit and a discount',
      tally.count('redeem', '201 redeemed') === shoppers && shoppers > 0,
      shoppers,
    );
    run.reservations(coupon, shoppers);
    const bought = ['checkout', 'burst', 'key of another user'].map((name) => tally.count(name, '200 completed'));
    run.reservations(
      product,
      bought.reduce((sum, count) => sum + count, 0),
    );
  },
};
