import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { readmeFigures, redisFigure, withFigures } from '../../scripts/figures.mjs';
import { projectRoot } from '../../shared/config/project-root.js';

const read = (path: string) => readFileSync(join(projectRoot(), path), 'utf8');
const records = JSON.parse(read('loadtest/bench/record.json'));

describe('figures of documents', () => {
  test('are those of the record', () => {
    const checkout = {
      ...records['checkout-cpu'],
      per_second: 4321.9,
      redis_us: 90.1,
      date: '2027-01-02T03:04:05.000Z',
    };
    expect(readmeFigures({ ...records, 'checkout-cpu': checkout })).toContain(
      '| Confirmed checkouts | 4,320 a second,',
    );
    expect(readmeFigures({ ...records, 'checkout-cpu': checkout })).toContain('| 2 January 2027 |');
    expect(redisFigure({ 'checkout-cpu': checkout })).toContain(
      '**11,000 confirmed checkouts a second**: a confirmed checkout costs it 90.1 µs',
    );
  });

  test('of a benchmark without a record name the command that makes one', () => {
    expect(() => redisFigure({})).toThrow('record.json lacks checkout-cpu: run `npm run bench -- checkout-cpu`');
  });

  test('go between the two comments of a document, which has them once', () => {
    const text = 'a\n<!-- figures: x -->\nold\n<!-- /figures -->\nb\n';
    expect(withFigures(text, 'new')).toBe('a\n<!-- figures: x -->\nnew\n<!-- /figures -->\nb\n');
    for (const other of ['no place', text + text]) expect(() => withFigures(other, 'new')).toThrow('expected one');
  });
});

