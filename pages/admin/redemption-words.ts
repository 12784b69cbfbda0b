import { count } from './words.js';

/** A redemption as GET /admin/redemptions returns it. */
export type Redemption = {
  redemption_id: string;
  product_id: string;
  campaign_name: string;
  user_id: string;
  order_id: string;
  qty: number;
  status: 'reserved' | 'redeemed' | 'released' | 'expired' | 'refunded' | 'voided';
  burned: boolean;
  waited: boolean;
  reserved_at: string;
  pay_before: string | null;
  redeemed_at: string | null;
  released_at: string | null;
  refunded_at: string | null;
  reason: string | null;
  metadata?: Record<string, string>;
  /** Units that were given back while the reservation kept `qty`. */
  released_qty?: number;
  refunded_qty?: number;
  burned_qty?: number;
  payment_ref: string | null;
  code: string | null;
  written: boolean;
};
export type Place = {
  product_id: string;
  campaign_name: string;
  status: 'waiting' | 'promoted' | 'left' | 'closed';
  position: number | null;
  qty: number | null;
  joined_at: string | null;
  ended_at: string | null;
};
export type Moment = {
  at: string;
  kind: string;
  product_id: string | null;
  reservation_id: string | null;
  detail: string | null;
  by: string | null;
};

const STATUS: Record<Redemption['status'], { word: string; tone: string }> = {
  reserved: { word: 'To be paid', tone: 'warn' },
  redeemed: { word: 'Paid', tone: 'good' },
  released: { word: 'Released', tone: 'off' },
  expired: { word: 'Expired', tone: 'off' },
  refunded: { word: 'Refunded', tone: 'plain' },
  voided: { word: 'Voided', tone: 'bad' },
};

/** The status of a redemption in the words of support. */
export const statusOf = ({ status }: Pick<Redemption, 'status'>): { word: string; tone: string } => STATUS[status];

/** The status of a place in the line. */
export function placeText({ status, position }: Pick<Place, 'status' | 'position'>): string {
  switch (status) {
    case 'waiting':
      return position === null ? 'Waiting' : `Waiting, position ${position}`;
    case 'promoted':
      return 'Got a unit';
    case 'left':
      return 'Left the line';
    default:
      return 'The line was closed';
  }
}

const MOMENTS: Record<string, string> = {
  attempt: 'Tried a code',
  joined: 'Joined the line',
  promoted: 'Got a unit from the line',
  left: 'Left the line',
  line_closed: 'The line was closed',
  reserved: 'Got a unit',
  redeemed: 'Paid',
  paid_again: 'Paid a second time',
  reduced: 'Units given back',
  released: 'Unit released',
  expired: 'Time to pay ran out',
  refunded: 'Refunded',
  voided: 'Voided: the database rejected it',
  operator: 'An operator acted',
  banned: 'Ban or allowance',
};

/** The units of a reservation, and how many it gave back while it kept these. */
export function unitsText(row: Pick<Redemption, 'qty' | 'released_qty' | 'refunded_qty' | 'burned_qty'>): string {
  const { qty, released_qty = 0, refunded_qty = 0, burned_qty = 0 } = row;
  const parts: [number, string][] = [
    [released_qty, 'released'],
    [refunded_qty, 'refunded'],
    [burned_qty, 'of these burned'],
  ];
  return [count(qty), ...parts.flatMap(([units, what]) => (units > 0 ? `${count(units)} ${what}` : []))].join(', ');
}

/** What a moment of a timeline is called. */
export const momentText = ({ kind }: Pick<Moment, 'kind'>): string => MOMENTS[kind] ?? kind;

/** Parameters of a search, one for each field that the typed text may be. */
export function searchesOf(text: string, field: string): Record<string, string>[] {
  const typed = text.trim();
  if (typed === '') return [];
  if (field !== '') return [{ [field]: typed }];
  if (/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(typed)) return [{ reservation_id: typed }];
  const isId = /^[A-Za-z0-9._:@-]{1,128}$/.test(typed);
  const isCode = /^[A-Za-z0-9 -]{1,64}$/.test(typed);
  return [
    ...(isId ? [{ user_id: typed }, { order_id: typed }] : []),
    { payment_ref: typed },
    ...(isCode ? [{ code: typed }] : []),
  ];
}
