import type { Redis } from 'ioredis';
import type { ProductId } from '../../shared/domain/ids.js';
import { keys } from '../../shared/redis/keys.js';
import { recordIn } from '../../shared/redis/record-format.js';
import { PERSON, RESERVATION } from '../../shared/redis/record-formats.js';
import { unpackTerms } from '../../shared/sale/packed-terms.js';

/** What Redis holds of one campaign, read in one moment and taken apart independently of the product's own decoders. */
export type CampaignInRedis = {
  fields: Record<string, string>;
  reservations: Map<string, ReservationInRedis>;
  people: Map<string, PersonInRedis>;
  /** Reservation → deadline. */
  deadlines: Map<string, number>;
  /** First in line first. */
  line: { user: string; lineNo: number; away: boolean }[];
  /** When a waiting user was last seen; negative: stepped back, and until when their place is kept. */
  presence: Map<string, number>;
  /** Numbers of the codes that are marked as used. */
  usedCodes: number[];
};
export type ReservationInRedis = {
  state: string;
  user: string;
  qty: number;
  slot: number;
  dueMs: number;
  lineNo: number;
  order: string;
  code: string;
  /** `released,refunded,burned` units that it gave back while it kept others; "" = none */
  reduced: string;
};
export type PersonInRedis = {
  state: string;
  slots: number[];
  lineNo: number;
  qty: number;
  reservation: string;
  order: string;
  code: string;
};

export async function readCampaign(redis: Redis, product: ProductId): Promise<CampaignInRedis> {
  const results = await redis
    .multi()
    .hgetall(keys.campaign(product))
    .hgetall(keys.reservations(product))
    .hgetall(keys.people(product))
    .zrange(keys.deadlines(product), '0', '-1', 'WITHSCORES')
    .zrange(keys.line(product), '0', '-1', 'WITHSCORES')
    .getBuffer(keys.usedCodes(product))
    .zrange(keys.presence(product), '0', '-1', 'WITHSCORES')
    .exec();
  const [fields, reservations, people, deadlines, line, used, presence] = (results ?? []).map(([error, value]) => {
    if (error) throw error;
    return value;
  }) as [
    Record<string, string>,
    Record<string, string>,
    Record<string, string>,
    string[],
    string[],
    Buffer | null,
    string[],
  ];
  return {
    fields,
    reservations: new Map(Object.entries(reservations).map(([id, text]) => [id, unpackReservation(text)])),
    people: new Map(Object.entries(people).map(([user, text]) => [user, unpackPerson(text)])),
    deadlines: new Map(pairs(deadlines)),
    line: pairs(line).map(([user, score]) => ({ user, lineNo: score % AWAY, away: score >= AWAY })),
    presence: new Map(pairs(presence)),
    usedCodes: bitsOf(used ?? Buffer.alloc(0)),
  };
}

/** The terms that scripts read, by their names. */
export async function termsInRedis(redis: Redis, product: ProductId): Promise<Record<string, string>> {
  return unpackTerms((await redis.hget(keys.campaign(product), 'terms')) ?? '');
}

/** The number that is added to the line number of a user who stepped back. */
const AWAY = 2 ** 52;

function bitsOf(bitmap: Buffer): number[] {
  return Array.from({ length: bitmap.length * 8 }, (_, bit) => bit + 1).filter(
    (number) => ((bitmap[(number - 1) >> 3] ?? 0) >> (7 - ((number - 1) & 7))) & 1,
  );
}

/** A malformed record is a state of its own. */
function unpackReservation(text: string): ReservationInRedis {
  const malformed = {
    state: text,
    user: '',
    qty: 0,
    slot: 0,
    due: 0,
    line_no: 0,
    order_id: '',
    code: null,
    reduced: '',
  };
  const { due, line_no, order_id, ...record } = recordIn(RESERVATION, text) ?? malformed;
  return { ...record, dueMs: due, lineNo: line_no, order: order_id, code: textOf(record.code) };
}

function unpackPerson(text: string): PersonInRedis {
  const malformed = { state: text, slots: [], line_no: 0, qty: 0, reservation_id: '', order_id: '', code: null };
  const { line_no, reservation_id, order_id, ...record } = recordIn(PERSON, text) ?? malformed;
  return { ...record, lineNo: line_no, reservation: reservation_id, order: order_id, code: textOf(record.code) };
}

const textOf = (code: number | null): string => (code === null ? '' : String(code));

function pairs(flat: readonly string[]): [string, number][] {
  return Array.from({ length: flat.length / 2 }, (_, i) => [String(flat[2 * i]), Number(flat[2 * i + 1])]);
}

