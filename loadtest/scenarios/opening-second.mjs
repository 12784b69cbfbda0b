// The opening second. Does every user get a response, and do exactly as many get a unit as there are?
//
// People: 10,000 users have opened the page: each has a connection and a device token. Within one second all of them
// check out, each at its own moment, without waiting for other responses. Half of the users who get a unit send the
// same request again. What must hold: 1,000 different users have a unit. All others have a place in line, each another
// one. A repetition gets the first response. No request is refused or stays without a response.
//
// Driven by a generator of its own (http-client.mjs). For the same users Artillery sent 1,300 to 1,650 requests a
// second on two cores, and took 16 seconds for their tokens and checkouts. Latencies count from the moment when a
// request was due.
import { arrive } from '../arrivals.mjs';
import { ask, connectClients, forEach } from '../http-client.mjs';

const SECOND_MS = 1000;

/** @type {import('../scenario.js').Scenario<{ people: number, units: number }>} */
export const scenario = {
  question:
    'Does every user get a response in the second in which a sale opens, and do exactly as many get a unit as there are?',
  driver: 'a generator of its own',
  answers: {
    token: ['200'],
    checkout: ['200 completed', '202 queued'],
    repetition: ['200 completed'],
  },
  plan: (scale) => ({ people: Math.ceil(10_000 * scale), units: Math.ceil(1_000 * scale) }),
  async run(run, { people, units }) {
    const { tally } = run;
    const product = await run.openCampaign('opening', {
      total_limit: units,
      hold_seconds: 900,
      waiting_room: { enabled: true },
    });
    run.say(`${people.toLocaleString('en')} phones open the page`);
    const clients = await connectClients(run, people);
    const requests = clients.map(({ client, user, device }) =>
      client.prepare('POST', '/flash-sale/checkout', { product_id: product, user_id: user, qty: 1, ...device }, [
        `Idempotency-Key: key-of-${user}`,
      ]),
    );
    /** @type {(import('../http-client.mjs').Answer | null)[]} */
    const answers = [];
    let lastAnswerMs = 0;
    await run.underLoad(async () => {
      const began = performance.now();
      const checkOut = async (/** @type {number} */ at, /** @type {number} */ due) => {
        const { client } = clients[at] ?? fail();
        answers[at] = await ask(tally, 'checkout', client, requests[at] ?? fail(), due);
        lastAnswerMs = performance.now() - began;
      };
      await arrive(people, SECOND_MS, checkOut, run.pause);
    });

    const buyers = clients.flatMap((one, at) => (answers[at]?.status === 200 ? [{ ...one, at }] : []));
    for (const { user, at } of buyers) tally.promised(product, user, answers[at]?.body.data.reservation_id);
    const again = buyers.filter((_, i) => i % 2 === 0);
    await forEach(again, 64, async ({ client, user, at }) => {
      const answer = await ask(tally, 'repetition', client, requests[at] ?? fail());
      const same = answer?.body.data?.reservation_id === answers[at]?.body.data.reservation_id;
      if (!same) tally.fault(`${user} repeated the checkout and got another reservation`);
    });
    for (const { client } of clients) client.close();

    const places = new Set(answers.flatMap((answer) => (answer?.status === 202 ? [answer.body.data.position] : [])));
    run.check(`${units.toLocaleString('en')} people have a unit`, buyers.length === units, buyers.length);
    run.check('all others have a place in line, each another one', places.size === people - units, places.size);
    run.say(`the last answer came ${Math.round(lastAnswerMs)} ms after the opening`);
    run.fact('last_answer_ms', Math.round(lastAnswerMs));
  },
};

/** @returns {never} */
function fail() {
  throw new Error('more clients than people');
}
