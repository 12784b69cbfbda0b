import type { UserId } from '../../shared/domain/ids.js';
import type { UserExport } from '../../shared/postgres/user-export.js';
import { type FreshReservations, knowsAll } from './fresh-reservations.js';
import type { PersonHistory } from './person-history.js';

/** Campaigns in which Redis may have what Postgres does not have yet. */
const LIVE_CAMPAIGNS = 200;

export type ExportUserDeps = {
  stored: UserExport;
  fresh: FreshReservations;
  history: Pick<PersonHistory, 'selling' | 'active'>;
  now: () => Date;
};

/**
 * Yields the export of a user as the text of one JSON object. It holds one page of rows at a time. What Redis has comes
 * first, so that without Redis the export fails before it begins.
 * @throws EngineUnavailable
 */
export async function* exportUser(
  { stored, fresh, history, now }: ExportUserDeps,
  user: UserId,
): AsyncGenerator<string> {
  const { campaigns, more } = await history.selling(LIVE_CAMPAIGNS);
  const found = await fresh.ofUser(user, campaigns);
  const { reservations, places } = found;
  const live = {
    complete: !more && (await knowsAll(fresh, found, (products) => history.active(user, products))),
    reservations: reservations.map(({ id, product, state, qty, orderId, dueMs }) => ({
      reservation_id: id,
      product_id: product,
      state,
      qty,
      order_id: orderId,
      pay_before: dueMs > 0 ? new Date(dueMs).toISOString() : null,
    })),
    places: places.map(({ product, position }) => ({ product_id: product, position })),
  };
  yield `{"user_id":${JSON.stringify(user)},"exported_at":"${now().toISOString()}","live":${JSON.stringify(live)}`;
  for (const section of stored.sections) {
    let separator = `,\n"${section}":[`;
    for await (const rows of stored.rows(section, user)) {
      for (const row of rows) {
        yield separator + row;
        separator = ',\n';
      }
    }
    yield separator.endsWith('[') ? `${separator}]` : ']';
  }
  yield '}\n';
}
