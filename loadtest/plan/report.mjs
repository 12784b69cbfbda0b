// A plan as text.
import { LIMITS_OF_SERVICE } from './limits.mjs';

const SECONDS_SHOWN = 24;

/**
 * @param {import('./capacity.mjs').Plan} plan
 * @param {import('./costs.mjs').Costs} costs
 * @returns {string}
 */
export function describePlan(plan, costs) {
  return [
    ...heading(plan, costs),
    '',
    ...table(partsOf(plan, costs)),
    '',
    'What each second looks like:',
    '',
    ...table(secondsOf(plan), true),
    '',
    ...outcome(plan),
    '',
    ...margins(plan, costs),
    ...(plan.problems.length === 0
      ? []
      : ['', 'This does not hold as asked:', ...plan.problems.map((one) => `- ${one}`)]),
  ].join('\n');
}

/** @param {import('./capacity.mjs').Plan} plan @param {import('./costs.mjs').Costs} costs */
function heading({ demand, load }, costs) {
  const { people, units, withinSeconds, campaigns, line } = demand;
  const busy = Number.parseFloat(costs.load) > (Number.parseInt(costs.machine, 10) || 1);
  return [
    `${count(people)} people within ${time(withinSeconds)} for ${count(units)} units in ${plural(campaigns, 'campaign')}: ` +
      `${count(load.perSecond)} checkouts a second, and ${line ? 'a line for the rest' : 'sold out for the rest'}.`,
    `Costs: ${costs.source}, ${costs.date.slice(0, 10)}, ${costs.machine}, Node ${costs.node}, load ${costs.load}.` +
      (busy ? ' The machine was busy, so these costs may be too high.' : ''),
  ];
}

/** @param {import('./capacity.mjs').Plan} plan @param {import('./costs.mjs').Costs} costs @returns {string[][]} */
function partsOf(plan, costs) {
  const { demand, load, campaign, redis, api, workers, postgres, sockets, network, course } = plan;
  const { bytes } = redis;
  const replicas = `, ${redis.nodes === 1 ? 'with' : 'each with'} two replicas on other machines for a failover without loss`;
  return [
    [
      'a campaign',
      `${count(campaign.perSecond)} requests a second, ${campaign.cores.toFixed(2)} cores of Redis; ${campaign.isDivided ? `"buckets": ${campaign.buckets}` : plural(campaign.buckets, 'bucket')}`,
    ],
    ['Redis', `${plural(redis.nodes, 'primary', 'primaries')}${replicas}; SHARDS=${redis.shards}`],
    [
      '',
      `the busiest has ${redis.busiest} of ${campaign.isDivided ? plural(demand.campaigns * campaign.buckets, 'bucket') : plural(demand.campaigns, 'campaign')} and uses ${percent(redis.busy)} of its core`,
    ],
    [
      'Redis memory',
      `${size(bytes.total)} on the busiest node: people ${size(bytes.people)}, idempotency records ${size(bytes.records)}, whole journal ${size(bytes.journal)}, events and the rest ${size(bytes.other)}`,
    ],
    [
      '',
      `maxmemory ${size(bytes.maxmemory)}; ${size(bytes.machine)} of the machine, because a rewrite of the append-only file may copy it`,
    ],
    [
      'API',
      `${plural(api.processes, 'process', 'processes')}: ${api.arrivalCores.toFixed(1)} cores while people arrive, ${api.lineCores.toFixed(1)} while the line moves`,
    ],
    [
      'sockets',
      `${count(load.sockets)}, ${count(sockets.perProcess)} and ${size(sockets.bytesPerProcess)} in each API process; ${count(load.pollsPerSecond)} polls a second`,
    ],
    [
      'workers',
      `${plural(workers.processes, 'process', 'processes')}, up to ${count(workers.perSecond)} entries persisted a second`,
    ],
    [
      'journal',
      `at most ${plural(Math.round(course.largestBacklog), 'entry', 'entries')} behind, so persisting lags by up to ${time(course.largestBacklog / workers.perSecond)}; JOURNAL_LIMIT=${redis.journalLimit}`,
    ],
    [
      'Postgres',
      `${plural(postgres.cores, 'core')}; ${count(postgres.rows)} rows, ${size(postgres.bytes)} with indexes and events, ${size(postgres.walBytes)} of write-ahead log`,
    ],
    [
      'payments',
      `up to ${count(Math.min(demand.people, demand.units) / demand.holdSeconds)} a second on average over ${time(demand.holdSeconds)}, not counted above`,
    ],
    [
      'network',
      `${bits(network.inBits)} in, ${bits(network.outBits)} out, ${bits(network.redisBits)} at the busiest Redis, without TLS`,
    ],
    [
      'machines',
      `${plural(plan.cores, 'core')} in all: ${plural(plan.machines, 'machine')} with ${coresOf(demand.cores)}, without the replicas (CPU ${costs.cpu_us.checkout.api} + ${costs.cpu_us.checkout.redis} + ${costs.cpu_us.checkout.worker} + ${costs.cpu_us.checkout.postgres} µs a checkout in API, Redis, worker and Postgres)`,
    ],
  ];
}

