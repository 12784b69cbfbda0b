import { ClaimErasure } from '../../shared/archive/claim-erasure.js';
import { LIMITS } from '../../shared/config/limits.js';
import type { UserId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { BansTable } from '../../shared/postgres/bans.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { CodesTable } from '../../shared/postgres/codes.js';
import { Erasures } from '../../shared/postgres/erasures.js';
import { PersonHistory } from '../../shared/postgres/person-history.js';
import { RedemptionSearch } from '../../shared/postgres/redemption-search.js';
import { UserExport } from '../../shared/postgres/user-export.js';
import { type CampaignOfUser, UserRows } from '../../shared/postgres/user-rows.js';
import { JournalCursor } from '../../shared/projection/journal-cursor.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import { UserRecords } from '../../shared/sale/user-records.js';
import type { Claims } from '../claim/claim.module.js';
import type { Core } from '../core.js';
import type { Guards } from '../guards/guards.module.js';
import type { Route } from '../http/route.js';
import { EraseUser } from './erase-user.js';
import { FreshReservations } from './fresh-reservations.js';
import { RedemptionFinder } from './redemption-finder.js';
import { reservationRoutes } from './reservation.route.js';
import { rightsRoutes } from './rights.route.js';
import { supportRoutes } from './support.route.js';
import { SupportActions } from './support-actions.js';

/** Finding users, orders and payments, helping users, and their rights. */
export function supportModule(core: Core, guards: Guards, { acknowledgements }: Claims): Route[] {
  const { database, sales, directory, clock, log } = core;
  const { apiKeys } = guards.auth;
  const table = new CampaignsTable(database);
  const history = new PersonHistory(database);
  const fresh = new FreshReservations(sales, directory);
  const campaign = async (idOrProduct: string) => {
    const found = await table.find(idOrProduct);
    if (!found) throw new Problem('campaign_not_found', 'No campaign has this id or product id.');
    return found;
  };
  const finder = new RedemptionFinder({
    search: new RedemptionSearch(database),
    history,
    codes: new CodesTable(database),
    fresh,
    campaign,
  });
  const campaignByNo = (no: Parameters<CampaignsTable['findByNo']>[0]) => table.findByNo(no);
  const actions = new SupportActions({ database, sales, acknowledgements, campaign, campaignByNo });
  const exported = { stored: new UserExport(database), fresh, history, now: () => new Date(clock.nowMs()) };
  const erasure = createErasure(core, guards, acknowledgements);
  return [
    ...supportRoutes({ finder, history, actions, apiKeys, log }),
    ...reservationRoutes({ finder, apiKeys }),
    ...rightsRoutes({ erasure, exported, database, apiKeys, log }),
  ];
}

function createErasure(
  { config, shards, database, sales }: Core,
  { abuse: { bans } }: Guards,
  acknowledgements: Claims['acknowledgements'],
): EraseUser {
  const cursor = new JournalCursor(database, 0, config.shards > 1);
  const table = new BansTable(database);
  const rows = new UserRows(database, async (client) => {
    await cursor.lock(client);
    await cursor.lockWrites(client);
  });
  const recordsOf = ({ productId }: CampaignOfUser, user: UserId) =>
    new UserRecords(sales.of(productId, sales.bucketOf(productId, user)).reader.scripts);
  return new EraseUser({
    erasures: new Erasures(database),
    rows,
    claims: new ClaimErasure({ rows, recordsOf }),
    stream: new EventStream(shards.home.scripts, LIMITS.eventStreamLength),
    persisted: async () => {
      await Promise.all(shards.all.map(({ index }) => acknowledgements.persisted(index)));
    },
    liftBan: async (id, { name }) => {
      await database.transaction((client) => table.lift(id, name, client));
      await bans.announceLifted(id);
    },
    limits: LIMITS,
  });
}
