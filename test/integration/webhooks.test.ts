import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { WebhookReplays } from '../../api/admin/webhook-replays.js';
import { newWebhookSecret } from '../../api/admin/webhook-secrets.js';
import { Metrics } from '../../shared/observability/metrics.js';
import { WebhookAttempts } from '../../shared/postgres/webhook-attempts.js';
import { type WebhookEndpoint, WebhookEndpoints } from '../../shared/postgres/webhook-endpoints.js';
import { WebhookParking } from '../../shared/postgres/webhook-parking.js';
import { type DeliverDeps, type DeliverLimits, deliverTo } from '../../worker/publish-outbox/deliver.js';
import { Outbox } from '../../worker/publish-outbox/outbox.js';
import { startPersistence } from '../harness/persistence.js';
import { type Receiver, startReceiver } from '../harness/receiver.js';
import { recordingLog } from '../harness/recording-log.js';
import { startSale } from '../harness/sale.js';
import { until } from '../harness/until.js';

const sale = await startSale();
const store = await startPersistence(sale);
const outbox = new Outbox(store.database);
const endpoints = new WebhookEndpoints(store.database);
const replays = new WebhookReplays();
const parking = new WebhookParking(store.database);
const attempts = new WebhookAttempts(store.database);
afterEach(async () => {
  await store.sql.query('delete from webhook_endpoints');
  await sale.expectConsistent();
});

const RETRY = { firstDelayMs: 5, maxDelayMs: 20, giveUpMs: 60_000 };
const LIMITS: DeliverLimits = {
  timeoutMs: 60_000,
  answerBytes: 1_024,
  retry: RETRY,
  leaseMs: 120_000,
  runMs: 5_000,
  batch: 2,
  parkedEvents: 5,
};

function parts(
  changed: Partial<DeliverLimits> = {},
  allowPrivate = true,
): DeliverDeps & { log: ReturnType<typeof recordingLog> } {
  return {
    outbox,
    endpoints,
    parking,
    attempts,
    metrics: new Metrics(false),
    log: recordingLog(),
    clock: { nowMs: () => Date.now() },
    source: '/tests',
    allowPrivate,
    limits: { ...LIMITS, ...changed },
  };
}

async function subscribe(
  url: string,
  changed: Partial<Pick<WebhookEndpoint, 'secrets' | 'types' | 'campaignIds'>> = {},
): Promise<WebhookEndpoint> {
  return endpoints.insert({ id: randomUUID(), url, secrets: [newWebhookSecret()], types: null, ...changed });
}

/** Makes `count` reservations. @returns ids of their events, in order */
async function happen(count: number): Promise<string[]> {
  const before = await outbox.lastSeq();
  const campaign = await store.openCampaign();
  for (let i = 0; i < count; i += 1) await campaign.take(`user-${i}`);
  await store.persist();
  return (await outbox.read({ after: before, upTo: await outbox.lastSeq(), types: null }, 1_000)).map(({ id }) => id);
}

const read = async (endpoint: WebhookEndpoint) => (await endpoints.find(endpoint.id)) as WebhookEndpoint;
const isDue = async (endpoint: WebhookEndpoint) => (await endpoints.due(await outbox.lastSeq())).includes(endpoint.id);
/** The endpoint may be called at once. */
const dueNow = () => store.sql.query('update webhook_endpoints set next_attempt_at = now()');
const delivered = (receiver: Receiver) => receiver.received.map(({ event, answer }) => [event.id, answer]);

/** How long the endpoint waits, in seconds, rounded up to tens. */
async function waitOfEndpoint(): Promise<number> {
  const { rows } = await store.sql.query(
    'select extract(epoch from next_attempt_at - now()) as s from webhook_endpoints',
  );
  return Math.ceil(Number(rows[0].s) / 10) * 10;
}

test('an endpoint gets the events since its creation, in order and signed', async () => {
  await happen(1);
  const receiver = await startReceiver();
  const secret = newWebhookSecret();
  const endpoint = await subscribe(receiver.url, { secrets: [secret] });
  expect(await isDue(endpoint)).toBe(false);
  const ids = await happen(5);
  expect(await isDue(endpoint)).toBe(true);
  await deliverTo(endpoint.id, parts());
  expect(delivered(receiver)).toEqual(ids.map((id) => [id, 204]));
  for (const { headers, text, event } of receiver.received) {
    expect(new Webhook(secret).verify(text, headers as Record<string, string>)).toEqual(event);
    expect(headers['webhook-id']).toBe(event.id);
    expect(headers['content-type']).toBe('application/cloudevents+json; charset=utf-8');
    expect(event).toMatchObject({
      specversion: '1.0',
      source: '/tests',
      type: 'dev.doorbuster.redemption.reserved.v1',
    });
    expect(() => new Webhook(newWebhookSecret()).verify(text, headers as Record<string, string>)).toThrow(
      'No matching signature',
    );
    expect(() => new Webhook(secret).verify(`${text} `, headers as Record<string, string>)).toThrow(
      'No matching signature',
    );
  }
  expect(await isDue(endpoint)).toBe(false);
  expect(await read(endpoint)).toMatchObject({
    lastSeq: await outbox.lastSeq(),
    attempts: 0,
    lastDeliveredAt: expect.any(Date),
  });
});

