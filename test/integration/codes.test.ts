import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import type { Code } from '../../shared/domain/codes.js';
import { Metrics } from '../../shared/observability/metrics.js';
import { CodeJobs } from '../../shared/postgres/code-jobs.js';
import { CodesTable } from '../../shared/postgres/codes.js';
import { CodeNotifications } from '../../shared/redis/code-notifications.js';
import { type IssueDeps, issueCodes, resumeLeftJobs } from '../../worker/codes/issue-codes.js';
import { startPersistence } from '../harness/persistence.js';
import { recordingLog } from '../harness/recording-log.js';
import { startSale } from '../harness/sale.js';
import { until } from '../harness/until.js';

const sale = await startSale();
const store = await startPersistence(sale);
const codes = new CodesTable(store.database);
const jobs = new CodeJobs(store.database);

const LIMITS: IssueDeps['limits'] = {
  perCampaign: 1_000_000,
  chunk: 100,
  runMs: 20_000,
  jobErrors: 5,
  leftIdleMs: 0,
};

function parts(
  changed: Partial<IssueDeps['limits']> = {},
  news?: CodeNotifications,
  otherRegionOf: IssueDeps['otherRegionOf'] = () => null,
) {
  const again: string[] = [];
  return {
    database: store.database,
    jobs,
    codes,
    news: news ?? new CodeNotifications(sale.redis, { announced: 30, settleMs: 0 }),
    lastNoInRedis: async () => 0,
    issued: async () => {},
    again: async (jobId: string) => void again.push(jobId),
    runs: again,
    otherRegionOf,
    metrics: new Metrics(false),
    log: recordingLog(),
    limits: { ...LIMITS, ...changed },
  };
}

const openCampaign = async () => (await store.storeCampaign()).terms.id as string;

async function ask(campaignId: string, total: number, form: { prefix?: string; symbols?: number } = {}) {
  const job = { id: randomUUID(), campaignId, kind: 'generate' as const, total, prefix: '', symbols: 12, ...form };
  await jobs.insert(job, 'tester', store.database);
  return job.id;
}

async function send(campaignId: string, lines: readonly (string | [string, string])[], bad = 0): Promise<string> {
  const id = randomUUID();
  const rows = lines.map((line, i) => {
    const [code, user] = typeof line === 'string' ? [line, '\\N'] : line;
    return `${id}\t${i + 1}\t${code}\t${user}\n`;
  });
  const errors = bad === 0 ? [] : [{ line: lines.length + 1, detail: 'bad' }];
  await jobs.upload(
    { id, campaignId },
    'tester',
    (async function* () {
      yield* rows;
    })(),
    () => ({ total: lines.length, badLines: bad, errors }),
    async () => {},
  );
  return id;
}

async function numbersOf(campaignId: string): Promise<number[]> {
  const { rows } = await store.sql.query('select code_no from codes where campaign_id = $1 order by code_no', [
    campaignId,
  ]);
  return rows.map(({ code_no }) => code_no);
}
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i + 1);
const read = async (campaignId: string, id: string) => {
  const job = await jobs.find(campaignId, id);
  if (!job) throw new Error('the job is gone');
  return job;
};
const staged = async (id: string) =>
  Number((await store.sql.query('select count(*) from code_staging where job_id = $1', [id])).rows[0].count);

