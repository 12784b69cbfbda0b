import { LIMITS } from '../../shared/config/limits.js';
import type { PaymentConfig } from '../../shared/config/payments.js';
import { bucketOfReservation, FIRST_BUCKET } from '../../shared/domain/buckets.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { PaymentEvents } from '../../shared/payments/payment-events.js';
import { type Located, ReservationLookup } from '../../shared/payments/reservation-lookup.js';
import { storeIn } from '../../shared/payments/store-events.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { PaymentEventsTable } from '../../shared/postgres/payment-events.js';
import type { Database } from '../../shared/postgres/pool.js';
import { RedemptionSearch } from '../../shared/postgres/redemption-search.js';
import { ReservationOrders } from '../../shared/postgres/reservation-orders.js';
import type { Claims } from '../claim/claim.module.js';
import type { Core } from '../core.js';
import type { Guards } from '../guards/guards.module.js';
import { LocalQuota } from '../guards/limits/local-quota.js';
import type { Route } from '../http/route.js';
import { paymentRoutes } from './payment.route.js';
import { PaymentEventSearch } from './payment-event-search.js';
import { type PaymentSearchDeps, paymentSearchRoute } from './payment-search.route.js';
import { paymentSettlementRoute } from './payment-settlement.route.js';
import { paymentWebhookRoute } from './payment-webhook.route.js';
import { midtransProvider } from './providers/midtrans.js';
import type { PaymentProvider } from './providers/provider.js';
import { signedWebhookProvider } from './providers/signed-webhook.js';
import { stripeProvider } from './providers/stripe.js';

/** Payment and release of reserved units, by services and by the webhooks of payment providers, and their search. */
export function paymentModule(
  core: Core,
  { auth: { apiKeys, tickets }, limits: { policies } }: Pick<Guards, 'auth' | 'limits'>,
  { acknowledgements }: Claims,
): Route[] {
  const { config, clock, sales, shards, setBack, directory, database, metrics, log } = core;
  const lookup = new ReservationLookup({
    ...{ directory, sales },
    orders: new ReservationOrders(database),
    orderMemoryMs: LIMITS.claims.orderMemoryMs,
    nowMs: () => clock.nowMs(),
    untilPersisted: async (product) => {
      const isDivided = product !== null && sales.map.bucketsOf(product) > 1;
      const concerned = product === null || isDivided ? shards.all : [shards.of(product, FIRST_BUCKET)];
      const persisted = concerned.map(({ index }) => acknowledgements.persisted(index));
      // A process that heard of a commit does not notice by itself that Postgres has lost it.
      await Promise.all([setBack.assertWholeNow(), ...persisted]);
    },
  });
  const table = new PaymentEventsTable(database);
  const events = new PaymentEvents({
    ...{ sales, acknowledgements, lookup, table },
    store: storeIn(shards, database, table),
    untilPersisted: ({ product, id }) => acknowledgements.persisted(shards.of(product, bucketOfReservation(id)).index),
    onDuplicate: () => metrics.duplicatePayments.inc(),
  });
  const isInForce = async ({ product, id }: Located) => {
    if (shards.all.length === 1) return true;
    const bucket = bucketOfReservation(id);
    await acknowledgements.persisted(shards.of(product, bucket).index);
    const records = await sales.of(product, bucket).reader.reservationsById(product, [id]);
    return records.get(id)?.state !== 'voided';
  };
  const wrong = new LocalQuota(LIMITS.payments.wrongWebhooksPerMinute, 60_000, LIMITS.abuse.callersKept);
  return [
    ...paymentRoutes({ sales, lookup, acknowledgements, apiKeys, tickets, policies, isInForce, metrics, log }),
    paymentSearchRoute({
      search: new PaymentEventSearch(database),
      redemptions: new RedemptionSearch(database),
      campaign: campaignIn(database),
      apiKeys,
    }),
    paymentSettlementRoute({ table, apiKeys, log }),
    paymentWebhookRoute({ providers: providersOf(config.payments, () => clock.nowMs()), events, wrong, metrics, log }),
  ];
}

/** Finds a campaign for operators. */
function campaignIn(database: Database): PaymentSearchDeps['campaign'] {
  const table = new CampaignsTable(database);
  return async (idOrProduct) => {
    const found = await table.find(idOrProduct);
    if (!found) throw new Problem('campaign_not_found', 'No campaign has this id or product id.');
    return found;
  };
}

function providersOf(
  { stripeSecrets, webhookSecrets, midtransKey }: PaymentConfig,
  nowMs: () => number,
): PaymentProvider[] {
  return [
    ...(stripeSecrets.length > 0 ? [stripeProvider(stripeSecrets, nowMs)] : []),
    ...(webhookSecrets.length > 0 ? [signedWebhookProvider(webhookSecrets, nowMs)] : []),
    ...(midtransKey === null ? [] : [midtransProvider(midtransKey)]),
  ];
}