test('while a secret is changed a receiver may verify with either', async () => {
  const receiver = await startReceiver();
  const secrets = [newWebhookSecret(), newWebhookSecret()];
  const endpoint = await subscribe(receiver.url, { secrets });
  await happen(1);
  await deliverTo(endpoint.id, parts());
  const [{ headers, text }] = receiver.received as [Receiver['received'][0]];
  expect(String(headers['webhook-signature']).split(' ').length).toBe(2);
  for (const secret of secrets)
    expect(new Webhook(secret).verify(text, headers as Record<string, string>)).toMatchObject({ specversion: '1.0' });
});

test('a delivery waits longer after each failure, and then goes on where it was, in order', async () => {
  const receiver = await startReceiver();
  const endpoint = await subscribe(receiver.url);
  const [first, second, third] = (await happen(3)) as [string, string, string];
  receiver.answer = ({ id }) => (id === first ? 200 : 503);
  const slow = parts({ retry: { firstDelayMs: 60_000, maxDelayMs: 150_000, giveUpMs: 600_000 } });
  const waits: number[] = [];
  for (let failures = 1; failures <= 2; failures += 1) {
    await deliverTo(endpoint.id, slow);
    await deliverTo(endpoint.id, slow);
    expect((await read(endpoint)).attempts).toBe(failures);
    waits.push(await waitOfEndpoint());
    await dueNow();
  }
  expect(waits).toEqual([60, 120]);
  expect(await read(endpoint)).toMatchObject({
    lastError: 'it responded with 503',
    failingSince: expect.any(Date),
    enabled: true,
  });
  receiver.answer = () => 200;
  await deliverTo(endpoint.id, slow);
  expect(delivered(receiver)).toEqual([
    [first, 200],
    [second, 503],
    [second, 503],
    [second, 200],
    [third, 200],
  ]);
  expect(await read(endpoint)).toMatchObject({ attempts: 0, failingSince: null, lastError: null });
});

test('an endpoint that fails for a day is disabled and reported; enabled again, it continues where it stopped', async () => {
  const receiver = await startReceiver();
  const endpoint = await subscribe(receiver.url);
  const ids = await happen(4);
  receiver.answer = () => 503;
  const day = parts({ retry: { ...RETRY, giveUpMs: 86_400_000 } });
  await deliverTo(endpoint.id, day);
  await store.sql.query(
    "update webhook_endpoints set next_attempt_at = now(), failing_since = now() - interval '23 hours 59 minutes'",
  );
  await deliverTo(endpoint.id, day);
  expect((await read(endpoint)).enabled).toBe(true);
  await store.sql.query(
    "update webhook_endpoints set next_attempt_at = now(), failing_since = now() - interval '24 hours'",
  );
  await deliverTo(endpoint.id, day);
  expect(await read(endpoint)).toMatchObject({
    enabled: false,
    disabledReason: 'failing too long: it responded with 503',
  });
  expect(day.log.lines.filter(({ level }) => level === 'error').map(({ message }) => message)).toEqual([
    'a webhook endpoint failed for too long and was disabled',
  ]);
  expect(await day.metrics.registry.getSingleMetricAsString('doorbuster_webhook_deliveries_total')).toContain(
    '{outcome="given_up"} 1',
  );
  await deliverTo(endpoint.id, day);
  expect(receiver.received.length).toBe(5);
  receiver.answer = () => 204;
  await endpoints.change(endpoint.id, { enabled: true }, store.database);
  await parking.retryAll(endpoint.id, store.database);
  await deliverTo(endpoint.id, day);
  expect(receiver.accepted()).toEqual(ids);
});

test('an endpoint that answers 410 is disabled at once', async () => {
  const receiver = await startReceiver();
  receiver.answer = () => 410;
  const endpoint = await subscribe(receiver.url);
  await happen(2);
  await deliverTo(endpoint.id, parts());
  expect(await isDue(endpoint)).toBe(false);
  await deliverTo(endpoint.id, parts());
  expect(receiver.received.length).toBe(1);
  expect(await read(endpoint)).toMatchObject({
    enabled: false,
    disabledReason: 'it responded with 410 Gone',
    attempts: 0,
  });
});

