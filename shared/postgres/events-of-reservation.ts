/** Which events the index of the outbox by reservation has: all but the first one of a reservation. */
export const INDEXED_BY_RESERVATION = `o.type <> 'dev.doorbuster.redemption.reserved.v1'`;

/**
 * SQL that selects the numbers of the events of a reservation that are still in the outbox. The first one is found by
 * its time, through the index of the outbox by time.
 * @param r alias of the row of `redemptions`
 */
export const eventsOf = (r: string): string =>
  `select o.seq from outbox o where o.reservation_id = ${r}.redemption_id and ${INDEXED_BY_RESERVATION}
   union select o.seq from outbox o where o.occurred_at = ${r}.reserved_at and o.reservation_id = ${r}.redemption_id`;
