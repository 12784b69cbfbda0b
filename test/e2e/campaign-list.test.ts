import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator } from '../harness/clients.js';
import { startService } from '../harness/service.js';
import { arrive, checkoutInTurn, gatherShoppers } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** The list of campaigns, previews of changes, versions of the terms, and hidden campaigns. */
const service = await startService();
const operator = new Operator(service.url);
const get = (path: string) => operator.call('GET', path);
const productsOf = ({ data }: Answer): string[] =>
  (Array.isArray(data) ? data : data.campaigns).map(({ product_id }: Record<string, string>) => product_id);

describe('the list', () => {
  test('is searched, filtered and sorted by the service, in pages', async () => {
    const word = `w${randomUUID().slice(0, 8)}`;
    const future = { starts_at: '2031-01-01T00:00:00Z' };
    const scheduled = await operator.openCampaign({ ...future, name: `b ${word}` });
    const open = await operator.openCampaign({ name: `C ${word}`, code: `CODE${word}` });
    const draft = await operator.openCampaign({ name: `a ${word}`, draft: true });
    const closed = await operator.openCampaign({ name: `d ${word}` });
    await operator.call('POST', `/admin/campaigns/${closed}/close`);
    for (const path of ['/admin/campaigns', '/admin/overview']) {
      const list = async (query: string) => productsOf(await get(`${path}?q=${word}${query}`));
      expect(await list('')).toEqual([closed, draft, open, scheduled].map((one) => one));
      expect(await list('&sort=name')).toEqual([draft, scheduled, open, closed]);
      expect(await list('&sort=live')).toEqual([open, scheduled, draft, closed]);
      expect((await list('&sort=starts_at'))[0]).toBe(scheduled);
      expect(await list('&status=draft')).toEqual([draft]);
      expect(productsOf(await get(`${path}?q=${word.toUpperCase()}&status=open`))).toEqual([open]);
      expect(productsOf(await get(`${path}?q=code${word}`))).toEqual([open]);
      expect(productsOf(await get(`${path}?q=${open.slice(5, 20)}`))).toEqual([open]);
      expect(productsOf(await get(`${path}?q=%25${word}`))).toEqual([]);
      for (const query of ['sort=price', 'status=on', 'hidden=1', 'q='])
        expectProblem(await get(`${path}?${query}`), 400, 'invalid_request');
    }
    for (const sort of ['newest', 'live', 'name']) {
      const seen: string[] = [];
      let path: string | undefined = `/admin/campaigns?q=${word}&sort=${sort}&limit=3`;
      while (path) {
        const page: Answer = await get(path);
        seen.push(...productsOf(page));
        path = /<([^>]+)>/.exec(page.headers.get('link') ?? '')?.[1];
      }
      expect([sort, [...seen].sort()]).toEqual([sort, [scheduled, open, draft, closed].sort()]);
    }
  });

  test('leaves out what is hidden, which only a closed campaign or a draft can be', async () => {
    const product = await operator.openCampaign({ name: 'An old test' });
    const path = `/admin/campaigns/${product}`;
    const listed = async (hidden: string) =>
      productsOf(await get(`/admin/campaigns?hidden=${hidden}`)).includes(product);
    expectProblem(await operator.call('POST', `${path}/hide`), 409, 'campaign_conflict');
    await operator.call('POST', `${path}/close`);
    expect((await operator.call('POST', `${path}/hide`)).data.hidden).toBe(true);
    expect((await operator.call('POST', `${path}/hide`)).data.hidden).toBe(true);
    expect([await listed('false'), await listed('true')]).toEqual([false, true]);
    expect((await get(path)).data.hidden).toBe(true);
    expect((await operator.call('POST', `${path}/unhide`)).data.hidden).toBe(false);
    expect([await listed('false'), await listed('true')]).toEqual([true, false]);
    const { rows } = await service.database.client.query(
      "select action from audit_log where action like '%hide' and actor = 'tester' order by audit_id",
    );
    expect(rows.map(({ action }) => action)).toEqual(['campaign.hide', 'campaign.unhide']);
  });

  test('has sums over all campaigns, not over the page', async () => {
    const product = await operator.openCampaign({ total_limit: 3, hold_seconds: 900, waiting_room: { enabled: true } });
    await checkoutInTurn(gatherShoppers(service.url, product, 5));
    await operator.openCampaign({ total_limit: 1 });
    const { rows } = await service.database.client.query(
      "select count(*)::int as campaigns from campaigns where status = 'open'",
    );
    const totals = await until('the sums have it', async () => {
      const { data } = await get('/admin/overview?limit=1');
      expect(data.campaigns).toHaveLength(1);
      return data.totals.held === 3 && data.totals.waiting === 2 && data.totals;
    });
    expect(totals.campaigns.open).toBe(rows[0].campaigns);
    expect(totals.complete).toBe(true);
    expect((await get(`/admin/overview?campaign=${product}`)).data.totals).toBeNull();
  });
});

