import type { Queryable } from './pool.js';

/** An event of the stream. */
export type Published = { seq: number; id: string; atMs: number };

/**
 * Makes new events continue after the numbers of the stream. Events whose number another event has had were never
 * published, so they get a new number. The stream may no longer have the other event, or have skipped the number.
 * Then an event is new if it happened after the next one in the stream. An event about an erased user, which was
 * removed from the stream, did not.
 * @param published the events of the stream, in their order
 * @returns how many events got a new number
 */
export async function continueOutbox(
  client: Queryable,
  lastSeq: number,
  published: readonly Published[],
): Promise<number> {
  await raiseSequence(client, 'outbox', 'seq', lastSeq);
  const [first] = published;
  if (!first) return 0;
  const { rows } = await client.query<{ seq: string; event_id: string; occurred_at: Date }>(
    `select seq, event_id, occurred_at from outbox_events
     where seq <= $1 and (seq >= $2 or occurred_at > ms($3)) order by seq`,
    [lastSeq, first.seq, first.atMs],
  );
  let [renumbered, next] = [0, 0];
  for (const row of rows) {
    const seq = Number(row.seq);
    while ((published[next]?.seq ?? seq) < seq) next += 1;
    const other = published[next];
    const isNew = other?.seq === seq ? other.id !== row.event_id : other && row.occurred_at.getTime() > other.atMs;
    if (!isNew) continue;
    await client.query('update outbox set seq = default where seq = $1', [seq]);
    renumbered += 1;
  }
  return renumbered;
}

/** Makes the sequence of a column continue after `to`, if it has not passed that number. */
export async function raiseSequence(client: Queryable, table: string, column: string, to: number): Promise<void> {
  await client.query(
    `select setval(name, $3) from (select pg_get_serial_sequence($1, $2)::regclass as name) s
       where coalesce(pg_sequence_last_value(name), 0) < $3::bigint`,
    [table, column, to],
  );
}
