import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { expectProblem, pointersOf } from '../harness/checks.js';
import { Operator, PaymentService, send } from '../harness/clients.js';
import { runProgram } from '../harness/programs.js';
import { ADMIN_SECRET, startService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** GET /admin/audit: who did what, and when. */
const service = await startService();
const operator = new Operator(service.url);
const product = await operator.openCampaign({ total_limit: 10 });
const { data: key } = await operator.call('POST', '/admin/keys', { name: 'mia', kind: 'admin', role: 'marketer' });
const asMia = { authorization: `Bearer ${key.secret}` };

type Entry = { id: string; at: string; actor: string; role: string | null; action: string; campaign: object | null };
const find = async (query: string) => {
  const { body } = await operator.call('GET', `/admin/audit?${query}`);
  return { entries: body.data as Entry[], next: body.next_cursor as string | null };
};
const actionsOf = async (query: string) => (await find(query)).entries.map(({ action }) => action);

test('names the actor, the role of a created key, the campaign and the request of each action', async () => {
  const paused = await operator.call('POST', `/admin/campaigns/${product}/pause`, undefined, asMia);
  expect(paused.status).toBe(200);
  const [entry] = await until('the pause is written', async () => {
    const { entries } = await find('actor=mia');
    return entries.length > 0 && entries;
  });
  expect(entry).toMatchObject({
    actor: 'mia',
    role: 'marketer',
    action: 'campaign.pause',
    campaign: { product_id: product },
    request_id: paused.headers.get('x-request-id'),
  });
  expect(await find('actor=tester')).toMatchObject({
    entries: [
      { action: 'key.create', role: null, campaign: null, before: null, after: { name: 'mia', role: 'marketer' } },
      { action: 'campaign.create' },
    ],
  });
});

test('is filtered by action, campaign and time, and read in pages', async () => {
  for (const subject of ['user-1', 'user-2', 'user-3'])
    await operator.call('POST', '/admin/bans', { kind: 'user', subject, reason: 'resells' });
  expect(await actionsOf('action=ban.')).toEqual(['ban.create', 'ban.create', 'ban.create']);
  expect(await actionsOf('action=ban.lift')).toEqual([]);
  expect(await actionsOf('action=ban.create&actor=mia')).toEqual([]);
  expect(new Set(await actionsOf(`product_id=${product}`))).toEqual(new Set(['campaign.pause', 'campaign.create']));
  const first = await find('action=ban.&limit=2');
  const second = await find(`action=ban.&limit=2&cursor=${first.next}`);
  expect([first.entries.length, second.entries.length, second.next]).toEqual([2, 1, null]);
  const ids = [...first.entries, ...second.entries].map(({ id }) => Number(id));
  expect(ids).toEqual([...ids].sort((a, b) => b - a));
  const [last] = first.entries;
  const at = encodeURIComponent(String(last?.at));
  expect(await actionsOf(`to=${at}&action=ban.`)).toHaveLength(2);
  expect(await actionsOf('from=2999-01-01T00:00:00Z')).toEqual([]);
});

test('contains the exports of codes, of buyers and of a user, before their first byte', async () => {
  const codes = await operator.openCampaign({ total_limit: 2, type: 'pool' });
  const exports = {
    'codes.export': `/admin/campaigns/${codes}/codes`,
    'redemptions.export': `/admin/campaigns/${codes}/redemptions?format=csv`,
  };
  for (const [action, path] of Object.entries(exports)) {
    const exported = await fetch(service.url + path, { headers: { authorization: `Bearer ${ADMIN_SECRET}` } });
    expect([action, exported.status]).toEqual([action, 200]);
    await exported.text();
    expect((await find(`product_id=${codes}&action=${action}`)).entries).toMatchObject([
      { actor: 'tester', campaign: { product_id: codes }, request_id: exported.headers.get('x-request-id') },
    ]);
  }
  const page = await operator.call('GET', `/admin/campaigns/${codes}/redemptions`);
  expect(page.status).toBe(200);
  expect(await actionsOf(`product_id=${codes}&action=redemptions.`)).toEqual(['redemptions.export']);
  await operator.call('GET', '/admin/users/user-9/export');
  expect(await actionsOf('action=user.export')).toEqual(['user.export']);
});

test('contains everything that was done to a reservation: by the shopper, the shop and operators', async () => {
  const sold = await operator.openCampaign({ total_limit: 5, hold_seconds: 900 });
  const [one, other] = [arrive(service.url, sold), arrive(service.url, sold)];
  const [paid, given] = [await one.checkout(), await other.checkout()].map(({ data }) => String(data.reservation_id));
  await new PaymentService(service.url).confirm(String(paid), 'pay-1');
  const refunded = await operator.call('POST', `/admin/reservations/${paid}/refund`, { reason: 'broken' });
  expect(refunded.status).toBe(200);
  await send(`${service.url}/flash-sale/release`, {
    method: 'POST',
    headers: { 'x-ticket': String(other.ticket) },
    json: { reservation_id: given },
  });
  const done = async (id: unknown, count: number) =>
    until('all is written', async () => {
      const { entries } = await find(`reservation_id=${id}`);
      return entries.length === count && entries.reverse();
    });
  const changed = (before: string, after: string) => ({ before: { status: before }, after: { status: after } });
  expect(await done(paid, 4)).toMatchObject([
    { action: 'redemption.reserved', before: null, after: { status: 'reserved' }, campaign: { product_id: sold } },
    { action: 'redemption.redeemed', actor: 'payments', ...changed('reserved', 'redeemed') },
    expect.objectContaining({ actor: 'tester' }),
    expect.objectContaining({ actor: 'tester' }),
  ]);
  expect(await done(given, 2)).toMatchObject([
    { action: 'redemption.reserved' },
    { action: 'redemption.released', actor: 'shopper', ...changed('reserved', 'released') },
  ]);
  expect((await find(`reservation_id=${randomUUID()}`)).entries).toEqual([]);
});

describe('npm run audit', () => {
  const run = (...args: string[]) =>
    runProgram('node', [join(projectRoot(), 'scripts/command.mjs'), 'audit', ...args], service.env);
  const sql = (text: string) => service.database.client.query(text);

  test('prints what was done to a campaign, and that nothing was changed', async () => {
    await operator.call('POST', `/admin/campaigns/${product}/resume`);
    await until('the change is written', async () => (await actionsOf(`product_id=${product}`)).length === 3);
    const { status, stdout, stderr } = await run(product);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toMatch(/tester {2}campaign\.create/);
    expect(stdout).toMatch(/mia {2}campaign\.pause\n {4}status: "open" → "paused"/);
    expect(stdout).toMatch(new RegExp(`whole +${product}, by operators: 1 entry · head [0-9a-f]{64}`));
    expect(stdout).toContain('a person could have computed the chains anew');
    expect(stdout).toMatch(new RegExp(`whole +${product}, by the journal: 2 entries · head [0-9a-f]{64}`));
    const [head] = /[0-9a-f]{64}/.exec(stdout) ?? [];
    expect((await run(product, '--head', String(head))).status).toBe(0);
    expect((await run('--head', String(head))).stdout).toContain(
      'Nothing up to the kept heads was changed, and nothing removed',
    );
    const other = await run(product, '--head', String(head), '--head', 'f'.repeat(64));
    expect([other.status, other.stdout]).toEqual([1, expect.stringMatching(/MISSING +no chain has the head f{64}/)]);
  });

  test('without a campaign verifies everything, and names the first entry that was changed', async () => {
    const whole = await run();
    expect([whole.status, whole.stdout]).toEqual([0, expect.stringMatching(/whole +the service, by operators/)]);
    await sql('alter table audit_log disable trigger user');
    const { rows } = await sql(
      `update audit_log set after = after || '{"reason": "another"}' where action = 'ban.create' returning audit_id`,
    );
    await sql('alter table audit_log enable trigger user');
    const { status, stdout } = await run();
    expect(status).toBe(1);
    expect(stdout).toMatch(new RegExp(`CHANGED +the service, by operators: entry \\d+ \\(id ${rows[0].audit_id}\\)`));
    expect(stdout).toMatch(new RegExp(`whole +${product}`));
  });

  test.each([
    [['--head'], 2, /usage/],
    [['nothing-there'], 2, /there is no campaign for nothing-there/],
    [['--help'], 0, /usage/],
  ])('%j ends with %i', async (args, code, text) => {
    const { status, stdout, stderr } = await run(...args);
    expect([status, stdout + stderr]).toEqual([code, expect.stringMatching(text)]);
  });
});

test('refuses filters that cannot be meant', async () => {
  const wrong = { 'action=Pause': '#/action', 'cursor=-1': '#/cursor', 'from=today': '#/from', 'limit=501': '#/limit' };
  for (const [query, pointer] of Object.entries(wrong)) {
    const refused = await operator.call('GET', `/admin/audit?${query}`);
    expectProblem(refused, 400, 'invalid_request');
    expect(pointersOf(refused)).toEqual([pointer]);
  }
  expectProblem(await operator.call('GET', '/admin/audit', undefined, asMia), 403, 'forbidden');
});