describe('a preview', () => {
  test('of a change says what would differ, and changes nothing', async () => {
    const product = await operator.openCampaign({ name: 'Before', total_limit: 5, hold_seconds: 300 });
    const path = `/admin/campaigns/${product}`;
    const change = { name: 'After', audience: { attribute: 'tier', eq: 'gold' }, hold_seconds: 300 };
    const preview = await operator.call('PATCH', `${path}?preview=true`, change);
    expect(preview.data).toMatchObject({ name: 'After', version: 1 });
    expect(preview.body.changes).toEqual([
      { field: 'name', before: 'Before', after: 'After' },
      { field: 'audience', before: null, after: { attribute: 'tier', eq: 'gold' } },
    ]);
    expect((await get(path)).data).toMatchObject({ name: 'Before', version: 1, audience: null });
    expectProblem(await operator.call('PATCH', `${path}?preview=true`, { hold_seconds: -1 }), 400, 'invalid_request');
    expectProblem(
      await operator.call('PATCH', `${path}?preview=true`, { starts_at: '2031-01-01T00:00:00Z' }),
      409,
      'campaign_conflict',
    );
    expectProblem(await operator.call('PATCH', `${path}?preview=yes`, change), 400, 'invalid_request');
  });

  test('of a new campaign has its times in its time zone, and creates nothing', async () => {
    const product_id = `preview-${randomUUID()}`;
    const body = { product_id, total_limit: 5, starts_at: '2031-01-01T09:00:00', time_zone: 'Asia/Jakarta' };
    const preview = await operator.call('POST', '/admin/campaigns?preview=true', body);
    expect([preview.status, preview.data.starts_at, preview.data.status]).toEqual([
      200,
      '2031-01-01T02:00:00.000Z',
      'scheduled',
    ]);
    expect(preview.data.starts_at_local).toContain('+07:00');
    expectProblem(await get(`/admin/campaigns/${product_id}`), 404, 'campaign_not_found');
    expect((await operator.call('POST', '/admin/campaigns', body)).status).toBe(201);
    expectProblem(await operator.call('POST', '/admin/campaigns?preview=true', body), 409, 'campaign_exists');
  });

  test('rejects what the creation and the change reject', async () => {
    const code = `TAKEN${randomUUID().slice(0, 8).toUpperCase()}`;
    const path = `/admin/campaigns/${await operator.openCampaign({ code })}`;
    const limits = { attestation_level: 2 };
    const branding = { image_url: 'https://pictures.example/one.png' };
    const created = (more: object) => ({ product_id: `sale-${randomUUID()}`, total_limit: 1, ...more });
    for (const preview of ['', '?preview=true']) {
      const create = (more: object) => operator.call('POST', `/admin/campaigns${preview}`, created(more));
      const { body } = await create({ limits, branding });
      expect(body.errors?.map(({ pointer }: { pointer: string }) => pointer)).toEqual([
        '#/limits/attestation_level',
        '#/branding/image_url',
      ]);
      expectProblem(await operator.call('PATCH', `${path}${preview}`, { limits }), 400, 'invalid_request');
      expectProblem(await create({ code: code.toLowerCase() }), 409, 'code_taken');
    }
  });
});

test('each version of the terms names its operator and what they changed', async () => {
  const product = await operator.openCampaign({ name: 'One', limits: { attestation_level: 1 } });
  const path = `/admin/campaigns/${product}`;
  await operator.call('PATCH', path, { name: 'Two' });
  await operator.call('PATCH', path, { max_qty: 3, stacking: { exclusive: true } });
  await operator.call('POST', `${path}/pause`);
  const { body, data } = await get(`${path}/versions`);
  expect(data).toEqual([
    {
      version: 3,
      at: expect.any(String),
      by: 'tester',
      changes: [
        { field: 'max_qty', before: 1, after: 3 },
        { field: 'stacking', before: { exclusive: false }, after: { exclusive: true } },
      ],
    },
    expect.objectContaining({ version: 2, changes: [{ field: 'name', before: 'One', after: 'Two' }] }),
    expect.objectContaining({ version: 1, changes: [] }),
  ]);
  expect(body.next_cursor).toBeNull();
  const first = await get(`${path}/versions?limit=2`);
  const second = await get(`${path}/versions?limit=2&cursor=${first.body.next_cursor}`);
  expect(second.data.map(({ version }: { version: number }) => version)).toEqual([1]);
  await arrive(service.url, product).checkout();
  expectProblem(await get('/admin/campaigns/none/versions'), 404, 'campaign_not_found');
});