describe('making codes', () => {
  test('makes exactly as many as were asked for, numbered without a gap', async () => {
    const campaign = await openCampaign();
    const id = await ask(campaign, 250, { prefix: 'SUMMER' });
    await issueCodes(id, parts());
    expect(await read(campaign, id)).toMatchObject({ status: 'done', processed: 250, added: 250, duplicates: 0 });
    expect(await numbersOf(campaign)).toEqual(upTo(250));
    const { rows } = await store.sql.query('select code from codes where campaign_id = $1', [campaign]);
    expect(rows.every(({ code }) => /^SUMMER[2-9A-Z]{12}$/.test(code))).toBe(true);
  });

  test('gives no number again that Redis knows of a code that Postgres has lost', async () => {
    const campaign = await openCampaign();
    const id = await ask(campaign, 3);
    await issueCodes(id, { ...parts(), lastNoInRedis: async () => 40 });
    expect(await numbersOf(campaign)).toEqual([41, 42, 43]);
  });

  test('imports no file to its end when Postgres has lost codes, which may be of this file and used', async () => {
    const campaign = await openCampaign();
    const file = await send(campaign, ['LOSTA', 'LOSTB', 'LOSTC']);
    // The first line was imported before the backup, and the second one since.
    await store.sql.query('update code_jobs set processed = 1, added = 1, last_line = 1 where job_id = $1', [file]);
    await store.sql.query(`insert into code_series values ($1, 1)`, [campaign]);
    await store.sql.query(`insert into codes values ('LOSTA', $1, 1)`, [campaign]);
    await issueCodes(file, { ...parts(), lastNoInRedis: async () => 2 });
    expect(await numbersOf(campaign)).toEqual([1]);
    expect(await read(campaign, file)).toMatchObject({ status: 'failed', processed: 1, added: 1 });
    expect((await read(campaign, file)).failure).toContain('set back');
    expect(await staged(file)).toBe(0);
    await issueCodes(await ask(campaign, 2), { ...parts(), lastNoInRedis: async () => 2 });
    expect(await numbersOf(campaign)).toEqual([1, 3, 4]);
  });

  test('issues no code of another region: it draws others, and reports the lines of a file', async () => {
    const campaign = await openCampaign();
    const otherRegionOf = (code: string) => (/[2-9]$/.test(code) ? 'us' : null);
    const id = await ask(campaign, 250);
    await issueCodes(id, parts({}, undefined, otherRegionOf));
    expect(await read(campaign, id)).toMatchObject({ status: 'done', processed: 250, added: 250 });
    const { rows } = await store.sql.query('select code from codes where campaign_id = $1', [campaign]);
    expect(rows.filter(({ code }) => otherRegionOf(code) !== null)).toEqual([]);
    const file = await send(campaign, ['OWNA', 'OTHER2']);
    await issueCodes(file, parts({}, undefined, otherRegionOf));
    expect(await read(campaign, file)).toMatchObject({
      ...{ added: 1, badLines: 1, duplicates: 0 },
      errors: [{ line: 2, detail: 'the code belongs to region us; import it there' }],
    });
  });

  test('makes all codes although most of the drawn ones exist already', async () => {
    const campaign = await openCampaign();
    // 30 × 30 × 30 / 37 codes of three symbols, about 729.
    const id = await ask(campaign, 600, { prefix: 'TIGHT', symbols: 3 });
    await issueCodes(id, parts());
    expect(await read(campaign, id)).toMatchObject({ status: 'done', processed: 600, added: 600 });
    expect(await numbersOf(campaign)).toEqual(upTo(600));
  });

  test('goes on where a run has ended, and two runs at once are one', async () => {
    const campaign = await openCampaign();
    const id = await ask(campaign, 1_000);
    const short = parts({ runMs: 0 });
    await issueCodes(id, short);
    expect(short.runs).toEqual([id]);
    expect(await read(campaign, id)).toMatchObject({ status: 'running', processed: 100 });
    const found = parts();
    await resumeLeftJobs(found);
    expect(found.runs).toContain(id);
    await Promise.all([issueCodes(id, parts()), issueCodes(id, parts()), issueCodes(id, parts())]);
    // Those that found it taken have ended; the last one to hold it has finished it.
    expect(await read(campaign, id)).toMatchObject({ status: 'done', processed: 1_000, added: 1_000 });
    expect(await numbersOf(campaign)).toEqual(upTo(1_000));
    await issueCodes(id, parts());
    expect(await numbersOf(campaign)).toEqual(upTo(1_000));
    const after = parts();
    await resumeLeftJobs(after);
    expect(after.runs).toEqual([]);
  });

  test('numbers without a gap when several jobs fill one campaign', async () => {
    const campaign = await openCampaign();
    const ids = await Promise.all([ask(campaign, 300), ask(campaign, 300), ask(campaign, 300)]);
    const imported = await send(
      campaign,
      upTo(300).map((n) => `MIXED${n}`),
    );
    await Promise.all([...ids, imported].map((id) => issueCodes(id, parts())));
    expect(await numbersOf(campaign)).toEqual(upTo(1_200));
  });

  test('stops at the limit of a campaign', async () => {
    const campaign = await openCampaign();
    const id = await ask(campaign, 500);
    await issueCodes(id, parts({ perCampaign: 150 }));
    expect(await read(campaign, id)).toMatchObject({ status: 'failed', processed: 150, added: 150, failure: /./ });
    expect(await numbersOf(campaign)).toEqual(upTo(150));
  });

  test('commits nothing when the filters cannot be notified', async () => {
    const campaign = await openCampaign();
    const id = await ask(campaign, 50);
    const away = sale.redis.duplicate();
    away.disconnect();
    const deaf = new CodeNotifications(away, { announced: 30, settleMs: 0 });
    await expect(issueCodes(id, parts({}, deaf))).rejects.toMatchObject({ name: 'EngineUnavailable' });
    expect(await numbersOf(campaign)).toEqual([]);
    expect(await read(campaign, id)).toMatchObject({ status: 'waiting', processed: 0 });
  });
});

