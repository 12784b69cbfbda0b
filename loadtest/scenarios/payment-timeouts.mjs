// Nobody pays. Does every unit that runs out go down the line until everybody has had his turn?
//
// People: 600 come within 20 seconds for 40 units, each of which is held for two seconds and never paid. Everybody asks for his
// standing until his story has ended, and not one of them does anything else.
// What must hold: everybody is told an end, which is "expired" for all of them; at the end all units are free again, nothing is held,
// nobody waits, and each person had exactly one reservation.
//
// Driven by Artillery: 300 questions a second at most.
import { checkout, phases, queueStatus, STANDINGS, token } from '../steps.mjs';

const PATIENCE_QUESTIONS = 200;

/** @type {import('../scenario.js').Scenario<{ people: number, units: number, hold_seconds: number, seconds: number }, string>} */
export const scenario = {
  question: 'Does every unit that nobody pays for go down the line, until everybody has had his turn?',
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
    config: { phases: phases([['everybody', seconds, people]]) },
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
    run.check('everybody came', tally.kinds.get('token')?.sent === plan.people, tally.kinds.get('token')?.sent);
    run.check('all units are free again', stats.free === plan.units && stats.held + stats.redeemed === 0, stats);
    run.check('nobody waits', stats.waiting === 0, stats.waiting);
    run.reservations(product, plan.people);
  },
};
