import { describe, expect, test } from '@jest/globals';
import { expectInPostgres, expectProblem, expectRows } from '../harness/checks.js';
import { type Answer, Operator, PaymentService, type Shopper, send } from '../harness/clients.js';
import { sharedService } from '../harness/service.js';
import { arrive, checkoutInTurn, gatherShoppers } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

// Records of past actions: the audit log and the redemptions.

const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const sql = (text: string, values: unknown[] = []) => service.database.client.query(text, values);

type AuditRow = {
  actor: string;
  action: string;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  request_id: string | null;
};

async function auditOf(product: string, count: number): Promise<AuditRow[]> {
  return until(`${count} audit rows are there`, async () => {
    const { rows } = await service.database.client.query<AuditRow>(
      `select actor, action, before, after, request_id from audit_log join campaigns using (campaign_id)
       where product_id = $1 order by audit_id`,
      [product],
    );
    return rows.length === count ? rows : null;
  });
}

describe('the audit log', () => {
  test('has a row for every action: actor, action, state before and after', async () => {
    const product = await operator.openCampaign({ total_limit: 10, starts_at: '2031-01-01T00:00:00Z', name: 'Before' });
    const path = `/admin/campaigns/${product}`;
    await operator.call('PATCH', path, { name: 'After' }, { 'x-request-id': 'audit-patch' });
    await operator.call('POST', `${path}/stock`, { delta: -3 }, { 'x-request-id': 'audit-stock' });
    for (const action of ['open', 'pause', 'resume', 'close']) {
      await operator.call('POST', `${path}/${action}`, undefined, { 'x-request-id': `audit-${action}` });
    }
    const rows = await auditOf(product, 7);
    expect(rows.map(({ actor }) => actor)).toEqual(Array(7).fill('tester'));
    const [created, changed, restocked, ...statuses] = rows as [AuditRow, AuditRow, AuditRow, ...AuditRow[]];
    expect(created).toMatchObject({ before: null, after: { product_id: product, name: 'Before', total_limit: 10 } });
    expect(changed).toMatchObject({ before: { name: 'Before' }, after: { name: 'After' }, request_id: 'audit-patch' });
    expect(restocked).toMatchObject({
      before: { total_limit: 10 },
      after: { total_limit: 7 },
      request_id: 'audit-stock',
    });
    expect(statuses.map(({ before, after, request_id }) => [before?.status, after?.status, request_id])).toEqual([
      ['scheduled', 'open', 'audit-open'],
      ['open', 'paused', 'audit-pause'],
      ['paused', expect.stringMatching(/^(open|scheduled)$/), 'audit-resume'],
      [expect.stringMatching(/^(open|scheduled)$/), 'closed', 'audit-close'],
    ]);
    expect(new Set(rows.map(({ action }) => action)).size).toBe(7);
  });

  test('names the clock when it opened or closed a sale', async () => {
    const inMinutes = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString();
    const product = await operator.openCampaign({
      total_limit: 1,
      starts_at: inMinutes(60),
      ends_at: inMinutes(120),
    });
    const reschedule = async (times: { starts_at?: string; ends_at?: string }) =>
      expect((await operator.call('PATCH', `/admin/campaigns/${product}`, times)).status).toBe(200);
    await reschedule({ starts_at: inMinutes(-20) });
    await auditOf(product, 3);
    await reschedule({ ends_at: inMinutes(-10) });
    const rows = await auditOf(product, 5);
    expect(rows.map(({ actor, after }) => [actor, after?.status])).toEqual([
      ['tester', 'scheduled'],
      ['tester', 'scheduled'],
      ['clock', 'open'],
      ['tester', 'open'],
      ['clock', 'closed'],
    ]);
  });

  test('has no row for an action that was refused or changed nothing', async () => {
    const product = await operator.openCampaign({ total_limit: 1 });
    const path = `/admin/campaigns/${product}`;
    await operator.call('PATCH', path, { total_limit: 5 });
    await operator.call('POST', `${path}/stock`, { delta: -2 });
    await operator.call('POST', `${path}/resume`);
    await send(`${service.url}${path}/close`, { method: 'POST' });
    await operator.call('POST', `${path}/close`);
    await operator.call('POST', `${path}/close`);
    const rows = await auditOf(product, 2);
    expect(rows.map(({ after }) => after?.status)).toEqual(['open', 'closed']);
  });

  test('cannot be changed, not even by the owner of the database', async () => {
    await auditOf(await operator.openCampaign(), 1);
    const { rows: before } = await sql('select * from audit_log order by audit_id');
    for (const attempt of ["update audit_log set actor = 'another'", 'delete from audit_log', 'truncate audit_log']) {
      await expect(sql(attempt)).rejects.toThrow('append-only');
    }
    expect((await sql('select * from audit_log order by audit_id')).rows).toEqual(before);
  });
});

