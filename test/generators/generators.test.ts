import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { installPackages, isInstalled } from '../../scripts/install.mjs';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';
import { startService } from '../harness/service.js';

/** The generators have packages of their own, because they need an older TypeScript than the project. */
const GENERATORS = join(projectRoot(), 'test/generators');
if (!isInstalled(GENERATORS)) await installPackages(GENERATORS);

const service = await startService();
const folder = mkdtempSync(join(process.env.DOORBUSTER_TEST_DIR ?? tmpdir(), 'generators-'));
atEnd('the output of generators', async () => rmSync(folder, { recursive: true, force: true }));
symlinkSync(join(projectRoot(), 'node_modules'), join(folder, 'node_modules'));
const input = join(folder, 'openapi.json');
writeFileSync(input, await (await fetch(`${service.url}/openapi.json`)).text());

function run(program: string, args: readonly string[]): void {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], { cwd: folder, encoding: 'utf8' });
  expect([status, `${stdout}${stderr}`]).toEqual([0, expect.anything()]);
}

/** Type-checks files as a strict project does. @returns what the compiler reports */
function compile(...files: string[]): string {
  const options = ['--noEmit', '--strict', '--noUncheckedIndexedAccess', '--target', 'es2023', '--types', 'node'];
  const resolution = ['--lib', 'es2023,dom,dom.iterable', '--module', 'nodenext', '--skipLibCheck'];
  const tsc = join(projectRoot(), 'node_modules/typescript/bin/tsc');
  return spawnSync(process.execPath, [tsc, ...options, ...resolution, ...files], { cwd: folder, encoding: 'utf8' })
    .stdout;
}

test('what openapi-typescript generates compiles, and names operations, schemas and webhooks', () => {
  run(join(GENERATORS, 'node_modules/openapi-typescript/bin/cli.js'), [input, '-o', join(folder, 'types.ts')]);
  writeFileSync(
    join(folder, 'use-types.ts'),
    `import type { components, operations, webhooks } from './types.js';
type Checkout = operations['checkout']['responses'][200]['content']['application/json']['data'];
export const held: Pick<Checkout, 'status' | 'durability'> = { status: 'completed', durability: 'journaled' };
export const problem: Pick<components['schemas']['Problem'], 'code'> = { code: 'sold_out' };
export const campaign: Pick<components['schemas']['Campaign'], 'total_limit'> = { total_limit: null };
type Redeemed = webhooks['dev.doorbuster.redemption.redeemed.v1']['post']['requestBody']['content']['application/cloudevents+json'];
export const type: Redeemed['type'] = 'dev.doorbuster.redemption.redeemed.v1';
`,
  );
  expect(compile('use-types.ts')).toBe('');
  writeFileSync(
    join(folder, 'misuse.ts'),
    "import type { operations } from './types.js';\nexport type X = operations['none'];\n",
  );
  expect(compile('misuse.ts')).toContain("Property 'none' does not exist");
});

test('what @hey-api/openapi-ts generates compiles, with a function for each operation', () => {
  run(join(GENERATORS, 'node_modules/@hey-api/openapi-ts/bin/run.js'), ['-i', input, '-o', 'sdk', '--no-log-file']);
  writeFileSync(
    join(folder, 'use-sdk.ts'),
    `import { checkout, confirmReservation, createCampaign } from './sdk/index.js';
import type { CompletedCheckout, Problem } from './sdk/index.js';
export async function buy(): Promise<CompletedCheckout | undefined> {
  const { data, error } = await checkout({ body: { product_id: 'p', user_id: 'u', qty: 1 } });
  const problem: Problem | undefined = error;
  if (problem) throw new Error(problem.code);
  return data && 'reservation_id' in data.data ? data.data : undefined;
}
export const pay = () => confirmReservation({ body: { reservation_id: 'r' } });
export const open = () => createCampaign({ body: { product_id: 'p', total_limit: null } });
`,
  );
  expect(compile('use-sdk.ts')).toBe('');
  const functions = [...readFileSync(join(folder, 'sdk/sdk.gen.ts'), 'utf8').matchAll(/^export const (\w+) =/gm)];
  const names = JSON.stringify(readFileSync(input, 'utf8')).match(/operationId/g) ?? [];
  expect(functions.length).toBeGreaterThan(40);
  expect(functions.length).toBeLessThanOrEqual(names.length);
});
