import { count, duration } from './words.js';

/** null = unlimited */
export type RegionCounts = {
  free: number | null;
  held: number;
  redeemed: number;
  waiting: number;
};

/** The numbers of a region in the order of the columns. @param units null = they are not known */
export function unitsTexts(units: RegionCounts | null): string[] {
  if (!units) return ['–', '–', '–', '–'];
  const { free, held, redeemed, waiting } = units;
  return [free, held, redeemed, waiting].map((number) => (number === null ? 'unlimited' : count(number)));
}

/** Whether a region can be called, in words. */
export function linkText(
  own: boolean,
  { problem, reply_age_seconds: age }: { problem: string | null; reply_age_seconds: number | null },
): string {
  if (own) return problem === null ? 'serves' : `does not serve: ${problem}`;
  if (problem === null) return 'replies';
  return age === null ? `no reply yet: ${problem}` : `no reply for ${duration(age * 1000)}: ${problem}`;
}
