// A day in a minute. Do all actions of users and payment services work together, hour after hour?
//
// People: 2,000 over a minute, few at night, most at noon and in the evening. Six of ten pay. Two hesitate, and their
// payment service releases their unit. One pays and is refunded, and one only looks. Users who have to wait poll their
// position, pay when they are promoted, and leave otherwise. What must hold: only the responses below occur. At the end
// no unit is held, all numbers add up, and Postgres has as many units as were paid. Driven by Artillery: it sends 200
// requests a second easily.
import { checkout, leave, payment, phases, queueStatus, STANDINGS, think, token } from '../steps.mjs';

/** @type {import('../scenario.js').Scenario<{ people: number, units: number, seconds: number }, string>} */
export const scenario = {
  question: 'Do checkouts, payments, releases, refunds and questions go together over a whole day?',
  driver: 'Artillery',
  answers: {
    token: ['200'],
    checkout: ['200 completed', '202 queued', '410 sold_out'],
    'queue-status': STANDINGS,
    confirm: ['200 redeemed'],
    release: ['200 released'],
    refund: ['200 refunded'],
    // A user who is promoted while leaving gets this refusal and polls again.
    leave: ['200 left', '409 not_waiting'],
  },
  plan: (scale) => ({ people: Math.ceil(2_000 * scale), units: Math.ceil(900 * scale), seconds: scale < 0.1 ? 6 : 60 }),
  script: ({ people, seconds }, product) => {
    const part = (/** @type {number} */ share) => Math.round(people * share);
    const rest = people - part(0.05) - part(0.15) - part(0.3) - part(0.1) - part(0.3);
    const wait = [think(2), queueStatus(product, { ifTrue: 'isWaiting' }), payment('confirm')];
    const come = [token, checkout(product)];
    return {
      config: {
        phases: phases([
          ['night', seconds / 6, part(0.05)],
          ['morning', seconds / 6, part(0.15)],
          ['noon', seconds / 6, part(0.3)],
          ['afternoon', seconds / 6, part(0.1)],
          ['evening', seconds / 6, part(0.3)],
          ['late', seconds / 6, rest],
        ]),
      },
      scenarios: [
        {
          name: 'pays',
          weight: 6,
          flow: [
            ...come,
            think(1),
            payment('confirm'),
            ...wait,
            ...wait,
            leave,
            queueStatus(product, { ifTrue: 'isWaiting' }),
            payment('confirm'),
          ],
        },
        {
          name: 'hesitates',
          weight: 2,
          flow: [
            ...come,
            think(1),
            payment('release'),
            leave,
            queueStatus(product, { ifTrue: 'isWaiting' }),
            payment('release'),
          ],
        },
        {
          name: 'is refunded',
          weight: 1,
          flow: [...come, payment('confirm'), think(1), payment('refund', 'isPaid'), leave],
        },
        {
          name: 'looks',
          weight: 1,
          flow: [token, queueStatus(product, { headers: {} }), think(1), queueStatus(product, { headers: {} })],
        },
      ],
    };
  },
  async run(run, plan) {
    const product = await run.openCampaign('steady-day', {
      total_limit: plan.units,
      hold_seconds: 20,
      waiting_room: { enabled: true },
    });
    await run.underLoad(() => run.artillery(run.scriptOf(scenario, plan, product)));
    // A promotion at the moment of leaving expires by itself.
    const stats = await run.settled(
      product,
      ({ held, waiting, journal_backlog }) => held + waiting + journal_backlog === 0,
    );
    const paid = run.tally.count('confirm', '200 redeemed') - run.tally.count('refund', '200 refunded');
    run.check(
      'every user came',
      run.tally.kinds.get('token')?.sent === plan.people,
      run.tally.kinds.get('token')?.sent,
    );
    run.check('no unit is held and no user waits', stats.held === 0 && stats.waiting === 0, stats);
    run.check('what was paid and not refunded is redeemed', stats.redeemed === paid, {
      redeemed: stats.redeemed,
      paid,
    });
    run.check(
      'free + held + redeemed + burned = total',
      stats.free + stats.held + stats.redeemed + stats.burned === stats.total,
      stats,
    );
  },
};
