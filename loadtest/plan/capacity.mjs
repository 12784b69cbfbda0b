// How many processes, nodes and bytes a sale needs. Pure: demand and costs in, plan out.
import { placeBuckets } from './buckets.mjs';
import { LIMITS_OF_SERVICE } from './limits.mjs';
import { placeCampaigns } from './placement.mjs';
import { problemsOf } from './problems.mjs';
import { simulate } from './seconds.mjs';

/** A second process serves while the first one is replaced. */
const LEAST_PROCESSES = 2;
/** A fork that rewrites the append-only file may copy every page that is written meanwhile. */
const MEMORY_OF_FORK = 2;
/** A position frame with the headers of its packet. */
const FRAME_BYTES = 250;
const JOURNAL_STEP = 100_000;
const EVEN = 1e-9;

/**
 * @typedef {import('./costs.mjs').Costs} Costs
 * @typedef {{ people: number, units: number, withinSeconds: number, campaigns: number, nodes: number | null,
 *   api: number | null, workers: number | null, machines: number | null, cores: number, pollSeconds: number | null,
 *   sockets: number, holdSeconds: number, line: boolean, headroom: number }} Demand sockets: share of waiting people
 *   with a socket, the others poll; headroom: share of each core that stays free; null = the plan decides. With
 *   `machines`, all parts share the cores of so many machines
 * @typedef {ReturnType<typeof placeCampaigns>} Placed
 * @typedef {{ perSecond: number, reserved: number, inLine: number, sockets: number, pollsPerSecond: number,
 *   us: import('./costs.mjs').Cpu }} Load people with a unit, people in line; us: of the dearest decision
 * @typedef {ReturnType<typeof planParts>} Parts
 * @typedef {Parts & { problems: string[] }} Plan
 */

/**
 * Plans a sale.
 * @param {Demand} demand
 * @param {Costs} costs
 * @returns {Plan} whose problems are the reasons why it does not hold; none = it does
 */
export function planCapacity(demand, costs) {
  const parts = planParts(demand, costs);
  return { ...parts, problems: problemsOf(parts) };
}

/** @param {Demand} demand @param {Costs} costs */
function planParts(demand, costs) {
  const load = loadOf(demand, costs);
  const whole = oneCampaign(demand, costs, load);
  const free = 1 - demand.headroom;
  const divided = whole.buckets > 1 ? placeBuckets(demand, whole.cores, free) : null;
  const placed = divided ?? placeCampaigns(demand, whole.cores, free);
  const campaign = { ...whole, buckets: divided?.buckets ?? whole.buckets, isDivided: divided !== null };
  const api = apiProcesses(demand, costs, load);
  const writing = persisting(demand, costs, load, Math.min(placed.shards, demand.campaigns * (divided?.buckets ?? 1)));
  const cores = placed.nodes + api.processes + writing.workers + writing.postgresCores;
  const course = simulate(saleOf(demand, costs, load, placed, api.processes, writing.perSecond));
  const perProcess = Math.ceil(load.sockets / api.processes);
  const { bytes } = costs;
  return {
    demand,
    load,
    campaign,
    redis: {
      ...placed,
      bytes: redisBytes(demand, costs, load, placed.share),
      journalLimit: journalLimit(course, placed.share),
    },
    api,
    sockets: { perProcess, bytesPerProcess: bytes.api_process + perProcess * bytes.api_socket },
    workers: { processes: writing.workers, perSecond: writing.perSecond },
    postgres: {
      cores: writing.postgresCores,
      rows: load.reserved + load.inLine,
      bytes: load.reserved * bytes.postgres_reservation + load.inLine * bytes.postgres_place,
      walBytes: (load.reserved + load.inLine) * bytes.postgres_wal,
    },
    network: networkOf(costs, load, placed.share),
    cores,
    machines: demand.machines ?? Math.ceil(cores / demand.cores),
    course,
  };
}

/** @param {Demand} demand @param {Costs} costs @returns {Load} */
function loadOf({ people, units, withinSeconds, campaigns, line, sockets, pollSeconds }, { cpu_us: cpu }) {
  const reserved = Math.min(people, units);
  const inLine = line ? people - reserved : 0;
  const other = people > units ? (line ? cpu.place : cpu.refusal) : cpu.checkout;
  const dearest = (/** @type {keyof import('./costs.mjs').Cpu} */ part) => Math.max(cpu.checkout[part], other[part]);
  return {
    perSecond: people / withinSeconds,
    reserved,
    inLine,
    sockets: Math.round(inLine * sockets),
    pollsPerSecond: (inLine * (1 - sockets)) / (pollSeconds ?? meanPollSeconds(inLine / campaigns)),
    us: { api: dearest('api'), redis: dearest('redis'), worker: dearest('worker'), postgres: dearest('postgres') },
  };
}

/** What one campaign asks of one core of Redis. @param {Demand} demand @param {Costs} costs @param {Load} load */
function oneCampaign({ campaigns, headroom }, { cpu_us: cpu }, { perSecond, pollsPerSecond, us }) {
  const cores = (perSecond * us.redis + pollsPerSecond * cpu.poll.redis) / campaigns / 1e6;
  return {
    perSecond: perSecond / campaigns,
    /** Requests a second that one core decides with its headroom. */
    perCore: Math.floor(((1 - headroom) * 1e6) / us.redis),
    cores,
    /** Cores that it needs with their headroom. */
    buckets: Math.max(1, Math.ceil(cores / (1 - headroom) - EVEN)),
  };
}

