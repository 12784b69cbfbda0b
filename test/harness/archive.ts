import { ArchiveRecall } from '../../shared/archive/archive-recall.js';
import { ArchivedPeople } from '../../shared/postgres/archived-people.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { RequestNames } from '../../shared/redis/request-names.js';
import { CampaignArchive } from '../../shared/sale/campaign-archive.js';
import { SaleStore } from '../../shared/sale/sale-store.js';
import { ArchiveClosed, type ArchiveDeps, type ArchiveLimits } from '../../worker/archive/archive-closed.js';
import { IdempotencyKeys } from '../../worker/archive/idempotency-keys.js';
import type { TestCampaign } from './campaign.js';
import type { Persistence } from './persistence.js';
import { type Sale, TEST_LIMITS } from './sale.js';

/** Archives at once, without the pause for returning users. */
export const AT_ONCE: ArchiveLimits = {
  entries: 500,
  graceMs: 0,
  restMs: 0,
  differsMs: 0,
  runMs: 20_000,
  forgetBatch: 500,
};

type PeopleReader = Pick<ArchivedPeople, 'read' | 'usersOf' | 'committed'>;

/** The worker's archive, called directly, and the sale as those meet it who come back. */
export class TestArchive {
  readonly archive: CampaignArchive;
  readonly people: ArchivedPeople;
  readonly store: SaleStore;

  constructor(
    readonly sale: Sale,
    readonly persistence: Persistence,
  ) {
    this.archive = new CampaignArchive(sale.store.scripts);
    this.people = new ArchivedPeople(persistence.database);
    this.store = this.storeWith(this.people);
  }

  /** A sale whose people are looked up by another reader. */
  storeWith(people: PeopleReader, idempotencyTtlMs = TEST_LIMITS.idempotencyTtlMs): SaleStore {
    return new SaleStore(this.sale.store.scripts, TEST_LIMITS, null, this.recallWith(people, idempotencyTtlMs));
  }

  recallWith(people: PeopleReader, idempotencyTtlMs = TEST_LIMITS.idempotencyTtlMs): ArchiveRecall {
    const limits = { recallGroup: 500, recallsWaiting: 10_000, recalledAnswerMs: 10_000, idempotencyTtlMs };
    return new ArchiveRecall(people, 0, this.archive, () => Date.now(), limits);
  }

  worker(limits: Partial<ArchiveLimits> = {}, parts: Partial<ArchiveDeps> = {}): ArchiveClosed {
    const { database, campaigns, cursor, log } = this.persistence;
    return new ArchiveClosed({
      bucketIn: () => 0,
      redemptions: new RedemptionsTable(database),
      campaigns,
      cursor,
      sale: this.sale.store.reader,
      archive: this.archive,
      idempotencyKeys: new IdempotencyKeys(database),
      requests: new RequestNames(this.sale.redis),
      log,
      ...parts,
      limits: { ...AT_ONCE, ...limits },
    });
  }

  /** Closes a campaign, writes what it has journaled, and archives it. @returns it as those meet it who come back */
  async closeAndArchive(campaign: TestCampaign): Promise<TestCampaign> {
    await campaign.setStatus('close');
    await this.persistence.persist();
    await this.worker().run();
    if (!(await campaign.store.reader.archived(campaign.product))) throw new Error('the campaign was not archived');
    return campaign.through(this.store);
  }
}
