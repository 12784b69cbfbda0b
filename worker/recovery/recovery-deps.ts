import type { ProductId } from '../../shared/domain/ids.js';
import type { HistoryWatch } from '../../shared/history/history-watch.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { JournalHistories } from '../../shared/postgres/journal-histories.js';
import type { Database } from '../../shared/postgres/pool.js';
import type { Journal } from '../../shared/redis/journal.js';
import type { ShardMap } from '../../shared/shards/shard-map.js';
import type { ApplyRecoveredDeps } from './apply-recovered.js';
import type { RedisFill } from './redis-fill.js';
import type { RestoreDeps } from './restore-campaign.js';

/** What recovers one shard. */
export type RecoveryDeps = ApplyRecoveredDeps &
  Required<RestoreDeps> & {
    processId: string;
    /** Provides the connection that holds the recovery lock. */
    lockDatabase: Database;
    campaigns: CampaignsTable;
    places: Places;
    histories: JournalHistories;
    journal: Journal;
    fill: RedisFill;
    watch: HistoryWatch;
    gate: { readonly isOpen: boolean };
    /** Persists the journal up to an entry, while Redis is out of service. */
    drain: (upTo: string) => Promise<void>;
    leaveServer: (reason: string) => void;
    nowMs: () => Promise<number>;
  };

/** Where campaigns are. */
export type Places = {
  map: ShardMap;
  /** Whether a shard keeps a later version than Postgres has. @throws EngineUnavailable when one cannot be asked */
  isLaterInRedis: () => Promise<boolean>;
  /** Whether a campaign as Postgres has it now is in this shard. */
  isIn: (campaign: StoredCampaign) => boolean;
  /** Which of these campaigns another shard has. @throws EngineUnavailable when one cannot be asked */
  elsewhere: (products: readonly ProductId[]) => Promise<ReadonlySet<ProductId>>;
};
