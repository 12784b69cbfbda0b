// The waiting room over sockets. Does the line move, and does every user get the promotion or the end over the socket?
//
// People: 800 with the typed client (client/), as a web shop has it, come within 20 seconds for 200 units and follow
// the line over their sockets. A promoted user thinks for three seconds. Then one in three pays, and the others release
// their unit, which goes to the next in line. When the last unit is paid the line ends, and all waiting users get
// `closed`. Later users get `sold_out`. What must hold: every user gets a final status within a minute and a half, all
// units are paid, and no user waits.
//
// Driven by Artillery, whose own WebSocket engine cannot wait for a frame and act on it: each of its users runs the
// typed client.
import { phases } from '../steps.mjs';

/** @type {import('../scenario.js').Scenario<{ people: number, units: number, seconds: number }>} */
export const scenario = {
  question: 'Does the line move, and does every user get the promotion, or the end, over the socket?',
  driver: 'Artillery',
  answers: {
    token: ['200'],
    checkout: ['200 completed', '202 queued', '410 sold_out'],
    socket: ['101 welcome'],
    'queue-status': [
      '200 queued',
      '200 promoted',
      '200 completed',
      '200 redeemed',
      '200 released',
      '200 closed',
      '304',
    ],
    confirm: ['200 redeemed'],
    release: ['200 released'],
  },
  plan: (scale) => ({
    people: Math.ceil(800 * scale),
    units: Math.ceil(200 * scale),
    seconds: Math.max(2, Math.ceil(20 * scale)),
  }),
  script: ({ people, seconds }) => ({
    config: { phases: phases([['all users', seconds, people]]) },
    scenarios: [{ name: 'follows the line', flow: [{ function: 'followsTheLine' }] }],
  }),
  async run(run, plan) {
    const { tally } = run;
    const product = await run.openCampaign('waiting-room-sockets', {
      total_limit: plan.units,
      hold_seconds: 60,
      waiting_room: { enabled: true },
    });
    const script = run.scriptOf(scenario, plan, product);
    await run.underLoad(() => run.artillery(script, { payingEach: 3, thinkMs: 3_000, patienceMs: 90_000 }));
    const stats = await run.settled(
      product,
      ({ held, waiting, journal_backlog }) => held + waiting + journal_backlog === 0,
    );
    run.check('every user came', tally.kinds.get('token')?.sent === plan.people, tally.kinds.get('token')?.sent);
    run.check('all units are paid', stats.redeemed === plan.units && stats.free === 0, stats);
    run.check(
      'as many were paid as payments were taken',
      tally.count('confirm', '200 redeemed') === stats.redeemed,
      stats.redeemed,
    );
    run.check('no user waits', stats.waiting === 0, stats.waiting);
  },
};
