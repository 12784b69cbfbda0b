// What a sale needs, by arithmetic (docs/planning.md). Pure but for the record of the benchmarks, which it reads.
import { readFileSync } from 'node:fs';

const record = JSON.parse(readFileSync(new URL('../bench/record.json', import.meta.url), 'utf8'));
const { 'checkout-cpu': checkout, 'memory-per-user': perUser, memory, persistence, polls: poll } = record;
export const SOURCE = `loadtest/bench/record.json, ${checkout.date.slice(0, 10)}, ${checkout.machine}`;
/** CPU in µs, memory and disk in bytes. docs/planning.md has the source of each. */
export const COSTS = {
  checkout_api_us: checkout.api_us,
  checkout_redis_us: checkout.redis_us,
  place_redis_us: 62,
  calls_to_join_buckets: 1.7,
  poll_api_us: poll.api_us,
  poll_redis_us: poll.redis_us,
  position_api_us: 50,
  row_worker_us: checkout.worker_us,
  rows_per_second: Math.round(10_000 / (persistence.backlog_ms / 1000)),
  redis_empty_bytes: (memory.redis_mb.start + memory.events.mb) * 1e6,
  redis_person_bytes: perUser.redis_bytes_per_reservation + perUser.redis_bytes_per_idempotency_record + 320,
  postgres_row_bytes: 1_679,
};
/** Limits of the service. A test compares them. */
export const LIMITS = { buckets: 16, shards: 64, sockets: 20_000, journal: 2_000_000, memory: 0.9 };

/**
 * @typedef {{ people: number, units: number, within: number, campaigns: number, line: boolean, sockets: number,
 *   headroom: number, nodes?: number, api?: number, workers?: number }} Demand within: s; line: people without a unit
 *   wait; sockets: share of them with a socket, the others poll; headroom: share of each core that stays free
 * @param {Demand} demand
 */
export function planSale(demand, costs = COSTS) {
  const { people, units, within, campaigns } = demand;
  const free = 1 - demand.headroom;
  const needed = (/** @type {number} */ amount) => Math.ceil(amount / free - 1e-9);
  const inLine = demand.line ? Math.max(0, people - units) : 0;
  const sockets = Math.round(inLine * demand.sockets);
  // About the sum over all places: a poll after 2 s, and 1 s more for each 500 places, up to 30 s.
  const far = Math.max(0, inLine / campaigns - 14_000);
  const polls = (1 - demand.sockets) * campaigns * (500 * Math.log1p((inLine / campaigns - far) / 750) + far / 30);
  // Each person counts as the dearest one: with a place in line, or with a checkout, which costs more than a refusal.
  const redisUs = Math.max(costs.checkout_redis_us, inLine > 0 ? costs.place_redis_us : 0);
  const redisCores = ((people / within) * redisUs + polls * costs.poll_redis_us) / 1e6;
  const redis = placeCampaigns(demand, redisCores, inLine > 0 ? costs.calls_to_join_buckets : 1);
  const arrivalCores = ((people / within) * costs.checkout_api_us + polls * costs.poll_api_us) / 1e6;
  const apiCores = Math.max(arrivalCores, (sockets * costs.position_api_us + polls * costs.poll_api_us) / 1e6);
  const api = demand.api ?? Math.max(2, needed(apiCores), needed(sockets / LIMITS.sockets));
  const lastResponse = within * Math.max(1, redis.busy, arrivalCores / api);
  // Rows arrive with the responses. The first people get the units, so refusals come after the last row.
  const rows = Math.min(people, units) + inLine;
  const arriving = people / lastResponse;
  const workers = demand.workers ?? Math.max(2, needed((costs.rows_per_second * costs.row_worker_us) / 1e6));
  const perSecond = Math.min(costs.rows_per_second, (workers * 1e6) / costs.row_worker_us);
  const backlog = rows * Math.max(0, 1 - perSecond / arriving);
  const after = rows / Math.min(arriving, perSecond);
  return {
    redisCores,
    redis,
    // Of the busiest node, with the whole journal, so that Postgres may be away while people arrive.
    maxmemory: (costs.redis_empty_bytes + rows * redis.share * costs.redis_person_bytes) / LIMITS.memory / free,
    api: { processes: api, cores: apiCores, sockets, polls },
    workers,
    postgres: { perSecond, rows, backlog, after, bytes: rows * costs.postgres_row_bytes },
    lastResponse,
  };
}

/**
 * Returns the fewest nodes whose busiest one has its headroom, wherever hashes of product ids put the campaigns, or the
 * placement with the least work for it. Divides few campaigns into buckets where that helps.
 * @param {Demand} demand @param {number} cores for all undivided ones @param {number} calls to join a divided one
 */
function placeCampaigns({ campaigns, nodes: asked, headroom }, cores, calls) {
  let best = { nodes: 0, shards: 0, buckets: 0, busiest: 0, share: 0, busy: Number.POSITIVE_INFINITY };
  for (let nodes = asked ?? 1; nodes <= (asked ?? LIMITS.shards); nodes += nodes === 1 ? 2 : 1) {
    const shards = nodes === 1 ? 1 : nodes <= 8 ? 16 : LIMITS.shards;
    const mostBuckets = campaigns > LIMITS.buckets ? 1 : Math.min(LIMITS.buckets, shards);
    for (let buckets = 1; buckets <= mostBuckets && best.busy > 1 - headroom + 1e-9; buckets += 1) {
      const busiest = mostTogether(campaigns, buckets, shards, Math.ceil(shards / nodes));
      const share = busiest / campaigns / buckets;
      const busy = cores * share * (buckets > 1 ? calls : 1);
      if (busy < best.busy) best = { nodes, shards, buckets, busiest, share, busy };
    }
  }
  return best;
}

/**
 * Returns the most campaigns or buckets in `together` neighbouring shards. A new campaign goes to a shard that has less
 * than its share of the live ones (shared/domain/shards.ts), so each shard has n before one has n + 1. Buckets are
 * equally far apart (shared/domain/buckets.ts), and all campaigns may begin at the same shard.
 * @param {number} campaigns @param {number} buckets @param {number} shards @param {number} together
 */
export function mostTogether(campaigns, buckets, shards, together) {
  if (buckets > 1) return campaigns * Math.ceil((together * buckets) / shards);
  return together * Math.floor(campaigns / shards) + Math.min(together, campaigns % shards);
}
