// Why a plan does not hold as asked. Pure.
import { MOST_BUCKETS } from './buckets.mjs';
import { LIMITS_OF_SERVICE } from './limits.mjs';

const EVEN = 1e-9;

/**
 * Returns one text for each reason, with its remedy.
 * @param {import('./capacity.mjs').Parts} plan
 * @returns {string[]}
 */
export function problemsOf(plan) {
  return [...ofRedis(plan), ...ofProcesses(plan), ...ofCourse(plan)];
}

/** @param {import('./capacity.mjs').Parts} plan */
function ofRedis({ demand, campaign, redis }) {
  const { campaigns, withinSeconds, headroom } = demand;
  const free = 1 - headroom;
  const problems = [];
  if (campaign.buckets > 1 && !campaign.isDivided) {
    const enough = campaigns * campaign.buckets;
    problems.push(
      `One campaign gets ${count(campaign.perSecond)} requests a second, and one core of Redis decides ${count(campaign.perCore)} with its headroom. ` +
        `It would need more than the ${MOST_BUCKETS} buckets that a campaign can have. ` +
        `Split it over at least ${enough} campaigns (--campaigns ${enough}), ` +
        `or let people arrive over ${count(Math.ceil((withinSeconds * campaign.cores) / free))} s.`,
    );
  } else if (redis.busy > free + EVEN) {
    const [all, what] = campaign.isDivided ? [campaigns * campaign.buckets, 'buckets'] : [campaigns, 'campaigns'];
    problems.push(
      `The busiest node has ${redis.busiest} of ${all} ${what} and uses ${percent(redis.busy)} of its core, above ${percent(free)}. ` +
        'Add nodes, or leave --nodes out to see how many.',
    );
  }
  if (redis.evenOnly) {
    problems.push(
      `The plan needs campaigns that are spread evenly, ${redis.busiest} on the busiest of ${redis.nodes} nodes. ` +
        `New campaigns are spread evenly over shards, and ${redis.most} of them may lie on one node. Move some before the sale: npm run reshard -- --campaign <product_id> --to-shard <n>.`,
    );
  }
  return problems;
}

/** @param {import('./capacity.mjs').Parts} plan */
function ofProcesses({ demand, api, sockets, cores }) {
  const problems = [];
  const work = Math.max(api.arrivalCores, api.lineCores);
  if (work > api.processes * (1 - demand.headroom) + EVEN) {
    problems.push(
      `--api ${api.processes} is too few: the work takes ${work.toFixed(1)} cores without headroom. Leave --api out to see how many.`,
    );
  }
  const { socketsPerProcess } = LIMITS_OF_SERVICE;
  if (sockets.perProcess > socketsPerProcess) {
    problems.push(
      `An API process accepts ${count(socketsPerProcess)} sockets, and ${count(sockets.perProcess)} would come. ` +
        'Add API processes, or lower --sockets.',
    );
  }
  const there = (demand.machines ?? Number.POSITIVE_INFINITY) * demand.cores;
  if (cores > there) {
    problems.push(
      `The plan needs ${cores} cores with headroom, and there are ${there}. The table shows what these can do, without any.`,
    );
  }
  return problems;
}

/** @param {import('./capacity.mjs').Parts} plan */
function ofCourse({ demand, load, redis, api, course }) {
  const { checkoutsInFlight, journalLimit, redisCommandMs, sentAtOnce } = LIMITS_OF_SERVICE;
  const problems = [];
  if (course.rejections > 0) {
    problems.push(
      `${count(course.rejections)} requests get 503 and come back: an API process takes ${count(checkoutsInFlight)} at once.`,
    );
  }
  const waitMs = (api.processes * sentAtOnce * redis.busiest * load.us.redis) / 1_000;
  if (waitMs > redisCommandMs && redis.busy > 1) {
    problems.push(
      `${api.processes} API processes send so many requests to one busy core that a call waits ${count(waitMs)} ms. ` +
        `Calls fail after ${count(redisCommandMs)} ms, so further requests get 503.`,
    );
  }
  if (course.largestBacklog * redis.share >= journalLimit - 1) {
    problems.push(
      `The journal of a shard reaches JOURNAL_LIMIT (${count(journalLimit)}), and checkouts wait for Postgres. ` +
        'Raise it, and give Redis the memory.',
    );
  }
  if (course.lastResponseSeconds === null) problems.push('Not all people get a response within a day.');
  else if (course.lastResponseSeconds > demand.withinSeconds + 1) {
    problems.push(
      `The last response comes ${count(course.lastResponseSeconds - demand.withinSeconds)} s after the last arrival. ` +
        'Clients and load balancers may give up before, and retry.',
    );
  }
  return problems;
}

/** @param {number} value */
const count = (value) => Math.round(value).toLocaleString('en');
/** @param {number} share */
const percent = (share) => `${Math.round(share * 100)} %`;
