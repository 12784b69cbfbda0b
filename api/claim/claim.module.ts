import { LIMITS } from '../../shared/config/limits.js';
import { endsWithItsConnection } from '../../shared/observability/lifecycle.js';
import { CampaignTermsTable } from '../../shared/postgres/campaign-terms.js';
import { CodesTable } from '../../shared/postgres/codes.js';
import type { Core } from '../core.js';
import type { Guards } from '../guards/guards.module.js';
import { Acknowledgement } from './acknowledgement.js';
import { Claim } from './claim.js';
import { CodeTexts } from './code-texts.js';
import { ReplicationWatch } from './replication-watch.js';
import { TermsCache } from './terms-cache.js';
import { TermsNotifications } from './terms-notifications.js';

/** Used by every feature that promises a unit or reports on one. */
export type Claims = {
  claim: Claim;
  acknowledgement: Acknowledgement;
  terms: TermsCache;
  termsNotifications: TermsNotifications;
  codeTexts: CodeTexts;
};

export function claimModule(core: Core, { auth, limits: { policies } }: Pick<Guards, 'auth' | 'limits'>): Claims {
  const { config, log, life, redis, commands, subscriber, gate, commits, journal, database, sale } = core;
  const replication = new ReplicationWatch(
    redis.forCommands(),
    config.waitReplicas,
    {
      waitMs: LIMITS.replicationWaitMs,
      roundMs: LIMITS.replicationRoundMs,
      maxWaiting: LIMITS.replicatedWaiting,
    },
    () => gate.server,
  );
  const acknowledgement = new Acknowledgement(commits, replication, journal, LIMITS);
  const terms = new TermsCache(new CampaignTermsTable(database), {
    capacity: LIMITS.termsKept,
    freshMs: LIMITS.termsFreshMs,
    patienceMs: LIMITS.termsPatienceMs,
    nowMs: () => performance.now(),
  });
  const termsNotifications = new TermsNotifications(commands, subscriber);
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
  return {
    claim: new Claim(sale, auth.tickets, acknowledgement, LIMITS),
    acknowledgement,
    terms,
    termsNotifications,
    codeTexts: new CodeTexts(new CodesTable(database)),
  };
}
