import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import { expectProblem, pointersOf } from '../harness/checks.js';
import { atEnd } from '../harness/cleanup.js';
import { type Answer, Operator, send, sendOnce } from '../harness/clients.js';
import { ADMIN_SECRET, SERVICE_SECRET, startApiProcess, startService, startWorkerProcess } from '../harness/service.js';
import { until } from '../harness/until.js';

type Body = string | ReadableStream;

const service = await startService();
const operator = new Operator(service.url);
const sql = (text: string, values: unknown[] = []) => service.database.client.query(text, values);
const admin = { authorization: `Bearer ${ADMIN_SECRET}` };

const pathOf = (product: string) => `/admin/campaigns/${product}/codes`;
const open = (terms: Record<string, unknown> = {}) => operator.openCampaign({ type: 'unique', ...terms });
const generate = (product: string, body: unknown) => operator.call('POST', pathOf(product), body);
const exportOf = async (product: string) => (await operator.call('GET', pathOf(product))).text;

function upload(product: string, body: Body, headers: Record<string, string> = {}): Promise<Answer> {
  return send(service.url + pathOf(product), {
    method: 'POST',
    headers: { ...admin, 'content-type': 'text/csv', ...headers },
    body,
    ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
  } as RequestInit);
}

async function finished(asked: Answer): Promise<Record<string, any>> {
  expect([asked.status, asked.text]).toEqual([202, asked.text]);
  const location = String(asked.headers.get('location'));
  return until('the job is over', async () => {
    const { data } = await operator.call('GET', location);
    return data.status === 'done' || data.status === 'failed' ? data : null;
  });
}

async function stored(product: string): Promise<{ code: string; code_no: number; user_id: string | null }[]> {
  const { rows } = await sql(
    'select c.code, code_no, c.user_id from codes c join campaigns using (campaign_id) where product_id = $1 order by code_no',
    [product],
  );
  return rows;
}

/** Sends the head of an upload and the bytes that follow, over a connection of its own. */
async function beginUpload(product: string, bytes: string, url = service.url) {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  socket.on('error', () => {
    // Its server may be killed.
  });
  atEnd('a socket', () => void socket.destroy());
  socket.write(
    `POST ${pathOf(product)} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ADMIN_SECRET}\r\nContent-Type: text/csv\r\nContent-Length: 100000000\r\n\r\n${bytes}`,
  );
  return socket;
}

const transfers = async () =>
  (
    await sql(
      "select pid from pg_stat_activity where datname = current_database() and application_name = 'doorbuster-api-transfers' and state <> 'idle'",
    )
  ).rows.length;

async function leftovers(product: string): Promise<{ lines: number; jobs: number }> {
  const { rows } = await sql(
    `select (select count(*)::int from code_staging) as lines,
       (select count(*)::int from code_jobs join campaigns using (campaign_id) where product_id = $1) as jobs`,
    [product],
  );
  return rows[0];
}

