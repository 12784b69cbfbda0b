import { spawnSync } from 'node:child_process';
import { createSecretKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { HandOvers } from '../../api/guards/auth/hand-over.js';
import { projectRoot } from '../../shared/config/project-root.js';
import { SIGNING_KEY } from '../harness/identity.js';

/** The examples of docs/identity.md make what the server reads. */
const text = readFileSync(join(projectRoot(), 'docs', 'identity.md'), 'utf8');
const exampleIn = (language: string) => new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(text)?.[1] ?? '';
const env = { PATH: process.env.PATH, SHOPPER_SIGNING_KEYS: `s1:${SIGNING_KEY.toString('base64')},s0:AAAA` };
const handOvers = new HandOvers([{ id: 's1', key: createSecretKey(SIGNING_KEY) }], { nowMs: Date.now }, 3_600_000);
const hasPython = spawnSync('python3', ['--version']).status === 0;

function outputOf(command: string, args: string[], input: string): string {
  const { status, stdout, stderr } = spawnSync(command, args, { input, env, encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
  return stdout.trim();
}

describe('docs/identity.md', () => {
  const expected = { user: 'ann', product: 'sale', attributes: { tier: 'gold' } };

  it('signs a hand-over in Node', () => {
    const program = `${exampleIn('js')}\nconsole.log(handOver('ann', 'sale', { tier: 'gold' }));`;
    expect(handOvers.verify(outputOf('node', ['--input-type=module', '-'], program))).toEqual(expected);
  });

  (hasPython ? it : it.skip)('signs a hand-over in Python', () => {
    const program = `${exampleIn('python')}\nprint(hand_over("ann", "sale", {"tier": "gold"}))`;
    expect(handOvers.verify(outputOf('python3', ['-'], program))).toEqual(expected);
  });
});
