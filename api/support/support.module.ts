import { Problem } from '../../shared/errors/catalogue.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { CodesTable } from '../../shared/postgres/codes.js';
import { Erasures } from '../../shared/postgres/erasures.js';
import { RedemptionSearch } from '../../shared/postgres/redemption-search.js';
import { UserExport } from '../../shared/postgres/user-export.js';
import type { Claims } from '../claim/claim.module.js';
import type { Core } from '../core.js';
import type { Guards } from '../guards/guards.module.js';
import type { Route } from '../http/route.js';
import { FreshReservations } from './fresh-reservations.js';
import { PersonHistory } from './person-history.js';
import { RedemptionFinder } from './redemption-finder.js';
import { reservationRoutes } from './reservation.route.js';
import { rightsRoutes } from './rights.route.js';
import { supportRoutes } from './support.route.js';
import { SupportActions } from './support-actions.js';

/** Finding users, orders and payments, helping users, and their rights. */
export function supportModule(core: Core, guards: Guards, { acknowledgements }: Claims): Route[] {
  const { database, sales, directory, setBack, queues, clock, log } = core;
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
  const wake = () => {
    queues.bringForward('erasures').catch(() => {
      // Redis is away. The erasure begins with the next run of the sweep.
    });
  };
  return [
    ...supportRoutes({ finder, history, actions, apiKeys, log }),
    ...reservationRoutes({ finder, setBack, apiKeys }),
    ...rightsRoutes({ erasures: new Erasures(database), wake, exported, database, apiKeys, log }),
  ];
}