/** @param {import('./capacity.mjs').Plan} plan @returns {string[][]} */
function secondsOf({ course }) {
  const header = [
    'second',
    'arrive',
    'get a unit',
    'others',
    'no response yet',
    'get 503',
    'Redis busy',
    'API busy',
    'journal',
    'persisted',
  ];
  const { seconds } = course;
  const shown = rowsToShow(seconds.length);
  return [
    header,
    ...shown.map((at) => {
      const one = /** @type {(typeof seconds)[number]} */ (seconds[at]);
      return [
        String(one.second),
        ...[one.arrived, one.reserved, one.other, one.waiting, one.rejected].map(count),
        ...[one.redisBusy, one.apiBusy].map(percent),
        ...[one.backlog, one.persisted].map(count),
      ];
    }),
  ];
}

/** The first seconds, then ever rarer ones, and the last. @param {number} length @returns {number[]} */
export function rowsToShow(length) {
  if (length <= SECONDS_SHOWN) return Array.from({ length }, (_, at) => at);
  const first = SECONDS_SHOWN / 2;
  const shown = new Set(Array.from({ length: first }, (_, at) => at));
  for (let i = 1; i <= first; i += 1) shown.add(Math.round(first - 1 + (length - first) ** (i / first)));
  return [...shown].filter((at) => at < length).sort((a, b) => a - b);
}

/** @param {import('./capacity.mjs').Plan} plan */
function outcome({ course }) {
  const { lastResponseSeconds: last, persistedAfterSeconds: persisted } = course;
  return [
    last === null
      ? 'The last response does not come within a day.'
      : `The last response comes ${time(last)} after the opening.`,
    persisted === null ? 'The journal is not empty within a day.' : `Postgres has everything after ${time(persisted)}.`,
  ];
}

/** @param {import('./capacity.mjs').Plan} plan @param {import('./costs.mjs').Costs} costs */
function margins({ demand, load, redis, course, api }, costs) {
  const kept = LIMITS_OF_SERVICE.promisesKept * api.processes;
  const spread =
    redis.nodes === 1
      ? '- One node of Redis has all campaigns, so none is busier than another.'
      : '- A new campaign goes to a shard that has less than its share of the live ones, so no node gets more campaigns than the one above.';
  return [
    'Margins:',
    `- ${percent(demand.headroom)} of each core stays free. People do not arrive evenly, neighbours make CPU dearer, and requests queue on a core that is nearly full.`,
    ...(redis.evenOnly ? [] : [spread]),
    '- Memory is counted with the whole journal, as if Postgres were away while people arrive. Above 90 % of maxmemory new claims get 503.',
    '- Arrivals are even within the time. If all come at its beginning, as many seconds of work wait in the API.',
    `- Above ${count(costs.persisted_per_second)} entries a second, persisting is extrapolated from one shard, up to ${count(costs.postgres_rows_per_second)} a second of one Postgres. This limit is an estimate.`,
    ...(api.lineCores > 2 * api.arrivalCores
      ? [
          `- Position frames to ${count(load.sockets)} sockets decide the number of API processes. Polling people cost less: see --sockets.`,
        ]
      : []),
    ...(course.largestBacklog > kept
      ? [
          `- API processes keep their last ${count(kept)} promises until they are persisted, and the journal gets longer. Should Redis lose data then, older promises are lost.`,
        ]
      : []),
    '- Not counted: TLS, pages and device tokens, the load balancer, replicas, payments and refunds, Kafka and webhooks.',
  ];
}

/** Lines of a table with aligned columns. @param {readonly string[][]} rows @param {boolean} [right] */
function table(rows, right = false) {
  const columns = Math.max(...rows.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, at) =>
    Math.max(...rows.map((row) => String(row[at] ?? '').length)),
  );
  return rows.map((row) =>
    row
      .map((cell, at) => (right ? cell.padStart(Number(widths[at])) : cell.padEnd(Number(widths[at]))))
      .join('  ')
      .trimEnd(),
  );
}

/** @param {number} value */
const count = (value) => Math.round(value).toLocaleString('en');
/** @param {number} value @param {string} one @param {string} [many] */
const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;
/** @param {number} value */
const coresOf = (value) => `${value} ${value === 1 ? 'core' : 'cores'}`;
/** @param {number} share */
const percent = (share) => `${Math.round(share * 100)} %`;

/** @param {number} seconds */
export function time(seconds) {
  if (seconds < 0.95) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${seconds < 10 ? Number(seconds.toFixed(1)) : Math.round(seconds)} s`;
  return `${Math.round(seconds / 60)} min`;
}

/** @param {number} bytes */
export function size(bytes) {
  return bytes < 1e9 ? `${count(bytes / 1e6)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}

/** @param {number} perSecond */
const bits = (perSecond) =>
  perSecond < 1e9 ? `${count(perSecond / 1e6)} Mbit/s` : `${(perSecond / 1e9).toFixed(1)} Gbit/s`;