describe('the table of performance.md', () => {
  const text = read('docs/performance.md');
  const rows = new Map(
    [...text.matchAll(/^\| `?([a-z-]+)`? \| [^|]+ \| ([^|]+) \|/gm)].map(([, name, measured]) => [name, measured]),
  );
  const round = (value: number, digits = 0) =>
    value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const seconds = (ms: number, digits: number) => `${round(ms / 1_000, digits)} s`;
  /** Fragments of what is measured in a row, from its record. */
  const fragments: Record<string, (record: any) => string[]> = {
    'api-cpu': ({ ratio, api_us, reference_us, best_us }) => [
      `${round(ratio, 2)} × (${api_us} over ${reference_us} µs; the best rounds ${best_us[0]} over ${best_us[1]})`,
    ],
    throughput: ({ accepted_per_second, p50_ms, p99_ms, naive_per_second, ratio }) => [
      ...[round(accepted_per_second), `p50 ${p50_ms} ms, p99 ${round(p99_ms)} ms`],
      `made ${round(naive_per_second)} (${round(ratio, 1)} ×)`,
    ],
    refusals: ({ refused_per_second, p99_ms }) => [round(refused_per_second), `p99 ${round(p99_ms)} ms`],
    persistence: ({ oldest_unpersisted_s, rows_after_load_ms, bare_insert_ms, backlog_ms, backlog_ratio }) => [
      `nothing older than ${oldest_unpersisted_s} s at full load; all 10,000 rows ${rows_after_load_ms} ms after it`,
      ...[`takes ${bare_insert_ms} ms`, `${seconds(backlog_ms, 2)}, ${backlog_ratio} × the bare insert`],
    ],
    'promotion-latency': ({ p50_ms, p99_ms }) => [`p50 ${round(p50_ms, 1)} ms, p99 ${round(p99_ms)} ms`],
    'memory-per-user': (record) => [
      `${record.redis_bytes_per_waiting} B (a reservation ${record.redis_bytes_per_reservation} B)`,
      `${round(record.api_bytes_per_socket / 1_000, 1)} to`,
      `adds ${record.redis_bytes_per_idempotency_record} B`,
    ],
    growth: ({ ratio, redis_us: [few, many], many: people }) => [
      `${ratio} × in the API, ${round(many / few, 2)} × in Redis, with ${round(people)} of each`,
    ],
    opening: ({ confirmed, in_line, errors, last_answer_ms, ideal_ms }) => [
      `${round(confirmed)} confirmed, ${round(in_line)} in line, ${errors} errors`,
      `after ${seconds(last_answer_ms, 2)}; ideal ${seconds(ideal_ms, 2)}`,
    ],
    'unknown-codes': ({ megabytes, lookup_us }) => [`${megabytes} MB, ${lookup_us} µs`],
    'checkout-cpu': (record) => [
      `${round(record.total_us)} µs`,
      `API ${round(record.api_us)}, Redis ${round(record.redis_us)}, worker ${round(record.worker_us)}, Postgres ${round(record.postgres_us)};`,
      `${round(record.per_second)} a second, p50 ${round(record.p50_ms)} ms, p99 ${round(record.p99_ms)} ms, ${record.connections} connections`,
    ],
    'decision-cpu': ({ us_1, us_4, us_16, us_64 }) => [
      `${[us_1, us_4, us_16, us_64].map((us) => round(us)).join(', ')} µs`,
    ],
    'open-loop': ({ done_per_second, p50_ms, p99_ms }) => [
      `${round(done_per_second)} a second done, p50 ${p50_ms} ms, p99 ${round(p99_ms)} ms`,
    ],
    'cluster-nodes': ({ busiest_us: [one, two, three], rounds, busiest_over_mean, names_above }) => [
      `${round(one, 1)}, ${round(two, 1)} and ${round(three, 1)} µs`,
      `${{ 9: 'nine' }[rounds as 9]} rounds`,
      `${busiest_over_mean[1]} × and ${busiest_over_mean[2]} × the mean of two and of three`,
      ...[`${round(names_above[2] * 100)} % have`, `${round(names_above[1] * 100, 1)} % of two`],
    ],
    'idle-cpu': (record) => [
      `${round(record.total_ms_per_second)} ms a second: API ${round(record.api_ms_per_second)}, Redis ${round(record.redis_ms_per_second)}, worker ${round(record.worker_ms_per_second)}, Postgres ${round(record.postgres_ms_per_second)};`,
    ],
    buckets: (record) => [
      `given ${record.units_left_ms} ms after the last arrival; ${record.transfers_while_arriving} transfers while they arrive and ${record.transfers} for ${round(record.releases)} releases`,
      `given ${seconds(record.units_left_after_releases_ms, 1)} later`,
    ],
    polls: ({ api_us, redis_us }) => [`${api_us} and ${redis_us} µs`],
    views: ({ api_us, redis_us, cached_views_per_second, cached_requests }) => [
      `${api_us} and ${redis_us} µs`,
      `${round(Number(cached_views_per_second.toPrecision(3)))} views a second, of which ${cached_requests} requests`,
    ],
    restock: (record) => [
      `${seconds(record.all_promoted_after_ms, 1)} until the last`,
      `all of ${round(record.sockets)} sockets`,
      `p50 ${round(record.others_p50_ms)} ms, p99 ${round(record.others_p99_ms)} ms (before ${round(record.others_before_p99_ms)} ms)`,
    ],
    memory: ({ api_mb, worker_mb, growth, redis_mb, events }) => [
      `API ${api_mb.map((mb: number) => round(mb)).join(' → ')} MB and worker ${worker_mb.map((mb: number) => round(mb)).join(' → ')} MB`,
      `(${round(growth[0], 2)} and ${round(growth[1], 2)} ×)`,
      `Redis ${redis_mb.start} MB before, ${round(redis_mb.highest)} MB at its highest, ${redis_mb.end} MB afterwards, and ${round(events.mb)} MB`,
    ],
  };

  test.each(Object.keys(fragments))('has the figures of the record in the row %s', (name) => {
    for (const fragment of fragments[name]?.(records[name]) ?? []) expect(rows.get(name)).toContain(fragment);
  });

  test('has no other row of a benchmark', () => {
    expect([...rows.keys()].filter((name) => records[String(name)]).toSorted()).toEqual(
      Object.keys(fragments).toSorted(),
    );
  });

  test('names the day and revision, and each row that has another', () => {
    const [, day, revision, others = ''] = /^(\d+ \w+ \d+), revision (\w+) \(([^)]+)\)/m.exec(text) ?? [];
    const days = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'long', year: 'numeric', timeZone: 'UTC' });
    for (const name of Object.keys(fragments)) {
      const record = records[name];
      if (record.revision === revision) expect([name, days.format(new Date(record.date))]).toEqual([name, day]);
      else {
        const own = new RegExp(`\`${name}\`[^;]*`).exec(others)?.[0];
        const of = days.format(new Date(record.date));
        expect([name, own]).toEqual([name, expect.stringContaining(of === day ? 'later' : of.replace(/ \d{4}$/, ''))]);
      }
    }
  });
});

test('what Redis decides in a second is said in performance.md alone', () => {
  const others = readdirSync(join(projectRoot(), 'docs'))
    .filter((name) => name.endsWith('.md') && name !== 'performance.md')
    .map((name) => `docs/${name}`);
  const stated = ['ARCHITECTURE.md', 'CONTRIBUTING.md', ...others].filter((path) =>
    /\d,000\s+(?:confirmed\s+)?(?:checkouts|decisions|times)\s+a\s+second/.test(read(path)),
  );
  expect(stated).toEqual([]);
});
