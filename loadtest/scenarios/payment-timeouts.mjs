// No user pays. Does every expired unit go down the line until each waiting user was promoted?
//
// People: 600 come within 20 seconds for 40 units, each of which is held for two seconds and never paid. All of them
// poll queue-status until their status is final, and do nothing else. What must hold: every user gets the final status
// "expired". At the end all units are free again, no unit is held, no user waits, and each user had exactly one
// reservation. Driven by Artillery: at most 300 polls a second.
import { checkout, phases, queueStatus, STANDINGS, token } from '../steps.mjs';

const PATIENCE_QUESTIONS = 200;

/**
 * @type {import('../scenario.js').Scenario<{ people: number, units: number, hold_seconds: number, seconds: number },
 *   string>}
 */
export const scenario = {
  question: 'Does every unit that is not paid go down the line until each waiting user was promoted?',
  driver: 'Artillery',
  answers: {
    token: ['200'],
    checkout: ['200 completed', '202 queued'],
    'queue-status': STANDINGS,
  },
  plan: (scale) => ({
    people: Math.ceil(600 * scale),
    units: Math.ceil(40 * scale),
    hold_seconds: 2,
    seconds: Math.max(2, Math.ceil(20 * scale)),
  }),
  script: ({ people, seconds }, product) => ({
    config: { phases: phases([['all users', seconds, people]]) },
    scenarios: [
      {
        name: 'does not pay',
        flow: [
          token,
          checkout(product),
          { loop: [{ think: '{{ poll_after_seconds }}' }, queueStatus(product)], whileTrue: 'storyGoesOn' },
          { function: 'expectsEnd' },
        ],
      },
    ],
  }),
  async run(run, plan) {
    const { tally } = run;
    const product = await run.openCampaign('payment-timeouts', {
      total_limit: plan.units,
      hold_seconds: plan.hold_seconds,
      waiting_room: { enabled: true },
    });
    const script = run.scriptOf(scenario, plan, product);
    await run.underLoad(() => run.artillery(script, { patience: PATIENCE_QUESTIONS }));
    const stats = await run.settled(
      product,
      ({ held, waiting, journal_backlog }) => held + waiting + journal_backlog === 0,
    );
    run.check('every user came', tally.kinds.get('token')?.sent === plan.people, tally.kinds.get('token')?.sent);
    run.check('all units are free again', stats.free === plan.units && stats.held + stats.redeemed === 0, stats);
    run.check('no user waits', stats.waiting === 0, stats.waiting);
    run.reservations(product, plan.people);
  },
};