test('an endpoint that fails does not hold up another one', async () => {
  const [failing, well] = [await startReceiver(), await startReceiver()];
  failing.answer = () => 503;
  const [first, second] = [await subscribe(failing.url), await subscribe(well.url)];
  const ids = await happen(3);
  await deliverTo(first.id, parts());
  await deliverTo(second.id, parts());
  expect([failing.received.length, well.accepted()]).toEqual([1, ids]);
});

test('two deliverers at once deliver each event once and in order', async () => {
  const receiver = await startReceiver();
  const endpoint = await subscribe(receiver.url);
  const ids = await happen(10);
  await Promise.all([1, 2, 3].map(() => deliverTo(endpoint.id, parts())));
  expect(delivered(receiver)).toEqual(ids.map((id) => [id, 204]));
});

test('an event is delivered again when its deliverer died before it recorded that; one whose lease ran out stops', async () => {
  const receiver = await startReceiver();
  const endpoint = await subscribe(receiver.url);
  const ids = await happen(2);
  class Dying extends WebhookEndpoints {
    override advance(): Promise<never> {
      return Promise.reject(new Error('killed'));
    }
    override release(): Promise<void> {
      return Promise.resolve();
    }
  }
  await expect(deliverTo(endpoint.id, { ...parts(), endpoints: new Dying(store.database) })).rejects.toThrow('killed');
  await deliverTo(endpoint.id, parts());
  expect(receiver.accepted()).toEqual([ids[0]]);
  await store.sql.query('update webhook_endpoints set leased_until = now()');
  receiver.answer = () => 204;
  await deliverTo(endpoint.id, parts());
  expect(receiver.accepted()).toEqual([ids[0], ids[0], ids[1]]);
  expect(await endpoints.advance(endpoint.id, randomUUID(), 1_000, { replay: null, after: 0, upTo: 1 }, 1, true)).toBe(
    null,
  );
});

test('a delivery leaves out what an endpoint does not want', async () => {
  const receiver = await startReceiver();
  const endpoint = await subscribe(receiver.url, { types: ['dev.doorbuster.redemption.released.v1'] });
  const campaign = await store.openCampaign();
  const id = await campaign.take('ann');
  await campaign.release(id);
  await campaign.take('bob');
  await store.persist();
  await deliverTo(endpoint.id, parts());
  expect(receiver.received.map(({ event }) => [event.type, event.subject])).toEqual([
    ['dev.doorbuster.redemption.released.v1', id],
  ]);
  expect((await read(endpoint)).lastSeq).toBe(await outbox.lastSeq());
  expect(await isDue(endpoint)).toBe(false);
});

test('a replay delivers one event or a time range again, and new events come after it', async () => {
  const receiver = await startReceiver();
  const endpoint = await subscribe(receiver.url);
  const ids = (await happen(5)) as [string, string, string, string, string];
  await deliverTo(endpoint.id, parts());
  const heard = await read(endpoint);
  await store.sql.query(
    "update outbox o set occurred_at = timestamptz '2020-01-01' + (array_position($1::uuid[], v.event_id) * interval '1 minute') from outbox_events v where v.seq = o.seq and v.event_id = any($1)",
    [ids],
  );
  const later = await happen(1);
  const range = { from: new Date('2020-01-01T00:02:00Z'), to: new Date('2020-01-01T00:04:00Z') };
  expect(await replays.request(heard, { eventId: ids[4] }, store.database)).toBe(1);
  expect(await replays.request(heard, range, store.database)).toBe(2);
  expect(await replays.request(heard, { eventId: String(later[0]) }, store.database)).toBe(0);
  expect(await endpoints.backlog(heard)).toMatchObject({ events: 1, parked: 0, replays: 2 });
  receiver.received.length = 0;
  await deliverTo(endpoint.id, parts());
  expect(receiver.accepted()).toEqual([ids[4], ids[1], ids[2], later[0]]);
  expect(await endpoints.backlog(await read(endpoint))).toEqual({
    events: 0,
    parked: 0,
    parkedError: null,
    replays: 0,
  });
});

test('a delivery goes nowhere private unless that is allowed, whatever the address looks like', async () => {
  const receiver = await startReceiver();
  const port = new URL(receiver.url).port;
  for (const host of ['127.0.0.1', '0x7f.1', '[::ffff:127.0.0.1]', '[::1]', 'localhost']) {
    const endpoint = await subscribe(`http://${host}:${port}/hook`);
    await happen(1);
    await deliverTo(endpoint.id, parts({}, false));
    expect([host, (await read(endpoint)).lastError]).toEqual([host, expect.stringMatching(/private address$/)]);
    await store.sql.query('delete from webhook_endpoints');
  }
  expect(receiver.received).toEqual([]);
});

