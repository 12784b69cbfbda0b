// No user pays. Does every expired unit go down the line until each waiting user was promoted?
//
// People: those of artillery/payment-timeouts.yml: 400 in ten seconds for 50 units, each of which is held for two
// seconds and never paid. All of them poll queue-status until their status is final, and do nothing else. What must
// hold: every user gets the final status "expired". At the end all units are free again, no unit is held, no user
// waits, and each user had exactly one reservation. Driven by Artillery.
import { filePlan, fileScript, fileTerms } from '../artillery-file.mjs';
import { STANDINGS } from '../steps.mjs';

/** @type {import('../scenario.js').Scenario<{ people: number, units: number }, string>} */
export const scenario = {
  question: 'Does every unit that is not paid go down the line until each waiting user was promoted?',
  driver: 'Artillery',
  answers: {
    token: ['200'],
    checkout: ['200 completed', '202 queued'],
    'queue-status': STANDINGS,
    'last queue-status': ['200 expired'],
  },
  plan: (scale) => filePlan('payment-timeouts', scale),
  script: (plan, product) => fileScript('payment-timeouts', plan, product),
  async run(run, plan) {
    const { tally } = run;
    const product = await run.openCampaign('payment-timeouts', fileTerms('payment-timeouts', plan));
    await run.underLoad(() => run.artillery(run.scriptOf(scenario, plan, product)));
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
