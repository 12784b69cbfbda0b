// Codes. Are codes of all kinds checked and redeemed correctly while a worker makes others?
//
// People: 900 over 45 seconds. Each takes the next of 500 codes of a pool and of 500 codes that are bound to their
// users, so most codes are tried by two people. Each tries a shared code that has 600 uses, and a code that was never
// issued. Meanwhile a worker makes 20,000 codes for another campaign. What must hold: a code of the pool goes to the
// first user who redeems it, a bound code only to its own user, and the shared code is redeemed 600 times. A code that
// was never issued is unknown. All 20,000 codes exist and are different.
//
// Driven by Artillery.

import { issueCodes } from '../codes.mjs';
import { phases, think } from '../steps.mjs';

/**
 * @type {import('../scenario.js').Scenario<{ people: number, codes: number, uses: number, generated: number, seconds:
 *   number }, Record<'code' | 'shared' | 'pool' | 'bound', string>>}
 */
export const scenario = {
  question: 'Are shared, pool and bound codes checked and redeemed rightly while others are made?',
  driver: 'Artillery',
  answers: {
    'validate shared': ['200', '410 sold_out'],
    'validate unknown': ['404 code_not_found'],
    'redeem shared': ['201 redeemed', '410 sold_out'],
    // The last code of a pool may go with its last unit.
    'redeem pool': ['201 redeemed', '409 already_redeemed', '410 sold_out'],
    'redeem bound': ['201 redeemed'],
    'redeem bound of another': ['404 code_not_found'],
  },
  plan: (scale) => ({
    people: Math.ceil(900 * scale),
    codes: Math.ceil(500 * scale),
    uses: Math.ceil(600 * scale),
    generated: Math.ceil(20_000 * scale),
    seconds: Math.max(3, Math.ceil(45 * scale)),
  }),
  script: ({ people, seconds }, { code, shared, pool, bound }) => {
    const redeem = (
      /** @type {string} */ kind,
      /** @type {string} */ which,
      /** @type {string} */ product,
      who = '{{ user }}',
    ) => ({
      post: {
        url: '/coupons/redeem',
        name: `redeem ${kind}`,
        headers: { 'Idempotency-Key': `${kind.replaceAll(' ', '-')}-${who}` },
        json: { code: which, user_id: who, order_id: `cart-${who}` },
        product,
      },
    });
    const validate = (/** @type {string} */ name, /** @type {string} */ which) => ({
      post: { url: '/coupons/validate', name, json: { code: which, user_id: '{{ user }}' } },
    });
    return {
      config: { phases: phases([['all users', seconds, people]]) },
      scenarios: [
        {
          name: 'uses codes',
          flow: [
            validate('validate shared', code),
            redeem('shared', code, shared),
            think(1),
            redeem('pool', '{{ poolCode }}', pool),
            redeem('bound of another', '{{ boundCode }}', bound),
            // A bound code has one user, so two people who drew it send the same request with the same key.
            redeem('bound', '{{ boundCode }}', bound, '{{ boundUser }}'),
            { function: 'guessesCode' },
            validate('validate unknown', '{{ guess }}'),
          ],
        },
      ],
    };
  },
  async run(run, plan) {
    const { tally } = run;
    const word = run.id.replaceAll('-', '').toUpperCase();
    const code = `SHARED${word}`;
    const shared = await run.openCampaign('shared', { code, total_limit: plan.uses });
    const pool = await run.openCampaign('pool', { type: 'pool', total_limit: plan.codes });
    const bound = await run.openCampaign('bound', { type: 'unique', total_limit: plan.codes });
    const made = await run.openCampaign('generated', { type: 'pool', total_limit: plan.generated });
    run.say('codes are made and imported');
    const poolCodes = await issueCodes(run, pool, { count: plan.codes });
    const users = Array.from({ length: plan.codes }, (_, i) => `owner-${run.id}-${i}`);
    const boundCodes = await issueCodes(run, bound, {
      lines: users.map((user, i) => `B${word}${String(i).padStart(5, '0')},${user}`),
    });
    const codes = users.map((boundUser, i) => ({ boundUser, boundCode: boundCodes[i], poolCode: poolCodes[i] }));

    const script = run.scriptOf(scenario, plan, { code, shared, pool, bound });
    /** @type {string[]} */
    let generated = [];
    await run.underLoad(async () => {
      const making = issueCodes(run, made, { count: plan.generated });
      await run.artillery(script, { codes, product: shared });
      generated = await making;
    });
    const drawn = Math.min(plan.people, plan.codes);
    const redeemed = (/** @type {string} */ kind) => tally.count(`redeem ${kind}`, '201 redeemed');
    run.check(
      'the shared code was used as often as it may be',
      redeemed('shared') === Math.min(plan.uses, plan.people),
      redeemed('shared'),
    );
    run.check('every code of the pool went to one person', redeemed('pool') === drawn, redeemed('pool'));
    run.check(
      'all generated codes are there and different',
      new Set(generated).size === plan.generated,
      new Set(generated).size,
    );
    run.reservations(shared, Math.min(plan.uses, plan.people));
    run.reservations(pool, drawn);
    run.reservations(bound, drawn);
  },
};
