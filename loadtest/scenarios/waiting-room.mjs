// The waiting room. Does the line move as units are given back, and does every user get a unit or the end?
//
// People: those of artillery/waiting-room.yml: 600 in 15 seconds for 100 units. They poll their place in line. One in
// three who gets a unit pays, the others give it back, and it goes to the next. Who still waits after the last poll
// leaves. What must hold: as many units are redeemed as were paid, no unit is held, and no user waits. Driven by
// Artillery. waiting-room-sockets has the typed client and its socket, which Artillery's own engine cannot follow.
import { filePlan, fileScript, fileTerms } from '../artillery-file.mjs';
import { STANDINGS } from '../steps.mjs';

/** @type {import('../scenario.js').Scenario<{ people: number, units: number }, string>} */
export const scenario = {
  question: 'Does the line move as units are given back, and does every user get a unit, or the end?',
  driver: 'Artillery',
  answers: {
    token: ['200'],
    checkout: ['200 completed', '202 queued', '410 sold_out'],
    'queue-status': STANDINGS,
    payment: ['200 redeemed', '200 released'],
    leave: ['200 left', '409 not_waiting'],
  },
  plan: (scale) => filePlan('waiting-room', scale),
  script: (plan, product) => fileScript('waiting-room', plan, product),
  async run(run, plan) {
    const { tally } = run;
    const product = await run.openCampaign('waiting-room', fileTerms('waiting-room', plan));
    await run.underLoad(() => run.artillery(run.scriptOf(scenario, plan, product)));
    const stats = await run.settled(
      product,
      ({ held, waiting, journal_backlog }) => held + waiting + journal_backlog === 0,
    );
    const paid = tally.count('payment', '200 redeemed');
    run.check('every user came', tally.kinds.get('token')?.sent === plan.people, tally.kinds.get('token')?.sent);
    run.check('as many units are redeemed as were paid', stats.redeemed === paid, { redeemed: stats.redeemed, paid });
    run.check('no unit is held and no user waits', stats.held + stats.waiting === 0, stats);
  },
};
