// A day in a minute. Do all the things that people and payment services do go together, hour after hour?
//
// People: 2,000 over a minute, few at night, most at noon and in the evening. Six of ten pay; two hesitate, and their payment
// service gives their unit back; one pays and is refunded; one looks only. Whoever has to wait asks for his place, pays if it is his
// turn, and leaves if it is not.
// What must hold: only the answers below; at the end no unit is held, all numbers add up, and what was paid is as many units as Postgres has.
//
// Driven by Artillery: 200 requests a second are no burden for it.
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
    // Whose turn came while he was leaving is told so, and looks again.
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
    // A turn that came in the moment of leaving runs out by itself.
    const stats = await run.settled(
      product,
      ({ held, waiting, journal_backlog }) => held + waiting + journal_backlog === 0,
    );
    const paid = run.tally.count('confirm', '200 redeemed') - run.tally.count('refund', '200 refunded');
    run.check('everybody came', run.tally.kinds.get('token')?.sent === plan.people, run.tally.kinds.get('token')?.sent);
    run.check('no unit is held and nobody waits', stats.held === 0 && stats.waiting === 0, stats);
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
