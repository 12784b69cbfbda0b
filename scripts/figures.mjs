// The figures of the documents, from the last records of the benchmarks (loadtest/bench/record.json). `npm run docs`
// writes them between two comments of a document, so that no figure is typed by hand.

/** @typedef {Record<string, any>} Records the figures of each benchmark, by its name */

const DAYS = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'long', year: 'numeric', timeZone: 'UTC' });

/** The documents with figures, and what makes the text between the comments of each. */
export const DOCUMENTS_WITH_FIGURES = {
  'README.md': readmeFigures,
  'docs/performance.md': redisFigure,
};

/**
 * Replaces the text between `<!-- figures … -->` and `<!-- /figures -->`.
 * @param {string} document
 * @param {string} figures
 * @returns {string}
 * @throws Error if the document does not have exactly one such place
 */
export function withFigures(document, figures) {
  const parts = document.split(/(?<=<!-- figures[^>]*-->)[\s\S]*?(?=<!-- \/figures -->)/);
  if (parts.length !== 2) throw new Error('expected one <!-- figures … --> and one <!-- /figures --> behind it');
  return parts.join(`\n${figures}\n`);
}

/**
 * @param {Records} records
 * @returns {string} a table in Markdown
 */
export function readmeFigures(records) {
  const {
    throughput,
    opening,
    'promotion-latency': promotion,
    'memory-per-user': memory,
    'unknown-codes': unknown,
    'checkout-cpu': checkout,
  } = present(records, [
    'throughput',
    'opening',
    'promotion-latency',
    'memory-per-user',
    'unknown-codes',
    'checkout-cpu',
  ]);
  const rows = [
    [
      `${rounded(opening.confirmed + opening.in_line)} people within one second for ${rounded(opening.confirmed)} units`,
      `${rounded(opening.confirmed)} sold, ${rounded(opening.in_line)} in line, ${opening.errors} errors; the last response after ${seconds(opening.last_answer_ms)}`,
      opening,
    ],
    [
      'Confirmed checkouts',
      `${rounded(checkout.per_second)} a second, p99 ${Math.round(checkout.p99_ms)} ms`,
      checkout,
    ],
    [
      '… compared with `SELECT … FOR UPDATE` in Postgres',
      `${throughput.ratio} × as many, in turn on the same machine`,
      throughput,
    ],
    [
      'An unpaid unit reaches the next person in line',
      `after ${promotion.p50_ms} ms (median), ${Math.round(promotion.p99_ms)} ms (p99)`,
      promotion,
    ],
    ['Memory of Redis for a person in line', `${memory.redis_bytes_per_waiting} bytes`, memory],
    [
      `An unknown code, of ${rounded(unknown.codes)} issued`,
      `recognised in ${unknown.lookup_us} µs, without Redis or Postgres`,
      unknown,
    ],
  ];
  return [
    '| | measured | on |',
    '| --- | --- | --- |',
    ...rows.map(([what, result, record]) => `| ${what} | ${result} | ${dayOf(record)} |`),
    '',
    `On ${opening.machine.replace(' × ', ' cores of ')}, for API, Redis, worker, Postgres and load generator together. Every promise was`,
    'on disk before its response (`appendfsync always`). `npm run bench` repeats it: [docs/performance.md](docs/performance.md).',
  ].join('\n');
}

/**
 * What one core of Redis can decide: the limit of a sale without buckets. Rounded down to thousands.
 * @param {Records} records
 * @returns {string}
 */
export function redisFigure(records) {
  const { 'checkout-cpu': checkout } = present(records, ['checkout-cpu']);
  const perSecond = Math.floor(1_000 / checkout.redis_us) * 1_000;
  return [
    `One core of Redis decides about **${rounded(perSecond)} confirmed checkouts a second**: a confirmed checkout costs it ${checkout.redis_us} µs,`,
    `with socket, append-only file and the worker's reading (\`checkout-cpu\`, ${dayOf(checkout)}, ${checkout.connections} connections).`,
  ].join('\n');
}

/**
 * @param {Records} records
 * @param {string[]} names
 * @returns {Records} with all of these names
 */
function present(records, names) {
  const missing = names.filter((name) => records[name] === undefined);
  if (missing.length > 0)
    throw new Error(`record.json lacks ${missing.join(', ')}: run \`npm run bench -- ${missing[0]}\``);
  return records;
}

/**
 * Three significant digits at most, with commas.
 * @param {number} value
 */
const rounded = (value) => Number(value.toPrecision(3)).toLocaleString('en');
/** @param {number} ms */
const seconds = (ms) => `${(ms / 1_000).toFixed(1)} s`;
/** @param {{ date: string }} record */
const dayOf = ({ date }) => DAYS.format(new Date(date));
