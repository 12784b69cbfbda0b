import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { installPackages, isInstalled } from '../../scripts/install.mjs';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';
import { ADMIN_SECRET, SERVICE_SECRET, startService } from '../harness/service.js';

/** The generators have packages of their own, because they need an older TypeScript than the project. */
const GENERATORS = join(projectRoot(), 'test/generators');
if (!isInstalled(GENERATORS)) await installPackages(GENERATORS);

const service = await startService();
const folder = mkdtempSync(join(process.env.DOORBUSTER_TEST_DIR ?? tmpdir(), 'generators-'));
atEnd('the output of generators', async () => rmSync(folder, { recursive: true, force: true }));
writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
symlinkSync(join(projectRoot(), 'node_modules'), join(folder, 'node_modules'));
const input = join(folder, 'openapi.json');
writeFileSync(input, await (await fetch(`${service.url}/openapi.json`)).text());

/** @returns what the program prints */
function run(program: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env): string {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd: folder, encoding: 'utf8', env });
  const output = `${stdout}${stderr}`;
  expect([status, status === 0 ? '' : output]).toEqual([0, '']);
  return output;
}

const runNode = (program: string, args: readonly string[]) => run(process.execPath, [program, ...args]);
/** For a program that uses a generated client. */
const shop = { ...process.env, DOORBUSTER_URL: service.url, ADMIN_SECRET, SERVICE_SECRET };

/** Type-checks files as a strict project does. @returns what the compiler reports */
function compile(...files: string[]): string {
  const options = [
    '--outDir',
    'compiled',
    '--strict',
    '--noUncheckedIndexedAccess',
    '--target',
    'es2023',
    '--types',
    'node',
  ];
  const resolution = ['--lib', 'es2023,dom,dom.iterable', '--module', 'nodenext', '--skipLibCheck'];
  const tsc = join(projectRoot(), 'node_modules/typescript/bin/tsc');
  return spawnSync(process.execPath, [tsc, ...options, ...resolution, ...files], { cwd: folder, encoding: 'utf8' })
    .stdout;
}

test('what openapi-typescript generates compiles, and names operations, schemas and webhooks', () => {
  runNode(join(GENERATORS, 'node_modules/openapi-typescript/bin/cli.js'), [input, '-o', join(folder, 'types.ts')]);
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
  // What has a default may be left out.
  writeFileSync(
    join(folder, 'ordinary-requests.ts'),
    `import type { operations } from './types.js';
type BodyOf<Name extends keyof operations> = operations[Name] extends {
  requestBody: { content: { 'application/json': infer Body } };
} ? Body : never;
const user = { user_id: 'ann', idempotency_key: 'ann-buys-one' };
export const checkout: BodyOf<'checkout'> = { ...user, product_id: 'sale-1', qty: 1 };
export const check: BodyOf<'validateCoupons'> = { code: 'SAVE10', user_id: 'ann' };
export const redemption: BodyOf<'redeemCoupon'> = { ...user, code: 'SAVE10', order_id: 'order-1' };
export const campaign: BodyOf<'createCampaign'> = { product_id: 'sale-1', total_limit: 100 };
export const withLine: BodyOf<'createCampaign'> = { ...campaign, waiting_room: { enabled: true } };
export const change: BodyOf<'updateCampaign'> = { waiting_room: { enabled: false } };
export const webhook: BodyOf<'createWebhook'> = { url: 'https://shop.example/hooks' };
export const ban: BodyOf<'createBan'> = { kind: 'user', subject: 'ann', reason: 'cheats' };
export const query: operations['listCampaigns']['parameters']['query'] = { sort: 'live' };
`,
  );
  expect(compile('use-types.ts', 'ordinary-requests.ts')).toBe('');
  writeFileSync(
    join(folder, 'misuse.ts'),
    "import type { operations } from './types.js';\nexport type X = operations['none'];\n",
  );
  expect(compile('misuse.ts')).toContain("Property 'none' does not exist");
});

