import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { DEFAULT_COSTS } from './costs.mjs';
import { readOptions } from './options.mjs';

const folder = mkdtempSync(join(tmpdir(), 'doorbuster-plan-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const LEAST = ['--people', '1000', '--units', '10', '--within', '10s'];

describe('readOptions', () => {
  it('reads numbers with separators, times and shares', () => {
    const args = [
      '--people=1,000,000',
      '--units',
      '50_000',
      '--within',
      '1.5m',
      '--polling',
      '500ms',
      '--sockets',
      '.25',
    ];
    expect(readOptions([...args, '--sold-out', '--nodes', '3', '--cores', '0.5'])).toMatchObject({
      what: 'plan',
      demand: {
        people: 1e6,
        units: 50_000,
        withinSeconds: 90,
        pollSeconds: 0.5,
        sockets: 0.25,
        line: false,
        nodes: 3,
        cores: 0.5,
      },
    });
  });

  it('leaves to the plan what is not given', () => {
    expect(readOptions(LEAST)).toMatchObject({
      demand: {
        campaigns: 1,
        nodes: null,
        api: null,
        machines: null,
        cores: 4,
        headroom: 0.3,
        holdSeconds: 900,
        line: true,
      },
    });
  });

  const refused: [string, string[], RegExp][] = [
    ['nothing', [], /--people is missing/],
    ['no time', LEAST.slice(0, 4), /--within is missing/],
    ['an unknown option', [...LEAST, '--fast'], /no option --fast/],
    ['a value that is missing', ['--people'], /--people needs a value/],
    ['people who are none', [...LEAST, '--people', '0'], /--people 0: expected a whole number from 1/],
    ['a fraction of people', [...LEAST, '--people', '1.5'], /--people 1\.5: expected a whole number/],
    ['a time without a unit', [...LEAST, '--within', '10'], /--within 10: expected a time/],
    ['a time of nothing', [...LEAST, '--within', '0s'], /--within 0s: expected a time/],
    ['a share above one', [...LEAST, '--sockets', '2'], /--sockets 2: expected a share from 0 to 1/],
    ['no headroom left', [...LEAST, '--headroom', '1'], /--headroom 1: expected a share from 0 to 0\.8/],
    ['no cores', [...LEAST, '--cores', '0'], /--cores 0: expected a number from 0\.1/],
    ['too many nodes', [...LEAST, '--nodes', '65'], /--nodes 65: expected .* 64/],
    ['more campaigns than people', [...LEAST, '--campaigns', '2000'], /fewer people than campaigns/],
    ['a demand to measure', ['--measure', ...LEAST], /--measure takes no demand/],
    ['a file to write without a measurement', [...LEAST, '--write', 'x'], /--write goes with --measure/],
  ];
  it.each(refused)('refuses %s', (_what, args, says) => {
    expect(() => readOptions(args)).toThrow(says);
  });
});

describe('npm run plan', () => {
  const plan = (...args: string[]): Promise<{ code: number; output: string }> =>
    new Promise((resolve) => {
      execFile(process.execPath, [join(projectRoot(), 'loadtest/plan/main.mjs'), ...args], (error, stdout, stderr) =>
        resolve({ code: error ? Number(error.code ?? -1) : 0, output: `${stdout}${stderr}` }),
      );
    });

  it('prints a plan, and exits with 1 when it does not hold as asked', async () => {
    const fine = await plan(...LEAST);
    expect([fine.code, fine.output.startsWith('1,000 people within 10 s')]).toEqual([0, true]);
    const tooMuch = await plan('--people', '1000000', '--units', '50000', '--within', '1s');
    expect([tooMuch.code, tooMuch.output.includes('more than the 16 buckets')]).toEqual([1, true]);
  });

  it('takes other costs, and prints JSON', async () => {
    const path = join(folder, 'costs.json');
    const place = { ...DEFAULT_COSTS.cpu_us.place, redis: 1_000_000 };
    writeFileSync(path, JSON.stringify({ ...DEFAULT_COSTS, cpu_us: { ...DEFAULT_COSTS.cpu_us, place } }));
    const { output } = await plan(...LEAST, '--costs', path, '--json');
    const { costs, campaign } = JSON.parse(output);
    expect([costs.cpu_us.place.redis, campaign.cores]).toEqual([1_000_000, 100]);
  });

  it('says what to do about a mistake, and exits with 2', async () => {
    const mistake = await plan('--people', 'many');
    expect(mistake.code).toBe(2);
    expect(mistake.output).toMatch(/--people many: expected[\s\S]*npm run plan -- --help/);
    expect(mistake.output).not.toMatch(/at .*\.mjs:\d+/);
    const missing = await plan(...LEAST, '--costs', join(folder, 'none.json'));
    expect([missing.code, missing.output.includes('--measure')]).toEqual([2, true]);
  });

  it('has help', async () => {
    const { code, output } = await plan('--help');
    expect([code, output.includes('--within TIME')]).toEqual([0, true]);
  });
});
