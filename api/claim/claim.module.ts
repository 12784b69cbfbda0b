import type { Config } from '../../shared/config/config.js';
import { LIMITS } from '../../shared/config/limits.js';
import { endsWithItsConnection } from '../../shared/observability/lifecycle.js';
import { CampaignTermsTable } from '../../shared/postgres/campaign-terms.js';
import { CodesTable } from '../../shared/postgres/codes.js';
import { Shards } from '../../shared/shards/shards.js';
import type { ApiShard, Core } from '../core.js';
import type { Guards } from '../guards/guards.module.js';
import { Acknowledgement, Acknowledgements } from './acknowledgement.js';
import { Claim, type RequireHome } from './claim.js';
import { CodeTexts } from './code-texts.js';
import { CommittedClaims } from './committed-claims.js';
import { PayLinks } from './pay-links.js';
import { ReplicationWatch } from './replication-watch.js';
import { TermsCache } from './terms-cache.js';
import { TermsNotifications } from './terms-notifications.js';
import { velocityAlarm } from './velocity-alarm.js';

/** Used by every feature that promises a unit or reports on one. */
export type Claims = {
  claim: Claim;
  acknowledgements: Acknowledgements;
  terms: TermsCache;
  termsNotifications: TermsNotifications;
  codeTexts: CodeTexts;
  payLinks: PayLinks;
};

/** @param requireHome null = this installation is the only region */
export function claimModule(
  core: Core,
  { auth, limits: { policies } }: Pick<Guards, 'auth' | 'limits'>,
  requireHome: RequireHome | null,
): Claims {
  const { config, log, life, metrics, shards, database, reads, sales } = core;
  const acknowledgements = new Acknowledgements(
    new Shards(
      shards.all.map((shard) => ({ index: shard.index, acknowledgement: acknowledgementIn(shard, config) })),
      shards.map,
    ),
    config.waitReplicas,
  );
  // Found once: a look-up by labels costs more than that of the terms.
  const lookups = {
    memory: metrics.termsLookups.labels('memory'),
    postgres: metrics.termsLookups.labels('postgres'),
  };
  const terms = new TermsCache(new CampaignTermsTable(reads), {
    capacity: LIMITS.claims.termsKept,
    freshMs: core.replica ? LIMITS.claims.termsFreshOfReplicaMs : LIMITS.claims.termsFreshMs,
    patienceMs: LIMITS.claims.termsPatienceMs,
    nowMs: () => performance.now(),
    generation: core.generation,
    onLookup: (from) => lookups[from].inc(),
  });
  const termsNotifications = new TermsNotifications(shards.home.commands, shards.home.subscriber);
  const listen = () =>
    termsNotifications.listen(
      (product) => {
        terms.forget(product);
        policies.refresh(product).catch(() => policies.refreshSoon());
      },
      () => {
        terms.forgetAll();
        policies.refreshSoon();
      },
    );
  life.add('subscription to changes of terms', {
    start: () =>
      void listen().catch((error: unknown) => log.warn({ err: error }, 'changes of terms cannot be heard of')),
    stop: endsWithItsConnection,
  });
  const alarm = velocityAlarm(core);
  for (const { sale } of shards.all) sale.claims.onVelocity = alarm;
  const committed = new CommittedClaims(sales, acknowledgements, shards.map);
  return {
    claim: new Claim(
      sales,
      auth.tickets,
      acknowledgements,
      { ...LIMITS.claims, callersKept: LIMITS.abuse.callersKept },
      core.bucketClaims,
      committed,
      core.tracing,
      requireHome,
    ),
    acknowledgements,
    terms,
    termsNotifications,
    codeTexts: new CodeTexts(new CodesTable(database), reads, core.generation),
    payLinks: new PayLinks(policies, terms, config.payLinkKeys, (product) =>
      log.error({ product }, 'shoppers get no link to pay: PAY_LINK_KEYS is not set, and checkout_url has {signature}'),
    ),
  };
}

function acknowledgementIn({ redis, gate, commits, journal }: ApiShard, { waitReplicas }: Config): Acknowledgement {
  const replication = new ReplicationWatch(
    redis.forCommands(),
    waitReplicas,
    {
      waitMs: LIMITS.redis.replicationWaitMs,
      roundMs: LIMITS.redis.replicationRoundMs,
      maxWaiting: LIMITS.redis.replicatedWaiting,
    },
    () => gate.server,
  );
  return new Acknowledgement(commits, replication, journal, LIMITS.claims);
}