describe('importing codes', () => {
  test('takes what is new, in the order of the file, and names the rest by line', async () => {
    const [shared, other, campaign] = [await openCampaign(), await openCampaign(), await openCampaign()];
    await codes.insertShared(shared, 'EVERYBODY' as Code, store.database);
    await issueCodes(await send(other, ['OTHER1', 'OTHER2']), parts());
    await issueCodes(await send(campaign, ['MINE1']), parts());
    const id = await send(campaign, ['NEW1', 'MINE1', 'OTHER2', 'EVERYBODY', ['NEW2', 'u2'], 'NEW1', 'NEW3'], 1);
    await issueCodes(id, parts({ chunk: 3 }));
    const same = 'a duplicate: the file or the campaign has it already';
    expect(await read(campaign, id)).toMatchObject({
      status: 'done',
      total: 7,
      processed: 7,
      added: 3,
      duplicates: 4,
      badLines: 1,
      errors: [
        { line: 2, detail: same },
        { line: 3, detail: 'a duplicate: another campaign has it' },
        { line: 4, detail: 'a duplicate: it is the code of a shared campaign' },
        { line: 6, detail: same },
        { line: 8, detail: 'bad' },
      ],
    });
    const { rows } = await store.sql.query(
      'select code, code_no, user_id from codes where campaign_id = $1 order by code_no',
      [campaign],
    );
    expect(rows.map(({ code, code_no, user_id }) => [code, code_no, user_id])).toEqual([
      ['MINE1', 1, null],
      ['NEW1', 2, null],
      ['NEW2', 3, 'u2'],
      ['NEW3', 4, null],
    ]);
    expect(await staged(id)).toBe(0);
  });

  test('names the lowest lines that were not taken, and counts all', async () => {
    const campaign = await openCampaign();
    const id = await send(campaign, [...upTo(20).map((n) => `LOW${n}`), ...upTo(20).map((n) => `LOW${n}`)]);
    await issueCodes(id, parts());
    const job = await read(campaign, id);
    expect([job.added, job.duplicates, job.errors.map(({ line }) => line)]).toEqual([20, 20, [21, 22, 23, 24, 25]]);
  });

  test('takes what there is room for and names the rest', async () => {
    const campaign = await openCampaign();
    const id = await send(campaign, ['ROOM1', 'ROOM2', 'ROOM3', 'ROOM4']);
    await issueCodes(id, parts({ perCampaign: 3 }));
    const job = await read(campaign, id);
    expect([job.status, job.added, job.badLines, job.errors.map(({ line }) => line)]).toEqual(['done', 3, 1, [4]]);
  });

  test('gives a code to one of two campaigns whose files have it, in either order', async () => {
    const campaigns = await Promise.all([openCampaign(), openCampaign()]);
    const file = upTo(400).map((n) => `RACE${n}`);
    const ids = await Promise.all(campaigns.map((campaign, i) => send(campaign, i === 0 ? file : [...file].reverse())));
    await until('both files are worked off', async () => {
      // One may meet what the other has just committed; the queue runs it again then.
      await Promise.allSettled(ids.map((id) => issueCodes(id, parts({ chunk: 50 }))));
      const states = await Promise.all(ids.map((id, i) => read(String(campaigns[i]), id)));
      return states.every(({ status }) => status === 'done');
    });
    const [a, b] = await Promise.all(ids.map((id, i) => read(String(campaigns[i]), id)));
    expect([a!.added + b!.added, a!.duplicates + b!.duplicates]).toEqual([400, 400]);
    for (const [i, job] of [a!, b!].entries()) expect(await numbersOf(String(campaigns[i]))).toEqual(upTo(job.added));
  });

  test('leaves nothing of an upload that breaks off', async () => {
    const campaign = await openCampaign();
    const id = randomUUID();
    const broken = jobs.upload(
      { id, campaignId: campaign },
      'tester',
      (async function* () {
        yield `${id}\t1\tBROKEN1\t\\N\n`;
        throw new Error('the client is gone');
      })(),
      () => ({ total: 1, badLines: 0, errors: [] }),
      async () => {},
    );
    await expect(broken).rejects.toThrow('the client is gone');
    expect([await jobs.find(campaign, id), await staged(id)]).toEqual([null, 0]);
  });
});

test('finds codes of all campaigns at once', async () => {
  const campaign = await openCampaign();
  await issueCodes(await send(campaign, ['FIND1', ['FIND2', 'u2']] satisfies (string | [string, string])[]), parts());
  await codes.insertShared(campaign, 'FIND0' as Code, store.database);
  const no = (await store.campaigns.find(campaign))?.no;
  const found = await codes.find(['FIND2', 'NOTHERE', 'FIND1', 'FIND0'] as Code[]);
  expect(Object.fromEntries(found)).toEqual({
    FIND0: { campaignId: campaign, campaignNo: no, codeNo: 0, userId: null },
    FIND1: { campaignId: campaign, campaignNo: no, codeNo: 1, userId: null },
    FIND2: { campaignId: campaign, campaignNo: no, codeNo: 2, userId: 'u2' },
  });
  expect(await codes.insertShared(campaign, 'FIND1' as Code, store.database)).toBe(false);
});