test('a delivery does not follow where it is sent', async () => {
  const [receiver, inside] = [await startReceiver(), await startReceiver()];
  receiver.answer = () => ({ status: 307, location: inside.url });
  const endpoint = await subscribe(receiver.url);
  await happen(1);
  await deliverTo(endpoint.id, parts());
  expect([receiver.received.length, inside.received.length, (await read(endpoint)).lastError]).toEqual([
    1,
    0,
    'it responded with 307',
  ]);
});

test('a delivery does not wait for an endpoint that never answers, nor for one that is not there', async () => {
  const receiver = await startReceiver();
  receiver.answer = () => 'nothing';
  const endpoint = await subscribe(receiver.url);
  await happen(1);
  await deliverTo(endpoint.id, parts({ timeoutMs: 50 }));
  expect((await read(endpoint)).lastError).toBe('no response in time');
  await endpoints.change(endpoint.id, { url: 'http://127.0.0.1:1/' }, store.database);
  await deliverTo(endpoint.id, parts());
  expect(await read(endpoint)).toMatchObject({ attempts: 1, lastError: expect.stringContaining('ECONNREFUSED') });
  await until('it is due again by itself', () => isDue(endpoint));
});

test('a delivery does not wait for the end of a response whose status it has', async () => {
  const receiver = await startReceiver();
  receiver.answer = () => ({ status: 200, endless: true });
  const endpoint = await subscribe(receiver.url);
  const ids = await happen(3);
  await deliverTo(endpoint.id, parts());
  expect(delivered(receiver)).toEqual(ids.map((id) => [id, 200]));
  expect(await read(endpoint)).toMatchObject({ lastSeq: await outbox.lastSeq(), lastError: null });
});

/** Makes a receiver keep its responses until `respond` is called. `called` settles with the first request. */
function holdBack(receiver: Receiver, answer: number) {
  let respond = () => {};
  const allowed = new Promise<void>((resolve) => {
    respond = resolve;
  });
  const called = new Promise<void>((resolve) => {
    receiver.answer = async () => {
      resolve();
      await allowed;
      return answer;
    };
  });
  return { called, respond: () => respond() };
}

describe('an endpoint that is moved while its old URL is called', () => {
  /** Moves an endpoint during a call. The old URL responds after the new one has received the events. */
  async function move(oldAnswer: number) {
    const [before, after] = [await startReceiver(), await startReceiver()];
    const { called, respond } = holdBack(before, oldAnswer);
    const endpoint = await subscribe(before.url);
    const ids = await happen(3);
    const ofOld = parts();
    const old = deliverTo(endpoint.id, ofOld);
    await called;
    await endpoints.change(endpoint.id, { url: after.url }, store.database);
    expect(await isDue(endpoint)).toBe(true);
    await deliverTo(endpoint.id, parts());
    expect(delivered(after)).toEqual(ids.map((id) => [id, 204]));
    respond();
    await old;
    expect(delivered(before)).toEqual([[ids[0], oldAnswer]]);
    return { endpoint, after, ids, log: ofOld.log };
  }

  it('stays enabled when the old URL answers 410, and its new URL gets the events', async () => {
    const { endpoint, after, log } = await move(410);
    expect(await read(endpoint)).toMatchObject({ enabled: true, disabledReason: null, lastError: null, attempts: 0 });
    expect(log.lines.filter(({ message }) => message.includes('disabled'))).toEqual([]);
    const more = await happen(1);
    await deliverTo(endpoint.id, parts());
    expect(after.accepted().slice(-1)).toEqual(more);
  });

  for (const answer of [503, 422] as const) {
    it(`has no failure of the old URL when that answers ${answer}`, async () => {
      const { endpoint } = await move(answer);
      expect(await read(endpoint)).toMatchObject({ attempts: 0, failingSince: null, lastError: null });
      expect(await endpoints.backlog(await read(endpoint))).toMatchObject({ events: 0, parked: 0 });
    });
  }

  it('does not go back to the old URL when that accepts the event', async () => {
    const { endpoint, ids, after } = await move(204);
    expect(after.accepted()).toEqual(ids);
    expect(await read(endpoint)).toMatchObject({ lastSeq: await outbox.lastSeq(), lastError: null });
  });

  it('keeps a parked event whose retry the old URL rejected', async () => {
    const [before, after] = [await startReceiver(), await startReceiver()];
    const endpoint = await subscribe(before.url);
    const ids = await happen(1);
    before.answer = () => 422;
    await deliverTo(endpoint.id, parts());
    await hurry();
    const { called, respond } = holdBack(before, 422);
    const old = deliverTo(endpoint.id, parts());
    await called;
    await endpoints.change(endpoint.id, { url: after.url }, store.database);
    await parking.retryAll(endpoint.id, store.database);
    respond();
    await old;
    // The failure would set the time of the next attempt anew.
    const { rows } = await store.sql.query('select attempts, next_attempt_at <= now() as due from webhook_parked');
    expect(rows).toEqual([{ attempts: 0, due: true }]);
    await deliverTo(endpoint.id, parts());
    expect(after.accepted()).toEqual(ids);
  });
});

