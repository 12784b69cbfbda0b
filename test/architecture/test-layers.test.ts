import { expect, test } from '@jest/globals';
import { isLong, leftOutOn, testFiles } from '../../scripts/test-layers.mjs';
import { projectRoot } from '../../shared/config/project-root.js';

const DAY_MS = 86_400_000;
const files = testFiles(projectRoot());
const long = files.filter(isLong);

test('each long test file runs on one of four days, and every other file on each', () => {
  expect(long.length).toBeGreaterThan(8);
  const days = [0, 1, 2, 3].map((day) => leftOutOn(files, (20_785 + day) * DAY_MS));
  for (const file of long) expect([file, days.filter((leftOut) => leftOut.includes(file)).length]).toEqual([file, 3]);
  for (const leftOut of days) expect(leftOut.filter((file) => !isLong(file))).toEqual([]);
  expect(leftOutOn(files, 20_789 * DAY_MS)).toEqual(days[0]);
});
