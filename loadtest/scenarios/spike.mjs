// The spike. Does a server take an opening as Artillery's users make it, and do exactly as many get a unit as there
// are?
//
// People: those of artillery/spike.yml: 100 in five seconds, then 3,000 in ten, on 1,000 units. Users who get a unit
// send the same request again. What must hold: each unit has a user, all others have a place in line, and a repetition
// gets the first response. Driven by Artillery. opening-second puts 10,000 requests into one second, which Artillery
// cannot.
import { filePlan, fileScript, fileTerms } from '../artillery-file.mjs';

/** @type {import('../scenario.js').Scenario<{ people: number, units: number }, string>} */
export const scenario = {
  question: 'Does the server take an opening, and do exactly as many get a unit as there are?',
  driver: 'Artillery',
  answers: {
    token: ['200'],
    checkout: ['200 completed', '202 queued'],
    repetition: ['200 completed'],
  },
  plan: (scale) => filePlan('spike', scale),
  script: (plan, product) => fileScript('spike', plan, product),
  async run(run, plan) {
    const { tally } = run;
    const product = await run.openCampaign('spike', fileTerms('spike', plan));
    await run.underLoad(() => run.artillery(run.scriptOf(scenario, plan, product)));
    const buyers = tally.count('checkout', '200 completed');
    run.check('every user came', tally.kinds.get('token')?.sent === plan.people, tally.kinds.get('token')?.sent);
    run.check('each unit has a user', buyers === plan.units, buyers);
    const queued = tally.count('checkout', '202 queued');
    run.check('all others have a place in line', queued === plan.people - plan.units, queued);
    run.reservations(product, plan.units);
  },
};