/** Retries of parked events are due at once. */
const hurry = () =>
  store.sql.query("update webhook_parked set next_attempt_at = now() where next_attempt_at < 'infinity'");

describe('a rejected event', () => {
  it('is not sent to an endpoint that names other types or campaigns by now', async () => {
    for (const [column, value] of [
      ['types', ['dev.doorbuster.redemption.redeemed.v1']],
      ['campaign_ids', [randomUUID()]],
    ] as const) {
      const receiver = await startReceiver();
      const endpoint = await subscribe(receiver.url);
      await (await store.openCampaign()).take('ann');
      await store.persist();
      receiver.answer = () => 422;
      await deliverTo(endpoint.id, parts());
      expect(await endpoints.backlog(await read(endpoint))).toMatchObject({ parked: 1 });
      receiver.answer = () => 204;
      await store.sql.query(`update webhook_endpoints set ${column} = $2 where endpoint_id = $1`, [endpoint.id, value]);
      await store.sql.query('update webhook_parked set next_attempt_at = now()');
      await deliverTo(endpoint.id, parts());
      expect(receiver.received.map(({ answer }) => answer)).toEqual([422]);
      expect(await endpoints.backlog(await read(endpoint))).toMatchObject({ parked: 0 });
    }
  });

  it('holds up later events of its reservation and no others, and keeps their order', async () => {
    const receiver = await startReceiver();
    const endpoint = await subscribe(receiver.url);
    const campaign = await store.openCampaign();
    const [ann, bob] = [await campaign.take('ann'), await campaign.take('bob')];
    await campaign.release(ann);
    await campaign.take('cid');
    await store.persist();
    receiver.answer = ({ subject }) => (subject === ann ? 500 : 204);
    const run = parts({ retry: { ...RETRY, firstDelayMs: 60_000 } });
    await deliverTo(endpoint.id, run);
    await deliverTo(endpoint.id, run);
    const of = (subject: string) => receiver.received.filter(({ event }) => event.subject === subject);
    expect(of(ann).map(({ answer }) => answer)).toEqual([500]);
    expect(receiver.accepted().length).toBe(2);
    expect(of(bob).length).toBe(1);
    expect(await endpoints.backlog(await read(endpoint))).toEqual({
      events: 2,
      parked: 2,
      parkedError: 'it responded with 500',
      replays: 0,
    });
    expect(await read(endpoint)).toMatchObject({ attempts: 0, enabled: true, lastSeq: await outbox.lastSeq() });
    expect(await isDue(endpoint)).toBe(false);

    await hurry();
    expect(await isDue(endpoint)).toBe(true);
    receiver.answer = () => 204;
    await deliverTo(endpoint.id, run);
    expect(of(ann).map(({ event, answer }) => [event.type.split('.').at(-2), answer])).toEqual([
      ['reserved', 500],
      ['reserved', 204],
      ['released', 204],
    ]);
    expect(await endpoints.backlog(await read(endpoint))).toEqual({
      events: 0,
      parked: 0,
      parkedError: null,
      replays: 0,
    });
  });

  it('is retried with growing delays, and its attempts are kept', async () => {
    const receiver = await startReceiver();
    receiver.answer = () => 422;
    const endpoint = await subscribe(receiver.url);
    const [id] = await happen(1);
    const slow = parts({ retry: { firstDelayMs: 60_000, maxDelayMs: 150_000, giveUpMs: 600_000 } });
    const waits: number[] = [];
    for (let failures = 1; failures <= 3; failures += 1) {
      await deliverTo(endpoint.id, slow);
      const { rows } = await store.sql.query(
        'select attempts, extract(epoch from next_attempt_at - now()) as wait from webhook_parked',
      );
      expect(rows.map((row) => row.attempts)).toEqual([failures]);
      waits.push(Math.ceil(Number(rows[0].wait) / 10) * 10);
      await hurry();
    }
    expect(waits).toEqual([60, 120, 150]);
    receiver.answer = () => 200;
    await deliverTo(endpoint.id, slow);
    const kept = await attempts.list(endpoint.id, null, null, 10);
    expect(kept.map(({ eventId, delivered, status, error }) => [eventId, delivered, status, error])).toEqual([
      [id, true, 200, null],
      ...Array.from({ length: 3 }, () => [id, false, 422, 'it responded with 422']),
    ]);
    expect((await attempts.list(endpoint.id, false, Number(kept[1]?.no), 1)).map(({ no }) => no)).toEqual([
      kept[2]?.no,
    ]);
    await attempts.prune(2);
    expect((await attempts.list(endpoint.id, null, null, 10)).map(({ no }) => no)).toEqual(
      kept.slice(0, 3).map(({ no }) => no),
    );
  });

  it('waits for an operator after a day, and the endpoint goes on', async () => {
    const receiver = await startReceiver();
    const endpoint = await subscribe(receiver.url);
    const [poison, well] = (await happen(2)) as [string, string];
    receiver.answer = ({ id }) => (id === poison ? 500 : 204);
    const run = parts();
    await deliverTo(endpoint.id, run);
    await hurry();
    await store.sql.query("update webhook_parked set failing_since = now() - interval '2 minutes'");
    await deliverTo(endpoint.id, run);
    expect(run.log.lines.filter(({ level }) => level === 'error').map(({ message }) => message)).toEqual([
      'a webhook event failed for too long and waits for an operator',
    ]);
    await hurry();
    await deliverTo(endpoint.id, run);
    expect(delivered(receiver)).toEqual([
      [poison, 500],
      [well, 204],
      [poison, 500],
    ]);
    expect((await read(endpoint)).enabled).toBe(true);
    receiver.answer = () => 204;
    await parking.retryAll(endpoint.id, store.database);
    await deliverTo(endpoint.id, run);
    expect(receiver.accepted()).toEqual([well, poison]);
  });

  it('disables an endpoint that has accepted nothing for a day', async () => {
    const receiver = await startReceiver();
    receiver.answer = () => 500;
    const endpoint = await subscribe(receiver.url);
    await happen(1);
    await deliverTo(endpoint.id, parts());
    await hurry();
    await store.sql.query("update webhook_parked set failing_since = now() - interval '2 minutes'");
    await store.sql.query("update webhook_endpoints set created_at = now() - interval '2 minutes'");
    await deliverTo(endpoint.id, parts());
    expect(await read(endpoint)).toMatchObject({
      enabled: false,
      disabledReason: 'failing too long: it responded with 500',
    });
  });

  it('is the third in a row, and the endpoint waits as a whole until it accepts that one', async () => {
    const receiver = await startReceiver();
    const endpoint = await subscribe(receiver.url);
    const ids = await happen(5);
    const slow = parts({ retry: { ...RETRY, firstDelayMs: 60_000, maxDelayMs: 60_000 } });
    receiver.answer = ({ id }) => (id === ids[2] ? 204 : 500);
    await deliverTo(endpoint.id, slow);
    // An accepted event between them: the next two are parked again.
    expect(delivered(receiver)).toEqual(ids.map((id) => [id, id === ids[2] ? 204 : 500]));
    expect(await read(endpoint)).toMatchObject({ attempts: 0, lastSeq: await outbox.lastSeq() });

    const more = await happen(2);
    await deliverTo(endpoint.id, slow);
    expect(delivered(receiver).slice(5)).toEqual([[more[0], 500]]);
    expect(await read(endpoint)).toMatchObject({ attempts: 1, lastError: 'it responded with 500' });
    expect(await isDue(endpoint)).toBe(false);
    await dueNow();
    await deliverTo(endpoint.id, slow);
    expect(delivered(receiver).slice(6)).toEqual([[more[0], 500]]);
    expect(await endpoints.backlog(await read(endpoint))).toMatchObject({ events: 6, parked: 4 });

    receiver.answer = () => 204;
    await dueNow();
    await deliverTo(endpoint.id, slow);
    expect(delivered(receiver).slice(7)).toEqual(more.map((id) => [id, 204]));
    await hurry();
    await deliverTo(endpoint.id, slow);
    expect(await endpoints.backlog(await read(endpoint))).toMatchObject({ events: 0, parked: 0 });
    expect(new Set(receiver.accepted())).toEqual(new Set([...ids, ...more]));
  });

  it('makes the endpoint wait when the places of parked events are taken', async () => {
    const receiver = await startReceiver();
    const endpoint = await subscribe(receiver.url);
    const ids = await happen(4);
    receiver.answer = ({ id }) => (id === ids[1] ? 204 : 500);
    const slow = { ...RETRY, firstDelayMs: 60_000, maxDelayMs: 60_000 };
    await deliverTo(endpoint.id, parts({ retry: slow, parkedEvents: 1 }));
    expect(delivered(receiver)).toEqual([
      [ids[0], 500],
      [ids[1], 204],
      [ids[2], 500],
    ]);
    expect(await read(endpoint)).toMatchObject({ attempts: 1, lastError: 'it responded with 500' });
  });

  it('with 503 stops the endpoint twice, and is parked after the third attempt', async () => {
    const receiver = await startReceiver();
    const endpoint = await subscribe(receiver.url);
    const [poison, well] = (await happen(2)) as [string, string];
    receiver.answer = ({ id }) => (id === poison ? 503 : 204);
    for (let run = 1; run <= 3; run += 1) {
      expect(receiver.accepted()).toEqual([]);
      await dueNow();
      await deliverTo(endpoint.id, parts({ retry: { ...RETRY, firstDelayMs: 60_000, maxDelayMs: 60_000 } }));
    }
    expect(receiver.accepted()).toEqual([well]);
  });

  it('stays stored while it is retried, however old it is', async () => {
    const receiver = await startReceiver();
    const endpoint = await subscribe(receiver.url);
    const [poison] = (await happen(2)) as [string, string];
    receiver.answer = ({ id }) => (id === poison ? 500 : 204);
    const run = parts({ retry: { ...RETRY, firstDelayMs: 60_000 } });
    await deliverTo(endpoint.id, run);
    await outbox.prune(await outbox.lastSeq(), -60_000, 1_000);
    await hurry();
    receiver.answer = () => 204;
    await deliverTo(endpoint.id, run);
    expect(receiver.accepted()).toContain(poison);
    await outbox.prune(await outbox.lastSeq(), -60_000, 1_000);
    expect(await outbox.read({ after: 0, upTo: await outbox.lastSeq(), types: null }, 10)).toEqual([]);
  });
});

