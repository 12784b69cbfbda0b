import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { projectRoot } from './project-root.js';

/** Prints each flag that the program gives to V8, which itself does not tell them. */
const PRINTED = `data:text/javascript,${encodeURIComponent(`
  import v8 from 'node:v8';
  import { syncBuiltinESMExports } from 'node:module';
  const { setFlagsFromString } = v8;
  v8.setFlagsFromString = (flag) => {
    console.log(flag);
    setFlagsFromString(flag);
  };
  syncBuiltinESMExports();
`)}`;

test.each([
  ['api', 20],
  ['worker', 50],
])('the %s chooses how V8 collects garbage, with flags that this Node knows', (program, growth) => {
  // Without settings it ends at once, after that.
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ['--import', PRINTED, join(projectRoot(), `dist/${program}/main.js`)],
    { encoding: 'utf8', env: { PATH: process.env.PATH } },
  );
  expect(stdout).toContain(`--no-allocation-site-pretenuring\n--heap-growing-percent=${growth}\n`);
  expect(stderr).not.toContain('unrecognized flag');
});