describe('redemptions', () => {
  const get = (product: string, query = '', headers: Record<string, string> = {}): Promise<Answer> =>
    operator.call('GET', `/admin/campaigns/${product}/redemptions${query}`, undefined, headers);

  test('come in pages of JSON, in the order in which they were made, each once', async () => {
    const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900 });
    const shoppers = gatherShoppers(service.url, product, 5);
    const ids = (await checkoutInTurn(shoppers)).map(({ data }) => String(data.reservation_id));
    await payments.confirm(String(ids[0]), 'pay-77');
    await payments.release(String(ids[1]), 'changed their mind');
    await until('Postgres has it', async () => (await get(product)).text.includes('changed their mind'));
    await until('Postgres has it', async () => (await get(product)).text.includes('pay-77'));

    const rows: Record<string, unknown>[] = [];
    const sizes: number[] = [];
    let cursor: unknown = '';
    while (cursor !== null && sizes.length < 5) {
      const { body } = await get(product, `?limit=2${cursor ? `&cursor=${cursor}` : ''}`);
      const page = body.data as Record<string, unknown>[];
      rows.push(...page);
      sizes.push(page.length);
      cursor = body.next_cursor;
    }
    expect(sizes).toEqual([2, 2, 1]);
    expect(rows.map(({ redemption_id }) => redemption_id)).toEqual(ids);
    expect(rows.map(({ user_id }) => user_id)).toEqual(shoppers.map(({ user }) => user));
    expect(rows.map(({ status }) => status)).toEqual(['redeemed', 'released', 'reserved', 'reserved', 'reserved']);
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    expect(rows[0]).toMatchObject({
      qty: 1,
      reserved_at: time,
      redeemed_at: time,
      released_at: null,
      payment_ref: 'pay-77',
    });
    expect(rows[1]).toMatchObject({ redeemed_at: null, released_at: time, reason: 'changed their mind' });
  });

  test('that are promised between two pages come after the cursor, also those of users who waited', async () => {
    const waiting_room = { enabled: true, presence_seconds: 1 };
    const product = await operator.openCampaign({ total_limit: 2, hold_seconds: 900, waiting_room });
    const [first, second, away, present] = gatherShoppers(service.url, product, 4) as [
      Shopper,
      Shopper,
      Shopper,
      Shopper,
    ];
    const held = await checkoutInTurn([first, second]);
    await checkoutInTurn([away, present]);
    const pollBy = (shopper: Shopper) => shopper.queueStatus({ 'x-ticket': String(shopper.ticket) });
    await until('the first in line is absent', async () => (await pollBy(present)).data.position === 1);
    await payments.release(String(held[0]?.data.reservation_id));
    const usersOf = async (query: string) => {
      const { body } = await get(product, query);
      return { users: (body.data as Record<string, unknown>[]).map(({ user_id }) => user_id), next: body.next_cursor };
    };
    await until('the unit is promised', async () => (await usersOf('')).users.includes(present.user));
    const { users, next } = await usersOf('?limit=3');
    await pollBy(away);
    await payments.release(String(held[1]?.data.reservation_id));
    await until('the other unit is promised', async () => (await usersOf('')).users.includes(away.user));
    expect(users).toEqual([first.user, second.user, present.user]);
    expect(await usersOf(`?limit=3&cursor=${next}`)).toEqual({ users: [away.user], next: null });
  });

  test('come as CSV, by query and by Accept, with every row of the campaign', async () => {
    const product = await operator.openCampaign({ total_limit: 3, hold_seconds: 0 });
    const ids = (await checkoutInTurn(gatherShoppers(service.url, product, 3))).map(({ data }) =>
      String(data.reservation_id),
    );
    await expectInPostgres(service, ids);
    const byQuery = await get(product, '?format=csv');
    const byAccept = await get(product, '', { accept: 'text/csv' });
    expect(byQuery.text).toBe(byAccept.text);
    expect(byQuery.headers.get('content-type')).toMatch(/^text\/csv/);
    expect(byQuery.headers.get('content-disposition')).toMatch(/attachment; filename=".+\.csv"/);
    const [header, ...lines] = byQuery.text.trim().split('\n');
    expect(header?.split(',').slice(0, 5)).toEqual(['redemption_id', 'user_id', 'order_id', 'qty', 'status']);
    expect(lines.map((line) => line.split(',')[0])).toEqual(ids);
    expect(lines.map((line) => line.split(',')[4])).toEqual(['redeemed', 'redeemed', 'redeemed']);
  });

  test('as CSV cannot break out of a cell or become a formula', async () => {
    const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900 });
    const reasons = ['=HYPERLINK("http://evil")', 'a,b', 'say "no"', '@cmd', '-1+1'];
    for (const reason of reasons) {
      const bought = await arrive(service.url, product).checkout();
      await payments.release(String(bought.data.reservation_id), reason);
    }
    await expectRows(service, product, { released: 5 });
    const lines = (await get(product, '?format=csv')).text.trim().split('\n').slice(1);
    expect(lines).toHaveLength(5);
    const cells = lines.map((line) => /,(?:"((?:[^"]|"")*)"|([^,"]*)),[^,]*(?:,0){3}$/.exec(line));
    expect(cells.map((match) => (match?.[1] ?? match?.[2])?.replaceAll('""', '"').replace(/^'/, ''))).toEqual(reasons);
    for (const match of cells) expect(match?.[1] ?? match?.[2]).not.toMatch(/^[=@+-]/);
  });

  test('with a bad limit, cursor or format are 400', async () => {
    const product = await operator.openCampaign();
    for (const query of [
      '?limit=0',
      '?limit=1001',
      '?limit=x',
      '?limit=1&limit=2',
      '?cursor=1',
      '?cursor=%00',
      '?cursor=99999999999999999-0198f1c8-0000-7000-8000-000000000000',
      '?cursor=0198f1c8-0000-7000-8000-000000000000',
      '?format=xml',
    ]) {
      expectProblem(await get(product, query), 400, 'invalid_request');
    }
  });
});