describe('an event without a response', () => {
  const slow = { ...RETRY, firstDelayMs: 60_000, maxDelayMs: 150_000 };
  // However slow the engines are, no run ends before everything was tried.
  const limits = { retry: slow, runMs: 600_000 };

  /** Delivers `runs` times, with everything due. @returns how many calls each run made */
  async function callsOf(runs: number, endpoint: WebhookEndpoint, receiver: Receiver): Promise<number[]> {
    const calls: number[] = [];
    for (let run = 1; run <= runs; run += 1) {
      await dueNow();
      await hurry();
      const before = receiver.received.length;
      await deliverTo(endpoint.id, parts(limits));
      calls.push(receiver.received.length - before);
    }
    return calls;
  }

  it('stops the endpoint twice, and is parked after the third attempt with the later ones of its subject', async () => {
    const receiver = await startReceiver();
    const endpoint = await subscribe(receiver.url);
    const campaign = await store.openCampaign();
    const [ann, bob] = [await campaign.take('ann'), await campaign.take('bob')];
    await campaign.release(ann);
    await store.persist();
    receiver.answer = ({ subject }) => (subject === ann ? 'cut' : 204);
    expect(await callsOf(3, endpoint, receiver)).toEqual([1, 1, 2]);
    expect(receiver.received.map(({ event }) => event.subject)).toEqual([ann, ann, ann, bob]);
    expect(await endpoints.backlog(await read(endpoint))).toMatchObject({ events: 2, parked: 2 });
    receiver.answer = () => 204;
    await callsOf(1, endpoint, receiver);
    expect(receiver.received.slice(4).map(({ event }) => [event.subject, event.type.split('.').at(-2)])).toEqual([
      [ann, 'reserved'],
      [ann, 'released'],
    ]);
  });

  it('is parked as well when the receiver keeps the connection and does not answer', async () => {
    const receiver = await startReceiver();
    const endpoint = await subscribe(receiver.url);
    const [poison, well] = (await happen(2)) as [string, string];
    receiver.answer = ({ id }) => (id === poison ? 'nothing' : 204);
    await until('the other event is delivered', async () => {
      await dueNow();
      await deliverTo(endpoint.id, parts({ timeoutMs: 500 }));
      return receiver.accepted().includes(well);
    });
    expect(await endpoints.backlog(await read(endpoint))).toMatchObject({ events: 1, parked: 1 });
  });

  it('is retried apart from the others, which never wait for its next attempt', async () => {
    const receiver = await startReceiver();
    const endpoint = await subscribe(receiver.url);
    const [poison] = await happen(1);
    receiver.answer = ({ id }) => (id === poison ? 'cut' : 204);
    expect(await callsOf(3, endpoint, receiver)).toEqual([1, 1, 1]);
    for (let retry = 1; retry <= 5; retry += 1) {
      await hurry();
      await deliverTo(endpoint.id, parts(limits));
    }
    expect(receiver.received.length).toBe(8);
    const more = await happen(2);
    await hurry();
    await deliverTo(endpoint.id, parts(limits));
    expect(delivered(receiver).slice(8)).toEqual([
      [poison, 0],
      [more[0], 204],
      [more[1], 204],
    ]);
    const { rows } = await store.sql.query('select attempts from webhook_parked');
    expect(rows).toEqual([{ attempts: 7 }]);
  });

  it('is one of many when the endpoint is dead, which parks two and then makes one call a run', async () => {
    const receiver = await startReceiver();
    const endpoint = await subscribe(receiver.url);
    const ids = await happen(6);
    receiver.answer = () => 'cut';
    expect(await callsOf(9, endpoint, receiver)).toEqual([1, 1, 3, 1, 1, 1, 1, 1, 1]);
    expect(await read(endpoint)).toMatchObject({ attempts: 9, lastError: 'Error: socket hang up' });
    expect(await waitOfEndpoint()).toBe(150);
    expect(await endpoints.backlog(await read(endpoint))).toMatchObject({ events: 6, parked: 2 });
    receiver.answer = () => 204;
    await callsOf(1, endpoint, receiver);
    expect([...receiver.accepted()].sort()).toEqual([...ids].sort());
    expect(await read(endpoint)).toMatchObject({ attempts: 0, failingSince: null });
  });

  it.each([3, 4, 5])('disables an endpoint that is dead for a day, also after %i runs', async (runs) => {
    const endpoint = await subscribe('http://127.0.0.1:1/');
    await happen(4);
    const day = parts({ ...limits, retry: { ...slow, giveUpMs: 86_400_000 } });
    for (let run = 1; run <= runs; run += 1) {
      await deliverTo(endpoint.id, day);
      await dueNow();
      await hurry();
    }
    await store.sql.query("update webhook_endpoints set failing_since = now() - interval '24 hours'");
    await deliverTo(endpoint.id, day);
    expect(await read(endpoint)).toMatchObject({
      enabled: false,
      disabledReason: expect.stringMatching(/^failing too long: .*ECONNREFUSED/),
    });
  });

  it('does not hold up the others after two of them failed by chance just before', async () => {
    const receiver = await startReceiver();
    const endpoint = await subscribe(receiver.url);
    const ids = await happen(5);
    receiver.answer = () => 'cut';
    await callsOf(3, endpoint, receiver);
    receiver.answer = ({ id }) => (id === ids[2] ? 'cut' : 204);
    await callsOf(5, endpoint, receiver);
    expect([...receiver.accepted()].sort()).toEqual(ids.filter((id) => id !== ids[2]).sort());
    expect(await endpoints.backlog(await read(endpoint))).toMatchObject({ events: 1, parked: 1 });
  });

  it('makes an endpoint wait that dies with many parked events and gets no new ones', async () => {
    const receiver = await startReceiver();
    const endpoint = await subscribe(receiver.url);
    const ids = await happen(10);
    receiver.answer = ({ id }) => (ids.indexOf(id) % 2 === 0 ? 500 : 204);
    await callsOf(1, endpoint, receiver);
    expect(await endpoints.backlog(await read(endpoint))).toMatchObject({ events: 5, parked: 5 });
    receiver.answer = () => 'cut';
    expect(await callsOf(5, endpoint, receiver)).toEqual([3, 1, 1, 1, 1]);
    receiver.answer = () => 204;
    await callsOf(1, endpoint, receiver);
    expect(await endpoints.backlog(await read(endpoint))).toMatchObject({ events: 0, parked: 0 });
  });
});

test('a delivery leaves out campaigns that an endpoint does not want', async () => {
  const receiver = await startReceiver();
  const [wanted, other] = [await store.openCampaign(), await store.openCampaign()];
  const endpoint = await subscribe(receiver.url, { campaignIds: [wanted.terms.id] });
  await other.take('ann');
  const id = await wanted.take('ann');
  await store.persist();
  expect(await endpoints.backlog(endpoint)).toMatchObject({ events: 1 });
  await deliverTo(endpoint.id, parts());
  expect(receiver.received.map(({ event }) => event.subject)).toEqual([id]);
  expect((await read(endpoint)).lastSeq).toBe(await outbox.lastSeq());
});
