export type PersonRecord = {
  state: 'queued' | 'held' | 'left';
  /** Whether he stands in the line; somebody whose line was closed is `queued` and does not. */
  inLine: boolean;
  slots: number[];
  lineNo: number;
  qty: number;
  reservationId: string;
  orderId: string;
  /** Number of the code he came with or was handed; null = none. */
  code: number | null;
};

/** The form that lua/includes/records.lua reads. */
export function encodePerson(person: PersonRecord): string {
  const { state, slots, lineNo, qty, reservationId, orderId, code } = person;
  return [state, slots.join(','), lineNo, qty, reservationId, orderId, code ?? ''].join('|');
}