const ACTIVE = new Set(['reserved', 'redeemed', 'reacquired', 'burned']);

/**
 * Whether everything that Redis holds of a campaign fits together: counters and records, deadlines, line, allowances.
 * @returns what does not, in words; empty when all is well
 */
export async function auditCampaign(redis: Redis, product: ProductId): Promise<string[]> {
  return inconsistencies(product, await readCampaign(redis, product));
}

export function inconsistencies(product: ProductId, campaign: CampaignInRedis): string[] {
  const problems: string[] = [];
  const equal = (what: string, actual: unknown, expected: unknown) => {
    const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)];
    if (a !== b) problems.push(`${product}: ${what} is ${a}, not ${b}`);
  };
  const number = (name: string) => Number(campaign.fields[name]);
  const unitsIn = (...states: string[]) =>
    [...campaign.reservations.values()]
      .filter(({ state }) => states.includes(state))
      .reduce((sum, { qty }) => sum + qty, 0);

  for (const counter of ['free', 'held', 'redeemed', 'burned', 'waiting', 'last_line_no']) {
    if (!(number(counter) >= 0)) problems.push(`${product}: ${counter} is ${campaign.fields[counter]}`);
  }
  if (number('total') !== -1) {
    equal(
      'free + held + redeemed + burned',
      number('free') + number('held') + number('redeemed') + number('burned'),
      number('total'),
    );
  }
  // Of an archived campaign only those are here who were recalled.
  const archived = campaign.fields.archived !== undefined;
  equal('held', number('held'), unitsIn('reserved'));
  if (!archived) {
    equal('redeemed', number('redeemed'), unitsIn('redeemed', 'reacquired'));
    const burnedInPart = [...campaign.reservations.values()]
      .filter(({ state }) => state !== 'voided')
      .reduce((sum, { reduced }) => sum + Number(reduced.split(',')[2] ?? 0), 0);
    equal('burned', number('burned'), unitsIn('burned') + burnedInPart);
  }

  const reserved = [...campaign.reservations].filter(([, { state }]) => state === 'reserved');
  const byId = ([a]: [string, number], [b]: [string, number]) => (a < b ? -1 : 1);
  const expectedDeadlines = reserved.map(([id, { dueMs }]): [string, number] => [id, dueMs]).sort(byId);
  equal('the set of deadlines', [...campaign.deadlines].sort(byId), expectedDeadlines);

  equal('waiting', number('waiting'), campaign.line.length);
  for (const { user, lineNo } of campaign.line) {
    const person = campaign.people.get(user);
    equal(`the state of ${user}, who stands in the line,`, person?.state, 'queued');
    equal(`the line number of ${user}`, person?.lineNo, lineNo);
    if (lineNo > number('last_line_no')) problems.push(`${product}: ${user} has a line number that was never given`);
  }

  const inLine = new Map(campaign.line.map((place) => [place.user, place]));
  for (const [user, seen] of campaign.presence) {
    if (seen < 0 !== inLine.get(user)?.away)
      problems.push(`${product}: ${user} was seen at ${seen} and stands elsewhere`);
  }

  const codes = [
    ...[...campaign.reservations.values()].filter(({ state }) => ACTIVE.has(state)).map(({ code }) => code),
    // Also of those whose line was closed: they keep what they came with. Who is recalled may have lost it to others
    // long ago.
    ...[...campaign.people.values()].filter(({ state }) => state === 'queued' && !archived).map(({ code }) => code),
  ].filter((code) => code !== '');
  equal(
    'the set of used codes',
    archived ? codes.filter((code) => !campaign.usedCodes.includes(Number(code))) : campaign.usedCodes,
    archived ? [] : codes.map(Number).sort((a, b) => a - b),
  );

  const limit = Number(unpackTerms(campaign.fields.terms ?? '').per_user_limit);
  const slotsOf = new Map<string, number[]>();
  for (const { state, user, slot } of campaign.reservations.values()) {
    if (ACTIVE.has(state)) slotsOf.set(user, [...(slotsOf.get(user) ?? []), slot]);
  }
  for (const user of new Set([...campaign.people.keys(), ...slotsOf.keys()])) {
    const used = (slotsOf.get(user) ?? []).sort();
    equal(`the allowances of ${user}`, [...(campaign.people.get(user)?.slots ?? [])].sort(), used);
    if (new Set(used).size !== used.length) problems.push(`${product}: ${user} has one allowance twice`);
    if (used.some((slot) => slot < 1 || slot > limit)) {
      problems.push(`${product}: ${user} has the allowances ${used} of ${limit}`);
    }
  }
  return problems;
}