describe('codes', () => {
  test('are generated, and the export of one campaign is the import of another installation', async () => {
    const product = await open();
    const job = await finished(await generate(product, { count: 3_000, prefix: 'summer-26' }));
    expect(job).toMatchObject({
      kind: 'generate',
      status: 'done',
      total: 3_000,
      processed: 3_000,
      progress: 1,
      added: 3_000,
      duplicates: 0,
      bad_lines: 0,
      errors: [],
      errors_omitted: 0,
    });
    const codes = await stored(product);
    expect(codes.map(({ code_no }) => code_no)).toEqual(Array.from({ length: 3_000 }, (_, i) => i + 1));
    expect(codes.every(({ code }) => /^SUMMER26[2-9A-HJKMNP-TV-Z]{10}$/.test(code))).toBe(true);

    const exported = await operator.call('GET', pathOf(product));
    expect(exported.headers.get('content-type')).toBe('text/csv; charset=utf-8');
    expect(exported.headers.get('content-disposition')).toMatch(/^attachment; filename="codes-sale-/);
    expect(exported.text).toBe(`code,user_id\n${codes.map(({ code }) => `${code},\n`).join('')}`);

    // Elsewhere: here a code is issued once.
    await sql('delete from codes where campaign_id = (select campaign_id from campaigns where product_id = $1)', [
      product,
    ]);
    const elsewhere = await open();
    expect(await finished(await upload(elsewhere, exported.text))).toMatchObject({ added: 3_000, errors: [] });
    expect(await exportOf(elsewhere)).toBe(exported.text);
  });

  test('are imported from a file with everything that can be wrong, and each bad line is named', async () => {
    const shared = `SHARED-${randomUUID().slice(0, 8)}`;
    await operator.openCampaign({ code: shared });
    const other = await open();
    await finished(await upload(other, 'OTHER-1'));
    const product = await open();
    await finished(await upload(product, 'MINE-1'));
    const file = Buffer.concat([
      Buffer.from('\ufeffcode,user_id\r\n'),
      Buffer.from('good-1,user:1\r\n"GOOD 2",""\n\n"good3" , "user3"\n'), // 2, 3, (4), 5
      Buffer.from('GOOD1\nmine1\nOTHER1\n'), // 6, 7, 8
      Buffer.from(`${shared.toLowerCase()}\n`), // 9
      Buffer.from([0x47, 0xd6, 0x0a]), // 10
      Buffer.from('GÖ\n=cmd\nA,b,c\n"open\nX,bad user\n,user\n'), // 11 to 16
      Buffer.alloc(3_000_000, 'A'), // 17
      Buffer.from('\ngood4'), // 18
    ]);
    const job = await finished(await upload(product, new Blob([file]).stream()));
    expect(job).toMatchObject({ status: 'done', total: 8, processed: 8, added: 4, duplicates: 4, bad_lines: 8 });
    expect(job.errors.map(({ line, detail }: any) => [line, detail])).toEqual([
      [6, expect.stringMatching(/file or the campaign/)],
      [7, expect.stringMatching(/file or the campaign/)],
      [8, expect.stringMatching(/another campaign/)],
      [9, expect.stringMatching(/shared/)],
      [10, expect.stringMatching(/UTF-8/)],
      [11, expect.stringMatching(/letters/)],
      [12, expect.stringMatching(/letters/)],
      [13, expect.stringMatching(/columns/)],
      [14, expect.stringMatching(/quotes/)],
      [15, expect.stringMatching(/user_id/)],
      [16, expect.stringMatching(/empty/)],
      [17, expect.stringMatching(/longer/)],
    ]);
    expect(await exportOf(product)).toBe('code,user_id\nMINE1,\nGOOD1,user:1\nGOOD2,\nGOOD3,user3\nGOOD4,\n');
    expect((await sql('select count(*)::int as lines from code_staging')).rows).toEqual([{ lines: 0 }]);
  });

  test('of a pool are bound to no user', async () => {
    const product = await open({ type: 'pool' });
    const job = await finished(await upload(product, 'POOL1,u1\nPOOL2\n'));
    expect([job.added, job.bad_lines, job.errors[0].line]).toEqual([1, 1, 1]);
  });

  test('survive kill -9 of the worker during a job: no code is issued twice, skipped or counted twice', async () => {
    const product = await open();
    const lines = 110_000;
    const text = Array.from({ length: lines }, (_, i) => `KILL${i % 100_000}`).join('\n');
    const asked = await upload(product, text);
    const location = String(asked.headers.get('location'));
    await until('the job is under way', async () => (await operator.call('GET', location)).data.processed > 0);
    await service.worker.kill();
    const { data } = await operator.call('GET', location);
    expect([data.status, data.processed < lines]).toEqual(['running', true]);
    service.worker = await startWorkerProcess(service.env);
    expect(await finished(asked)).toMatchObject({
      total: lines,
      processed: lines,
      added: 100_000,
      duplicates: 10_000,
      errors_omitted: 9_900,
    });
    const { rows } = await sql(
      `select count(*)::int, min(code_no), max(code_no) from codes join campaigns using (campaign_id) where product_id = $1`,
      [product],
    );
    expect(rows).toEqual([{ count: 100_000, min: 1, max: 100_000 }]);
  });

  test('are generated by a worker although Redis has lost their job', async () => {
    const product = await open();
    const { rows } = await sql(
      `insert into code_jobs (job_id, campaign_id, kind, total, symbols, created_by, updated_at)
       select gen_random_uuid(), campaign_id, 'generate', 50, 12, 'tester', now() - interval '1 minute' from campaigns
       where product_id = $1 returning job_id`,
      [product],
    );
    await until('it is done', async () => {
      const { data } = await operator.call('GET', `${pathOf(product)}/jobs/${rows[0].job_id}`);
      return data.status === 'done' && data.added === 50;
    });
  });
});

describe('an upload', () => {
  test('that breaks off leaves nothing', async () => {
    const product = await open();
    const socket = await beginUpload(product, 'LEFT1\nLEFT2\n'.repeat(20_000));
    await until('Postgres takes it', async () => (await transfers()) === 1);
    socket.destroy();
    await until('the connection is given back', async () => (await transfers()) === 0);
    expect(await leftovers(product)).toEqual({ lines: 0, jobs: 0 });
    await finished(await upload(product, 'LEFT1\n'));
  });

  test('leaves nothing when the API is killed in the middle of it', async () => {
    const product = await open();
    const { process: api, url } = await startApiProcess(service.env);
    await beginUpload(product, 'KILLED1\nKILLED2\n'.repeat(20_000), url);
    await until('Postgres takes it', async () => (await transfers()) === 1);
    await api.kill();
    await until('Postgres has noticed', async () => (await transfers()) === 0);
    expect(await leftovers(product)).toEqual({ lines: 0, jobs: 0 });
  });

  test('gets Retry-After while the maximum number of uploads is under way', async () => {
    const product = await open();
    const sockets = [];
    for (let i = 0; i < 4; i += 1) sockets.push(await beginUpload(product, 'BUSY1\n'.repeat(10_000)));
    await until('all connections are taken', async () => (await transfers()) === 4);
    const refused = await upload(product, 'BUSY2');
    expectProblem(refused, 503, 'temporarily_unavailable');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    for (const socket of sockets) socket.destroy();
    await until('they are given back', async () => (await transfers()) === 0);
    expect(await finished(await upload(product, 'BUSY2'))).toMatchObject({ added: 1 });
  });

  test.each<[string, Body, Record<string, string>, number, string]>([
    ['that is empty', '', {}, 400, 'invalid_request'],
    ['of a header alone', 'code,user_id\n', {}, 400, 'invalid_request'],
    ['in another encoding', 'A1', { 'content-type': 'text/csv; charset=utf-16' }, 415, 'unsupported_media_type'],
    ['that is compressed', 'A1', { 'content-encoding': 'gzip' }, 415, 'unsupported_media_type'],
    ['of another type', 'A1', { 'content-type': 'text/plain' }, 415, 'unsupported_media_type'],
    ['of a form', 'A1', { 'content-type': 'multipart/form-data; boundary=x' }, 415, 'unsupported_media_type'],
    [
      'of JSON beyond 16 KiB',
      `{"a":"${'x'.repeat(17_000)}"}`,
      { 'content-type': 'application/json' },
      413,
      'body_too_large',
    ],
    ['without a key', 'A1', { authorization: '' }, 401, 'unauthorized'],
    ['with the key of a service', 'A1', { authorization: `Bearer ${SERVICE_SECRET}` }, 403, 'forbidden'],
  ])('%s is refused', async (_what, body, headers, status, code) => {
    const product = await open();
    expectProblem(await upload(product, body, headers), status, code);
    expect(await stored(product)).toEqual([]);
  });

  test('larger than 16 KiB is taken', async () => {
    const product = await open();
    const text = `${Array.from({ length: 5_000 }, (_, i) => `LARGE${i}`).join('\n')}\n`;
    expect(await finished(await upload(product, text))).toMatchObject({ added: 5_000, bad_lines: 0 });
    expect(await exportOf(product)).toBe(`code,user_id\n${text.replaceAll('\n', ',\n')}`);
  });
});

test('an export has no cell that is a formula, and its import restores the users', async () => {
  const [product, elsewhere] = [await open(), await open()];
  const text = 'code,user_id\nFORMULA1,@SUM\nFORMULA2,-cmd\nFORMULA3,a-b@c\nFORMULA4,\n';
  expect(await finished(await upload(product, text))).toMatchObject({ added: 4, errors: [] });
  const users = (await stored(product)).map(({ user_id }) => user_id);
  expect(users).toEqual(['@SUM', '-cmd', 'a-b@c', null]);
  const exported = await exportOf(product);
  expect(exported).toBe("code,user_id\nFORMULA1,'@SUM\nFORMULA2,'-cmd\nFORMULA3,a-b@c\nFORMULA4,\n");
  await sql("delete from codes where code like 'FORMULA%'");
  expect(await finished(await upload(elsewhere, exported))).toMatchObject({ added: 4, errors: [] });
  expect((await stored(elsewhere)).map(({ user_id }) => user_id)).toEqual(users);
  expect(await exportOf(elsewhere)).toBe(exported);
});

test('an export follows the pace of its reader: a stopped reader costs no memory, a closed one frees its connection', async () => {
  const product = await open();
  // 33 MB, more than the buffers of any socket.
  await sql(
    `insert into codes (code, campaign_id, code_no)
     select 'EXPORT' || lpad(n::text, 58, '0'), campaign_id, n from generate_series(1, 500000) n, campaigns where product_id = $1`,
    [product],
  );
  const rssKiB = () => Number(execFileSync('ps', ['-o', 'rss=', '-p', String(service.api.pid)]));
  const before = rssKiB();
  const { hostname, port } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  atEnd('a socket', () => void socket.destroy());
  socket.pause();
  socket.write(`GET ${pathOf(product)} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ADMIN_SECRET}\r\n\r\n`);
  const isWaiting = async () =>
    (
      await sql(
        "select 1 from pg_stat_activity where datname = current_database() and application_name = 'doorbuster-api-transfers' and wait_event = 'ClientWrite'",
      )
    ).rows.length === 1;
  await until('Postgres waits for the reader', isWaiting);
  expect(rssKiB() - before).toBeLessThan(20_000);
  socket.destroy();
  await until('the connection is given back', async () => (await transfers()) === 0);
});

describe('refusals', () => {
  test('a shared campaign has one code, a closed one gets none', async () => {
    const shared = await operator.openCampaign();
    expectProblem(await generate(shared, { count: 1 }), 409, 'campaign_conflict');
    expectProblem(await upload(shared, 'A1'), 409, 'campaign_conflict');
    const closed = await open();
    await operator.call('POST', `/admin/campaigns/${closed}/close`);
    expectProblem(await generate(closed, { count: 1 }), 409, 'campaign_conflict');
  });

  test('unknown campaigns and jobs are 404, other methods 405', async () => {
    const product = await open();
    expectProblem(await generate('nothing', { count: 1 }), 404, 'campaign_not_found');
    expectProblem(await upload('nothing', 'A1'), 404, 'campaign_not_found');
    expectProblem(await operator.call('GET', pathOf('nothing')), 404, 'campaign_not_found');
    const jobs = `${pathOf(product)}/jobs`;
    expectProblem(await operator.call('GET', `${jobs}/${randomUUID()}`), 404, 'code_job_not_found');
    expectProblem(await operator.call('GET', `${jobs}/x`), 400, 'invalid_request');
    const wrong = await operator.call('DELETE', pathOf(product));
    expectProblem(wrong, 405, 'method_not_allowed');
    expect(wrong.headers.get('allow')).toBe('POST, GET, HEAD');
    for (const path of [pathOf(product), `${jobs}/${randomUUID()}`])
      expectProblem(await send(service.url + path), 401, 'unauthorized');
  });

  test.each([
    [{}, '#/count'],
    [{ count: 0 }, '#/count'],
    [{ count: 1.5 }, '#/count'],
    [{ count: '5' }, '#/count'],
    [{ count: 20_000_001 }, '#/count'],
    [{ count: 1, prefix: 'Ä' }, '#/prefix'],
    [{ count: 1, prefix: 'A'.repeat(17) }, '#/prefix'],
    [{ count: 1, prefix: 7 }, '#/prefix'],
  ])('%j is 400 and says where', async (body, pointer) => {
    const refused = await generate(await open(), body);
    expectProblem(refused, 400, 'invalid_request');
    expect(pointersOf(refused)).toEqual([pointer]);
  });

  test('more codes than the campaign has room for are 409', async () => {
    const product = await open();
    await sql('insert into code_series select campaign_id, 19999999 from campaigns where product_id = $1', [product]);
    expectProblem(await generate(product, { count: 2 }), 409, 'codes_limit');
    await sql('delete from code_series where last_no = 19999999');
  });

  test('a code is issued once, also to a new shared campaign, and after the end of the first', async () => {
    const code = `once-${randomUUID().slice(0, 8)}`;
    const first = await operator.openCampaign({ code });
    await operator.call('POST', `/admin/campaigns/${first}/close`);
    const create = (terms: object) =>
      operator.call('POST', '/admin/campaigns', { product_id: `sale-${randomUUID()}`, total_limit: null, ...terms });
    expectProblem(await create({ code: code.toUpperCase().replace('-', ' ') }), 409, 'code_taken');
    const product = await open();
    await finished(await upload(product, 'UNIQUE-OF-ITS-OWN'));
    expectProblem(await create({ code: 'unique of its own' }), 409, 'code_taken');
    const many = await Promise.all(Array.from({ length: 5 }, () => create({ code: `${code}-b` })));
    expect(many.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409]);
    for (const terms of [{ code: 'a_b' }, { code: '' }, { code: 'САLЕ' }, { code: 'X1', type: 'pool' }]) {
      const refused = await create(terms);
      expectProblem(refused, 400, 'invalid_request');
      expect(pointersOf(refused)).toEqual(['#/code']);
    }
  });

  test('eight shared campaigns are created at once, and none waits for the code of another one', async () => {
    // One after another, they would wait 4 s for their announcements, and Postgres cancels a statement after 1.5 s.
    const answers = await Promise.all(
      Array.from({ length: 8 }, () =>
        sendOnce(`${service.url}/admin/campaigns`, {
          ...{ method: 'POST', headers: admin },
          json: { product_id: `sale-${randomUUID()}`, total_limit: null, code: `at-once-${randomUUID()}` },
        }),
      ),
    );
    expect(answers.map(({ status, text }) => (status === 201 ? status : text))).toEqual(Array(8).fill(201));
  });
});
