import { LIMITS } from '../../shared/config/limits.js';
import type { Code } from '../../shared/domain/codes.js';
import type { UserId } from '../../shared/domain/ids.js';
import { CodesTable } from '../../shared/postgres/codes.js';
import { RedemptionAttempts } from '../../shared/postgres/redemption-attempts.js';
import type { Claims } from '../claim/claim.module.js';
import type { Core } from '../core.js';
import type { Guards } from '../guards/guards.module.js';
import { LocalQuota } from '../guards/limits/local-quota.js';
import type { Route } from '../http/route.js';
import { type AttemptDeps, UNKNOWN_CODES } from './attempt.js';
import { AttemptRecorder } from './attempt-recorder.js';
import { CodeFilter } from './code-filter.js';
import { observeCodeFilter } from './code-filter-metrics.js';
import { CodeLookup } from './code-lookup.js';
import { CodePatterns } from './code-patterns.js';
import { CodeResolver } from './code-resolver.js';
import { OneTimeTokens } from './one-time-token.js';
import { oneTimeTokenRoute } from './one-time-token.route.js';
import { redeemRoute } from './redeem.route.js';
import { Redemption } from './redemption.js';
import { SharedUnknownCodes } from './unknown-codes.js';
import { validateRoute } from './validate.route.js';
import { Validation } from './validation.js';

/**
 * Validation and redemption of codes, and one-time tokens.
 * @param isOfOther whether another region decides about a code of a user
 */
export function couponsModule(
  core: Core,
  { auth: { shopper }, limits, attestation, abuse, attemptRate }: Guards,
  { claim, terms }: Claims,
  isOfOther: (code: Code, user: UserId) => boolean = () => false,
): Route[] {
  const { config, clock, metrics, log, sales } = core;
  const { loadShedder, degradation, policies, couponTokenQuota } = limits;
  const { blocklist, riskGate, failures } = abuse;
  const oneTimeTokens = new OneTimeTokens(config.ticketKeys);
  const attempt: AttemptDeps = {
    finder: createCodeResolver(core, terms, isOfOther),
    policies,
    guesses: new LocalQuota(
      config.apiRole === 'all' ? LIMITS.abuse.guessesUnnoticed : LIMITS.abuse.guessesUnnoticedOfRole,
      60_000,
      LIMITS.abuse.callersKept,
    ),
    unknownCodes:
      config.apiRole === 'all'
        ? new LocalQuota(config.unknownCodesPerMinute, 60_000, LIMITS.abuse.callersKept)
        : new SharedUnknownCodes(
            limits.quota(UNKNOWN_CODES, config.unknownCodesPerMinute, 60),
            failures.bans,
            LIMITS.abuse.callersKept,
          ),
    failures,
    attempts: createAttemptRecorder(core),
    metrics,
    log,
    limits: LIMITS.abuse,
  };
  return [
    validateRoute({
      ...attempt,
      loadShedder,
      degradation,
      blocklist,
      challenges: attestation.challenges,
      // Redemptions feed it where one process serves both.
      checkRate: config.apiRole === 'read' ? attemptRate : null,
      validateQuota: limits.perUser('validate', config.validatePerMinutePerUser),
      validation: new Validation(sales, () => clock.nowMs()),
      shopper,
    }),
    redeemRoute({
      ...attempt,
      loadShedder,
      attestation: attestation.tokens,
      devices: attestation.devices,
      blocklist,
      riskGate,
      redeemQuota: limits.perUser('redeem', config.redeemPerMinutePerUser),
      redemption: new Redemption(claim, terms, oneTimeTokens),
      attemptRate,
      shopper,
      limits: { ...LIMITS.claims, uniformRefusalMs: LIMITS.abuse.uniformRefusalMs },
    }),
    oneTimeTokenRoute({
      blocklist,
      shopper,
      oneTimeTokens,
      clock,
      tokenQuota: couponTokenQuota,
      limits: LIMITS.claims,
    }),
  ];
}

function createAttemptRecorder({ config, log, metrics, life, clock, database }: Core): AttemptRecorder {
  const attempts = new AttemptRecorder(new RedemptionAttempts(database), {
    enabled: config.attemptsKeepDays > 0,
    capacity: LIMITS.attempts.waiting,
    batchRows: LIMITS.attempts.batchRows,
    everyMs: LIMITS.attempts.everyMs,
    perNetwork: LIMITS.attempts.perNetworkMinute,
    callersKept: LIMITS.abuse.callersKept,
    nowMs: () => clock.nowMs(),
    onWritten: (count) => metrics.attemptsWritten.inc(count),
    onDropped: (count, reason) => metrics.attemptsDropped.inc({ reason }, count),
    onTrouble: (error) => log.warn({ reason: String(error) }, 'attempts wait for Postgres'),
  });
  life.add('record of attempts', {
    start: () => attempts.start(),
    stop: () => attempts.stop(LIMITS.attempts.stopMs),
  });
  return attempts;
}

function createCodeResolver(
  { log, metrics, life, shards, setBack, database, reads, openPool, directory, generation }: Core,
  terms: Claims['terms'],
  isOfOther: (code: Code, user: UserId) => boolean,
): CodeResolver {
  // A pool of its own: it reads every code.
  const pool = openPool({ name: 'doorbuster-api-codes', connections: 1, statementMs: LIMITS.codes.rangeStatementMs });
  const filter = new CodeFilter(shards.home.redis.forSubscription(), new CodesTable(pool), log, LIMITS.codes);
  life.add('code filter', filter);
  observeCodeFilter(metrics, filter);
  const codes = new CodesTable(database);
  const patterns = new CodePatterns(codes, log);
  life.add('code patterns', patterns);
  const lookup = new CodeLookup(codes, reads, generation);
  return new CodeResolver(filter, lookup, directory, terms, patterns, setBack, isOfOther);
}
