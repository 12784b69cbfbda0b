import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { PaymentService, send } from '../harness/clients.js';
import { FakeStripe, PROVIDER_ENV, sendSigned } from '../harness/payment-providers.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';
import { untilWhole } from '../harness/verdict.js';
import { Stage } from './stage.js';

const stage = await Stage.set(PROVIDER_ENV);

test('Postgres away for a minute does not stop the sale', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const crowd = stage.crowd(product, 150);
  crowd.start();
  await until('the sale runs', () => crowd.completed.length >= 100);
  stage.postgres.kill('SIGKILL');
  await stage.postgres.exited;
  const before = crowd.completed.length;
  const since = performance.now();
  await until(
    'a minute has passed and the sale has gone on',
    () => performance.now() - since >= 60_000 && crowd.completed.length > before + 6_000,
    180_000,
  );
  await stage.startPostgres();
  await crowd.finish();
  stage.expectServed(crowd, 'postgres');
  await stage.expectNothingLost(crowd, product);
});

test('a Postgres that hangs does not stop the sale, and everything is written when it goes on', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const crowd = stage.crowd(product);
  crowd.start();
  await until('the sale runs', () => crowd.completed.length >= 100);
  // A connection is a process of its own, so the server alone would not hang anybody.
  const backends = await stage.query<{ pid: number }>(
    "select pid from pg_stat_activity where datname = current_database() and application_name like 'doorbuster%' and pid > 1",
  );
  expect(backends.length).toBeGreaterThan(0);
  const all = [stage.postgres.pid, ...backends.map(({ pid }) => pid)];
  for (const pid of all) process.kill(pid, 'SIGSTOP');
  const before = crowd.completed.length;
  await until('the sale goes on without Postgres', () => crowd.completed.length >= before + 1_000);
  for (const pid of all) process.kill(pid, 'SIGCONT');
  await crowd.finish();
  stage.expectServed(crowd, 'postgres');
  await stage.expectNothingLost(crowd, product);
});

test('a payment that is reported while Postgres is away keeps its unit, and is stored when it comes again', async () => {
  const product = await stage.openCampaign({ total_limit: 1, hold_seconds: 12 });
  const stripe = new FakeStripe(`${stage.url}/payments/stripe`);
  const shopper = arrive(stage.url, product);
  const { data } = await shopper.checkout();
  const ticket = { 'x-ticket': String(shopper.ticket) };
  const metadata = { reservation_id: String(data.reservation_id) };
  const find = `select 1 from redemptions where redemption_id = '${metadata.reservation_id}'`;
  await until('Postgres has it', async () => (await stage.query(find)).length > 0);
  const over = await stage.openCampaign({ total_limit: 1, hold_seconds: 1, late_payment: 'reacquire' });
  const late = arrive(stage.url, over);
  const ended = { reservation_id: String((await late.checkout()).data.reservation_id) };
  const ticketOfLate = { 'x-ticket': String(late.ticket) };
  const statusOfLate = async () => (await late.queueStatus(ticketOfLate)).data.status;
  await until('its hold has ended', async () => (await statusOfLate()) === 'expired');
  const inParts = await stage.openCampaign({ total_limit: 1, hold_seconds: 900 });
  const payer = arrive(stage.url, inParts);
  const part = { reservation_id: String((await payer.checkout()).data.reservation_id), partial: true };
  stage.postgres.kill('SIGKILL');
  await stage.postgres.exited;
  const paid = stripe.event('checkout.session.completed', stripe.session(metadata, 'pi_away'));
  expect((await stripe.send(paid)).status).toBe(503);
  expect((await shopper.queueStatus(ticket)).data.status).toBe('redeemed');
  // It may have been late before, and refunded.
  const paidLate = stripe.event('checkout.session.completed', stripe.session(ended, 'pi_late'));
  expect((await stripe.send(paidLate)).status).toBe(503);
  expect(await statusOfLate()).toBe('expired');
  // A part of the amount is never a payment.
  const paidInPart = () =>
    sendSigned(stage.url, 'payment.succeeded', { ...part, payment_ref: 'pi_part' }, { id: 'msg_1' });
  expect((await paidInPart()).status).toBe(503);
  expect((await payer.queueStatus({ 'x-ticket': String(payer.ticket) })).data.status).toBe('completed');
  await until('its hold would have ended', () => Date.now() > Date.parse(data.pay_before));
  await stage.startPostgres();
  const again = await until('the event is stored', async () => {
    const answer = await stripe.send(paid);
    return answer.status === 200 && answer;
  });
  expect(again.data).toEqual({ outcome: 'confirmed', repeated: false });
  expect((await shopper.queueStatus(ticket)).data.status).toBe('redeemed');
  expect((await stripe.send(paidLate)).data).toEqual({ outcome: 'reacquired', repeated: false });
  expect(await statusOfLate()).toBe('redeemed');
  expect((await paidInPart()).data).toEqual({ outcome: 'partial', repeated: false });
  for (const one of [product, over, inParts]) await untilWhole(stage.env, one);
});

test('while Postgres is away the order of a checkout is confirmed, and the codes on it afterwards', async () => {
  const code = `C${randomUUID().replaceAll('-', '').slice(0, 20).toUpperCase()}`;
  const product = await stage.openCampaign({ total_limit: 2, hold_seconds: 900 });
  const coupons = await stage.openCampaign({ total_limit: 1, hold_seconds: 900, code });
  const [alone, both] = [arrive(stage.url, product), arrive(stage.url, product)];
  const [one, two] = [String((await alone.checkout()).data.order_id), String((await both.checkout()).data.order_id)];
  await until('it is redeemed', async () => {
    const json = { code, user_id: both.user, order_id: two, idempotency_key: randomUUID() };
    return (await send(`${stage.url}/coupons/redeem`, { method: 'POST', json })).status === 201;
  });
  stage.postgres.kill('SIGKILL');
  await stage.postgres.exited;
  const payments = new PaymentService(stage.url);
  expect((await payments.say('confirm', { order_id: one })).data.status).toBe('redeemed');
  expectProblem(await payments.say('confirm', { order_id: two }), 503, 'temporarily_unavailable');
  expect((await both.queueStatus({ 'x-ticket': String(both.ticket) })).data.status).toBe('redeemed');
  await stage.startPostgres();
  const { data } = await until('it is confirmed', async () => {
    const answer = await payments.say('confirm', { order_id: two });
    return answer.status === 200 && answer;
  });
  expect(data.reservations.map(({ status }: { status: string }) => status)).toEqual(['redeemed', 'redeemed']);
  for (const at of [product, coupons]) await untilWhole(stage.env, at);
});