test('what @hey-api/openapi-ts generates compiles, with a function for each operation, and buys a unit', () => {
  runNode(join(GENERATORS, 'node_modules/@hey-api/openapi-ts/bin/run.js'), ['-i', input, '-o', 'sdk', '--no-log-file']);
  writeFileSync(
    join(folder, 'use-sdk.ts'),
    `import { checkout, confirmReservation, createCampaign } from './sdk/index.js';
import { client } from './sdk/client.gen.js';
import type { CompletedCheckout, Problem } from './sdk/index.js';
const { DOORBUSTER_URL = '', ADMIN_SECRET = '', SERVICE_SECRET = '' } = process.env;
const config = client.setConfig({ baseUrl: DOORBUSTER_URL, throwOnError: false });
const unit = { product_id: 'sold-by-typescript', user_id: 'ann', qty: 1, idempotency_key: 'ann-buys-one' };
async function buy(): Promise<CompletedCheckout | undefined> {
  const { data, error } = await checkout({ body: unit });
  const problem: Problem | undefined = error;
  if (problem) throw new Error(problem.code);
  return data && 'reservation_id' in data.data ? data.data : undefined;
}
const open = { product_id: unit.product_id, total_limit: 1, hold_seconds: 60, require_attestation: false };
const created = await createCampaign({ body: open, auth: ADMIN_SECRET });
const { reservation_id = '' } = (await buy()) ?? {};
const paid = await confirmReservation({ body: { reservation_id }, auth: SERVICE_SECRET });
const status = paid.data && 'status' in paid.data.data ? paid.data.data.status : paid.error?.code;
console.log(config.baseUrl === DOORBUSTER_URL, created.data?.data.status, status);
`,
  );
  expect(compile('use-sdk.ts')).toBe('');
  expect(run(process.execPath, ['compiled/use-sdk.js'], shop)).toBe('true open redeemed\n');
  const functions = [...readFileSync(join(folder, 'sdk/sdk.gen.ts'), 'utf8').matchAll(/^export const (\w+) =/gm)];
  const names = JSON.stringify(readFileSync(input, 'utf8')).match(/operationId/g) ?? [];
  expect(functions.length).toBeGreaterThan(40);
  expect(functions.length).toBeLessThanOrEqual(names.length);
});

const venv = join(GENERATORS, '.venv');
const inVenv = (program: string) => join(venv, 'bin', program);

/** Installs the generator for Python, once. @returns false = this machine has no Python with `venv`, or no PyPI */
function hasPython(): boolean {
  const requirements = join(GENERATORS, 'requirements.txt');
  const text = readFileSync(requirements, 'utf8');
  const mark = join(venv, 'installed');
  if (existsSync(mark) && readFileSync(mark, 'utf8') === text) return true;
  const steps: [string, string[]][] = [
    ['python3', ['-c', 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))']],
    ['python3', ['-m', 'venv', '--clear', venv]],
    [inVenv('pip'), ['install', '--quiet', '--disable-pip-version-check', '-r', requirements]],
  ];
  if (steps.some(([program, args]) => spawnSync(program, args).status !== 0)) return false;
  writeFileSync(mark, text);
  return true;
}

const testWithPython = hasPython() ? test : test.skip;
if (testWithPython === test.skip)
  process.stdout.write('a test is skipped, because this is not installed: openapi-python-client\n');

testWithPython('what openapi-python-client generates compiles, lacks no schema, and buys a unit', () => {
  const args = ['generate', '--path', input, '--output-path', 'python_client', '--meta', 'none'];
  // It takes one type of a body, and names the operation whose second one, CSV, it leaves out.
  const warnings = run(inVenv('openapi-python-client'), args).match(/^(?:WARNING|Unable).*$/gm);
  expect(warnings).toEqual(['WARNING parsing POST /admin/campaigns/{id}/codes within admin.']);
  run(inVenv('python'), ['-m', 'compileall', '-q', 'python_client']);
  writeFileSync(
    join(folder, 'buy.py'),
    `from os import environ
from python_client import AuthenticatedClient, Client
from python_client.api.admin import create_campaign
from python_client.api.flash_sale import checkout
from python_client.api.payment import confirm_reservation
from python_client.models import CheckoutRequest, ConfirmReservationRequest, CreateCampaignRequest

url = environ['DOORBUSTER_URL']
product = 'sold-by-python'
campaign = CreateCampaignRequest(product_id=product, total_limit=1, hold_seconds=60, require_attestation=False)
created = create_campaign.sync(client=AuthenticatedClient(url, environ['ADMIN_SECRET']), body=campaign)
unit = CheckoutRequest(product_id=product, user_id='ben', qty=1, idempotency_key='ben-buys-one')
held = checkout.sync(client=Client(url), body=unit).data
payment = ConfirmReservationRequest(reservation_id=str(held.reservation_id))
paid = confirm_reservation.sync(client=AuthenticatedClient(url, environ['SERVICE_SECRET']), body=payment).data
print(created.data.status.value, held.status.value, paid.status.value)
`,
  );
  expect(run(inVenv('python'), ['buy.py'], shop)).toBe('open completed redeemed\n');
});
