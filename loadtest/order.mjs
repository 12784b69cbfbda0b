// Checks the order of service person by person, by what each of them saw: when they asked, and when they had a place.

/**
 * One person. `asked` and `placed` are moments of one clock: the first try of the checkout, and its response.
 * @typedef {{ user: string, asked: number, placed: number, direct: boolean }} Person direct: a unit at once, and not a
 *   place in line
 */

/**
 * Returns who was served past another person: who has a unit and asked after a person who still waits had a place.
 * @param {readonly Person[]} people
 * @param {ReadonlySet<string>} served users with a unit
 * @returns {{ user: string, past: string }[]}
 */
export function servedPast(people, served) {
  const first = earliest(people.filter(({ user }) => !served.has(user)));
  if (!first) return [];
  return people
    .filter(({ user, asked }) => served.has(user) && asked > first.placed)
    .map(({ user }) => ({ user, past: first.user }));
}

/**
 * Returns who got a unit at once although another person already had a place in line.
 * @param {readonly Person[]} people
 * @returns {{ user: string, past: string }[]}
 */
export function servedBesideTheLine(people) {
  const first = earliest(people.filter(({ direct }) => !direct));
  if (!first) return [];
  return people
    .filter(({ direct, asked }) => direct && asked > first.placed)
    .map(({ user }) => ({ user, past: first.user }));
}

/** @param {readonly Person[]} people */
function earliest(people) {
  return people.reduce(
    (/** @type {Person | null} */ first, one) => (first === null || one.placed < first.placed ? one : first),
    null,
  );
}