/** @param {Demand} demand @param {Costs} costs @param {Load} load */
function apiProcesses({ api, headroom }, { cpu_us: cpu }, { perSecond, pollsPerSecond, sockets, us }) {
  const polls = pollsPerSecond * cpu.poll.api;
  const arrivalCores = (perSecond * us.api + polls) / 1e6;
  const lineCores = (sockets * cpu.position.api + polls) / 1e6;
  const free = 1 - headroom;
  const processes = Math.max(
    LEAST_PROCESSES,
    Math.ceil(Math.max(arrivalCores, lineCores) / free - EVEN),
    Math.ceil(sockets / (LIMITS_OF_SERVICE.socketsPerProcess * free) - EVEN),
  );
  return { processes: api ?? processes, arrivalCores, lineCores };
}

/**
 * How fast the journal is persisted, and by what.
 * @param {Demand} demand
 * @param {Costs} costs
 * @param {Load} load
 * @param {number} shards in use
 */
function persisting({ workers: asked, headroom }, costs, { us }, shards) {
  const free = 1 - headroom;
  const most = Math.min(shards * costs.persisted_per_second, costs.postgres_rows_per_second);
  const workerUs = Math.max(us.worker, EVEN);
  const workers = asked ?? Math.max(LEAST_PROCESSES, Math.ceil((most * workerUs) / 1e6 / free - EVEN));
  const perSecond = Math.min(most, (workers * 1e6) / workerUs);
  return { workers, perSecond, postgresCores: Math.max(1, Math.ceil((perSecond * us.postgres) / 1e6 / free - EVEN)) };
}

/**
 * @param {Demand} demand
 * @param {Costs} costs
 * @param {Load} load
 * @param {Placed} placed
 * @param {number} processes of the API
 * @param {number} persistPerSecond
 * @returns {import('./seconds.mjs').Sale}
 */
function saleOf(demand, { cpu_us: cpu }, load, { share }, processes, persistPerSecond) {
  const { people, units, withinSeconds, line, machines, cores } = demand;
  return {
    people,
    units,
    withinSeconds,
    line,
    cpuUs: {
      checkout: partsOf(cpu.checkout),
      other: partsOf(line ? cpu.place : cpu.refusal),
      rejection: partsOf(cpu.rejection),
    },
    polls: { perPerson: load.pollsPerSecond / Math.max(1, load.inLine), api: cpu.poll.api, redis: cpu.poll.redis },
    apiCores: processes,
    redisCores: 1 / share,
    sharedCores: machines === null ? null : machines * cores,
    inFlight: processes * LIMITS_OF_SERVICE.checkoutsInFlight,
    persistPerSecond,
    journalLimit: LIMITS_OF_SERVICE.journalLimit / share,
  };
}

/** Bits a second. @param {Costs} costs @param {Load} load @param {number} share of the busiest node */
function networkOf({ bytes }, { perSecond, pollsPerSecond, sockets }, share) {
  const out = perSecond * bytes.checkout_out + pollsPerSecond * bytes.poll_out;
  return {
    inBits: 8 * (perSecond * bytes.checkout_in + pollsPerSecond * bytes.poll_in),
    outBits: 8 * Math.max(out, sockets * FRAME_BYTES),
    redisBits: 8 * perSecond * share * (bytes.redis_in + bytes.redis_out),
  };
}

/** Mean time between two polls of a line, as the service asks for it. @param {number} inLine people of one campaign */
export function meanPollSeconds(inLine) {
  const { pollMinSeconds: least, pollMaxSeconds: longest, positionsPerPollSecond: each } = LIMITS_OF_SERVICE;
  const steps = longest - least;
  const growing = Math.min(inLine, steps * each);
  // A person at second s of the scale polls 1/s times a second.
  let polls = Math.max(0, inLine - growing) / longest;
  for (let step = 0; step * each < growing; step += 1) polls += Math.min(each, growing - step * each) / (least + step);
  return polls === 0 ? longest : inLine / polls;
}

/** @param {import('./costs.mjs').Cpu} cpu */
const partsOf = ({ api, redis, worker, postgres }) => ({ api, redis, persist: worker + postgres });

/**
 * Memory of the busiest node. The journal is counted whole, so that Postgres may be away while the sale opens.
 * @param {Demand} demand
 * @param {Costs} costs
 * @param {Load} load
 * @param {number} share of all campaigns that are on the node
 */
function redisBytes({ headroom }, { bytes }, { reserved, inLine }, share) {
  const promises = share * (reserved + inLine);
  const parts = {
    people: share * (reserved * bytes.redis_reservation + inLine * bytes.redis_place),
    records: promises * bytes.redis_record,
    journal: promises * bytes.redis_journal_entry,
    other: bytes.redis_start + bytes.redis_events,
  };
  const total = parts.people + parts.records + parts.journal + parts.other;
  const maxmemory = total / LIMITS_OF_SERVICE.refuseAboveMemory / (1 - headroom);
  return { ...parts, total, maxmemory, machine: MEMORY_OF_FORK * maxmemory };
}

/**
 * JOURNAL_LIMIT: twice the largest backlog of a shard, and never below the default.
 * @param {import('./seconds.mjs').Course} course
 * @param {number} share
 */
function journalLimit({ largestBacklog }, share) {
  const twice = Math.ceil((2 * largestBacklog * share) / JOURNAL_STEP) * JOURNAL_STEP;
  return Math.max(LIMITS_OF_SERVICE.journalLimit, twice);
}
