import type { Event } from '../history.js';
import { type Facts, grouped } from './facts.js';
import type { Violation } from './violation.js';

type Move = Event & { what: 'move' };

/**
 * Rule 10: each campaign is in the shards where Postgres has it and in no other one, and each move arrives in the end.
 * A command that cannot do it now says why and changes nothing.
 */
export function campaignsHaveOnePlace(facts: Facts): Violation[] {
  const moves = facts.events.filter((event): event is Move => event.what === 'move');
  return [
    ...placesAgree(facts),
    ...moves.flatMap(saysWhy),
    ...[...grouped(moves, ({ product }) => product).values()].flatMap((tries) => hasArrived(facts, tries)),
  ];
}

const violation = (what: string, ...evidence: unknown[]): Violation => ({ rule: 'moves', what, evidence });

function placesAgree({ final, campaigns }: Facts): Violation[] {
  return Object.entries(final.places).flatMap(([product, place]) => {
    const [expected, found] = [new Set(place.postgres), new Set(place.redis)];
    const lacking = [...expected].filter((shard) => !found.has(shard));
    const wrong: Violation[] = [];
    if (place.redis.some((shard) => !expected.has(shard)))
      wrong.push(violation('a shard has a campaign that is in another one', product, place));
    // A closed campaign may have left Redis.
    if (lacking.length > 0 && campaigns.get(product)?.status !== 'closed')
      wrong.push(violation('a shard lacks a campaign that Postgres has there', product, place));
    return wrong;
  });
}

/** A command that was not killed ends with one of its exit codes, and with a reason unless all is done. */
function saysWhy(move: Move): Violation[] {
  const { code, output } = move;
  if (code === null || code === 0) return [];
  const isClear = (code === 1 || code === 2) && /^(?:stopped|refused|it failed): \S/m.test(output);
  return isClear && !/^ {4}at /m.test(output) ? [] : [violation('a move was refused without a clear reason', move)];
}

/** The last move of a campaign was repeated until it was done, and is in force. */
function hasArrived({ final, losses }: Facts, tries: readonly Move[]): Violation[] {
  const last = tries.at(-1);
  if (!last) return [];
  if (last.code !== 0) return [violation('a move never succeeds', last)];
  const home = final.places[last.product]?.postgres[0];
  if (home === undefined || home === last.shard || losses.bothLost(last.began)) return [];
  return [violation('a campaign is not where its last move ended', last, final.places[last.product])];
}
