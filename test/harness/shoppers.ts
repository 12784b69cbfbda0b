import { randomUUID } from 'node:crypto';
import { type Answer, Shopper } from './clients.js';
import { freshToken } from './tokens.js';
import { until } from './until.js';

/** Shoppers with a device and a fresh token each, signed here: a thousand of them cost no requests. */
export function gatherShoppers(url: string, product: string, count: number): Shopper[] {
  return Array.from({ length: count }, () => arrive(url, product));
}

/** One shopper with a fresh token. */
export function arrive(url: string, product: string, user = `user-${randomUUID()}`): Shopper {
  const shopper = new Shopper(url, product, user);
  shopper.token = freshToken(shopper.device);
  return shopper;
}

/** All users check out at the same moment. */
export function checkoutAtOnce(shoppers: readonly Shopper[], fields: Record<string, unknown> = {}): Promise<Answer[]> {
  return Promise.all(shoppers.map((shopper) => shopper.checkout(fields)));
}

/**
 * A burst whose answers all came within a second, the window of a device's quota. A busy machine may need another one,
 * so each call of `burst` takes a new device.
 */
export function withinASecond(burst: () => Promise<Answer[]>): Promise<Answer[]> {
  return until('a burst takes less than a second', async () => {
    const began = performance.now();
    const answers = await burst();
    return performance.now() - began < 1_000 && answers;
  });
}

/** One after the other, so that the order of the line is known. */
export async function checkoutInTurn(shoppers: readonly Shopper[]): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (const shopper of shoppers) answers.push(await shopper.checkout());
  return answers;
}

/** All check out at the same moment and join the line. @returns them in the order of their places */
export async function joinLine(shoppers: readonly Shopper[]): Promise<Shopper[]> {
  const answers = await checkoutAtOnce(shoppers);
  const places = new Map(shoppers.map((shopper, i) => [shopper, Number(answers[i]?.data.position)]));
  return [...shoppers].sort((a, b) => Number(places.get(a)) - Number(places.get(b)));
}

/** Works through `items`, never more than `width` of them at the same time. */
export async function forEachAtMost<Item>(
  width: number,
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const queue = [...items];
  const lane = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: width }, lane));
}

/** How many answers have each status: `{ 200: 100, 202: 100 }`. */
export function countStatuses(answers: readonly { status: number }[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

/** `from`, …, `to`. */
export function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i);
}

/** The one answer that has this status; there must be exactly one. */
export function theOne(answers: readonly Answer[], status: number): Answer {
  const [found, ...more] = answers.filter((answer) => answer.status === status);
  if (!found || more.length > 0)
    throw new Error(`not exactly one ${status} in ${JSON.stringify(countStatuses(answers))}`);
  return found;
}
