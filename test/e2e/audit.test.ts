import { expect, test } from '@jest/globals';
import { expectProblem, pointersOf } from '../harness/checks.js';
import { Operator } from '../harness/clients.js';
import { startService } from '../harness/service.js';
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
  expect(new Set(await actionsOf(`campaign=${product}`))).toEqual(new Set(['campaign.pause', 'campaign.create']));
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

test('refuses filters that cannot be meant', async () => {
  const wrong = { 'action=Pause': '#/action', 'cursor=-1': '#/cursor', 'from=today': '#/from', 'limit=501': '#/limit' };
  for (const [query, pointer] of Object.entries(wrong)) {
    const refused = await operator.call('GET', `/admin/audit?${query}`);
    expectProblem(refused, 400, 'invalid_request');
    expect(pointersOf(refused)).toEqual([pointer]);
  }
  expectProblem(await operator.call('GET', '/admin/audit', undefined, asMia), 403, 'forbidden');
});
