import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { expectProblem, expectStock } from '../harness/checks.js';
import { Operator, PaymentService } from '../harness/clients.js';
import { generateCodes } from '../harness/issued-codes.js';
import { sharedService, startApiProcess } from '../harness/service.js';
import { arrive, countStatuses } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const members = { attribute: 'tier', eq: 'gold' };
const gold = { attributes: { tier: 'gold' } };
const openForMembers = (terms: Record<string, unknown> = {}) =>
  operator.openCampaign({ total_limit: 10, hold_seconds: 900, audience: members, ...terms });
const newcomer = (product: string) => arrive(service.url, product);
const amend = async (product: string, terms: Record<string, unknown>, url = service.url) =>
  expect((await new Operator(url).call('PATCH', `/admin/campaigns/${product}`, terms)).status).toBe(200);

describe('POST /flash-sale/checkout of a campaign with an audience', () => {
  test('serves its members and refuses all others with 403', async () => {
    const product = await openForMembers();
    expect((await newcomer(product).checkout(gold)).status).toBe(200);
    const others = [{}, { attributes: {} }, { attributes: { tier: 'silver' } }, { attributes: { tier: ['gold'] } }];
    for (const fields of others) expectProblem(await newcomer(product).checkout(fields), 403, 'audience_mismatch');
    await expectStock(operator, product, { total: 10, free: 9, held: 1 });
  });

  test('returns the first response to a repeated key, whatever the attributes are then', async () => {
    const product = await openForMembers();
    const shopper = newcomer(product);
    const key = randomUUID();
    const first = await shopper.checkoutWithHeader(key, gold);
    const again = await shopper.checkoutWithHeader(key);
    expect([first.status, again.status, again.data]).toEqual([200, 200, first.data]);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
  });

  test('does not remember the refusal: the same key succeeds with the right attributes', async () => {
    const product = await openForMembers();
    const shopper = newcomer(product);
    const idempotency_key = randomUUID();
    expectProblem(await shopper.checkout({ idempotency_key }), 403, 'audience_mismatch');
    expect((await shopper.checkout({ idempotency_key, ...gold })).status).toBe(200);
  });

  test('judges by the current terms in a process that has not received the change', async () => {
    const product = await operator.openCampaign({ total_limit: 100, hold_seconds: 900 });
    const other = await startApiProcess(service.env);
    expect((await arrive(other.url, product).checkout()).status).toBe(200);
    // Asks the process at the moment when the change is in force, before the news of it can have been read.
    const [, ...answers] = await Promise.all([
      amend(product, { audience: members }),
      ...Array.from({ length: 20 }, () => arrive(other.url, product).checkout()),
    ]);
    for (const { status } of answers) expect([200, 403]).toContain(status);
    const admitted = countStatuses(answers)[200] ?? 0;
    expectProblem(await arrive(other.url, product).checkout(), 403, 'audience_mismatch');
    expect((await arrive(other.url, product).checkout(gold)).status).toBe(200);
    await amend(product, { audience: null });
    expect((await arrive(other.url, product).checkout()).status).toBe(200);
    await expectStock(operator, product, { total: 100, free: 97 - admitted, held: 3 + admitted });
  });

  test('lets waiting users keep the place and the promotion when the audience narrows', async () => {
    const product = await openForMembers({ total_limit: 1, waiting_room: { enabled: true } });
    const held = await newcomer(product).checkout(gold);
    const waiting = newcomer(product);
    expect((await waiting.checkout(gold)).status).toBe(202);
    await amend(product, { audience: { attribute: 'tier', eq: 'platinum' } });
    expectProblem(await newcomer(product).checkout(gold), 403, 'audience_mismatch');
    expect((await waiting.checkout(gold)).status).toBe(202);
    expect((await payments.release(held.data.reservation_id)).status).toBe(200);
    await until('promoted', async () => (await waiting.queueStatus()).data.status === 'promoted');
  });

  test('judges a pool’s hand-out, which needs no code', async () => {
    const product = await openForMembers({ type: 'pool', hold_seconds: 0 });
    await generateCodes(operator, product, 3);
    expectProblem(await newcomer(product).checkout(), 403, 'audience_mismatch');
    expect(typeof (await newcomer(product).checkout(gold)).data.code).toBe('string');
  });
});
