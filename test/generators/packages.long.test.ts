import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runInNewContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import { installPackages, isInstalled } from '../../scripts/install.mjs';
import type { OfOrder } from '../../server/api.js';
import { Doorbuster, DoorbusterError } from '../../server/server.js';
import { projectRoot, serviceVersion } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator, Shopper } from '../harness/clients.js';
import { ADMIN_SECRET, SERVICE_SECRET, startService } from '../harness/service.js';

/** TypeScript 5, which still has the resolution `node10`. */
const GENERATORS = join(projectRoot(), 'test/generators');
if (!isInstalled(GENERATORS)) await installPackages(GENERATORS);

const PACKAGES = ['client', 'server'] as const;
const folder = mkdtempSync(join(process.env.DOORBUSTER_TEST_DIR ?? tmpdir(), 'packages-'));
atEnd('the packages', () => rmSync(folder, { recursive: true, force: true }));
const modules = join(folder, 'node_modules');
const installed = (name: string) => join(modules, '@doorbuster', name);

function run(program: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, encoding: 'utf8' });
  expect([status, status === 0 ? '' : stdout + stderr]).toEqual([0, '']);
  return stdout;
}

mkdirSync(join(modules, '@types'), { recursive: true });
symlinkSync(join(projectRoot(), 'node_modules/@types/node'), join(modules, '@types/node'));
symlinkSync(join(projectRoot(), 'node_modules/@types/react'), join(modules, '@types/react'));
symlinkSync(join(projectRoot(), 'node_modules/undici-types'), join(modules, 'undici-types'));
symlinkSync(join(projectRoot(), 'node_modules/@noble'), join(modules, '@noble'));
for (const name of PACKAGES) {
  // `npm test` passes its own setting on, with which prepack would not run.
  run('npm', ['pack', '--ignore-scripts=false', '--silent', '--pack-destination', folder], join(projectRoot(), name));
  mkdirSync(installed(name), { recursive: true });
  run(
    'tar',
    ['xzf', join(folder, `doorbuster-${name}-${serviceVersion()}.tgz`), '--strip-components=1', '-C', installed(name)],
    folder,
  );
}

describe('the packages for npm', () => {
  it.each(PACKAGES)('%s has what npm shows, no source, and only absolute links', (name) => {
    const files = readdirSync(installed(name), { recursive: true, encoding: 'utf8' });
    expect(files).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'package.json']));
    expect(files.filter((file) => /(?<!\.d)\.ts$|test/.test(file))).toEqual([]);
    const about = JSON.parse(readFileSync(join(installed(name), 'package.json'), 'utf8'));
    expect(about).toMatchObject({
      license: 'Apache-2.0',
      repository: { directory: name },
      homepage: expect.stringMatching(/^https:/),
      keywords: expect.arrayContaining(['flash-sale']),
      publishConfig: { access: 'public', provenance: true },
    });
    const named = JSON.stringify([about.main, about.types, about.exports, about.unpkg ?? []]).match(/\.\/dist\/[^"]+/g);
    for (const file of named ?? []) expect(files).toContain(file.slice(2));
    const links = [...readFileSync(join(installed(name), 'README.md'), 'utf8').matchAll(/\]\(([^)]+)\)/g)];
    expect(links.map(([, link]) => link).filter((link) => !/^https:/.test(String(link)))).toEqual([]);
  });

  it.each([
    ['node10', 'commonjs', 'cts'],
    ['node16', 'node16', 'mts'],
    ['node16', 'node16', 'cts'],
    ['nodenext', 'nodenext', 'cts'],
    ['bundler', 'esnext', 'mts'],
  ])('have types with the resolution %s, module %s, in a .%s file', (resolution, module, ending) => {
    const file = `use-${resolution}.${ending}`;
    writeFileSync(
      join(folder, file),
      `import { Sale, type PayableStanding } from '@doorbuster/client';
import type { DoorbusterSale } from '@doorbuster/client/element';
import { useSale } from '@doorbuster/client/react';
import { Doorbuster, verifyWebhook } from '@doorbuster/server';
const sale = new Sale({ productId: 'p', userId: 'u' });
sale.on('pay', (standing: PayableStanding) => { const before: string = standing.pay_before; void before; });
// @ts-expect-error there is no such event
sale.on('paid', () => {});
export const element: HTMLElement = {} as DoorbusterSale;
// @ts-expect-error it needs options
export const shopper = () => useSale();
export const event: Record<string, unknown> = verifyWebhook('{}', {}, 'whsec_');
export const confirm = () => new Doorbuster({ baseUrl: 'https://x.example', serviceKey: 's' }).confirm({ order_id: 'o' });
`,
    );
    const tsc = join(GENERATORS, 'node_modules/typescript/bin/tsc');
    const options = ['--strict', '--noEmit', '--target', 'es2022', '--lib', 'es2022,dom', '--types', 'node'];
    const ways = ['--module', module, '--moduleResolution', resolution];
    run(process.execPath, [tsc, ...options, ...ways, file], folder);
  });

  it('are loaded by import, by require, and by a script element', () => {
    const code =
      "'use strict'; const names = [Sale, Refusal, MemoryStore, Doorbuster, verifyPayLink].map((f) => f.name); console.log(names.join());";
    const names = 'Sale,Refusal,MemoryStore,Doorbuster,verifyPayLink\n';
    writeFileSync(
      join(folder, 'use.mjs'),
      `import { Sale, Refusal, MemoryStore } from '@doorbuster/client';\nimport { Doorbuster, verifyPayLink } from '@doorbuster/server';\n${code}`,
    );
    writeFileSync(
      join(folder, 'use.cjs'),
      `const { Sale, Refusal, MemoryStore } = require('@doorbuster/client');\nconst { Doorbuster, verifyPayLink } = require('@doorbuster/server');\n${code}`,
    );
    expect(run(process.execPath, ['use.mjs'], folder)).toBe(names);
    expect(run(process.execPath, ['--disable-warning=ExperimentalWarning', 'use.cjs'], folder)).toBe(names);
    const script = readFileSync(join(installed('client'), 'dist/doorbuster.min.js'), 'utf8');
    const loaded = runInNewContext(`${script};Object.keys(Doorbuster).sort().join()`) as string;
    expect(loaded).toBe('MemoryStore,Refusal,Sale,solveWork');
    const [, size] =
      /is less than ([\d.]+) KB compressed/.exec(readFileSync(join(installed('client'), 'README.md'), 'utf8')) ?? [];
    expect(gzipSync(script, { level: 9 }).length).toBeLessThan(Number(size) * 1_000);
  });
});

describe('the package for servers', () => {
  it('confirms, refunds and reads reservations, redeems codes, and manages campaigns', async () => {
    const service = await startService();
    const shop = new Doorbuster({ baseUrl: `${service.url}/`, serviceKey: SERVICE_SECRET, adminKey: ADMIN_SECRET });
    const product = await new Operator(service.url).openCampaign({
      total_limit: 5,
      hold_seconds: 900,
      extend_seconds: 60,
    });
    const held = await new Shopper(service.url, product).checkout();
    const { reservation_id, order_id } = held.data;
    const pay_before = new Date(Date.parse(held.data.pay_before) + 60_000).toISOString();
    const extended = { reservation_id, status: 'extended', pay_before };
    expect(await shop.extend({ order_id })).toEqual(extended);
    await expect(shop.extend({ reservation_id })).rejects.toMatchObject({
      code: 'already_extended',
      problem: { pay_before },
    });
    const confirmed = { reservation_id, order_id, status: 'redeemed' };
    expect(await shop.confirm({ reservation_id, payment_ref: 'pay-1' })).toEqual(confirmed);
    expect(await shop.confirm({ reservation_id, payment_ref: 'pay-1' })).toEqual(confirmed);
    expect(await shop.reservation(reservation_id)).toMatchObject({ reservation_id, status: 'redeemed' });
    await expect(shop.release({ reservation_id })).rejects.toMatchObject({ code: 'reservation_redeemed', status: 409 });
    expect(await shop.refund({ reservation_id })).toMatchObject({ status: 'refunded' });

    const several = await new Operator(service.url).openCampaign({ total_limit: 3, max_qty: 3, hold_seconds: 900 });
    const three = {
      reservation_id: String((await new Shopper(service.url, several).checkout({ qty: 3 })).data.reservation_id),
    };
    const kept = await shop.release({ ...three, keep: 2 });
    expect(kept).toEqual({ ...three, released: false, status: 'reserved', qty: 2, released_qty: 1 });
    expect((await shop.confirm(three)).qty).toBe(2);
    const refunded = { ...three, status: 'redeemed', returned_to_stock: true, qty: 1, refunded_qty: 1 };
    expect(await shop.refund({ ...three, keep: 1 })).toEqual(refunded);

    const code = `TEN${Date.now()}`;
    await shop.campaigns.create({
      product_id: `coupon-${code}`,
      total_limit: 10,
      code,
      discount: { kind: 'percent', percent: 10 },
    });
    const cart = { subtotal: 1_000, currency: 'IDR' };
    expect(await shop.validate({ code, user_id: 'ann', cart })).toMatchObject({ valid: true, total: 900 });
    const wish = { code, user_id: 'ann', order_id: 'cart-1', cart };
    const redeemed = await shop.redeem(wish, { idempotencyKey: `cart-1-${code}` });
    expect(redeemed.status).toBe('redeemed');
    expect(await shop.redeem(wish, { idempotencyKey: `cart-1-${code}` })).toEqual(redeemed);
    expect(await shop.campaigns.pause(product)).toMatchObject({ product_id: product, status: 'paused' });
    const { id } = await shop.campaigns.get(product);
    expect(await shop.campaigns.update(id.toUpperCase(), { name: 'Lamp' })).toMatchObject({ id, name: 'Lamp' });
    expect(await shop.campaigns.resume(product)).toMatchObject({ id, status: 'open' });
    expect(await shop.campaigns.stats(id)).toMatchObject({ total: 5 });
    expect(await shop.campaigns.close(id)).toMatchObject({ id, status: 'closed' });

    const second = `SIX${Date.now()}`;
    const discount = { kind: 'percent', percent: 6 };
    const coupon = { total_limit: null, code: second, discount, hold_seconds: 900, per_user_limit: 2 };
    await shop.campaigns.create({ product_id: `coupon-${second}`, ...coupon });
    await shop.campaigns.create({ product_id: `again-${second}`, ...coupon, code: `A${second}` });
    expect(await shop.campaigns.stats(`coupon-${second}`)).toMatchObject({ total: null, free: null });
    const both = { codes: [second, 'no-such-code'], user_id: 'ben', cart };
    expect(await shop.validate(both)).toMatchObject({ valid: true, total: 940 });
    const order = { user_id: 'ben', order_id: `cart-${second}` };
    for (const each of [second, `A${second}`]) {
      const held = await shop.redeem({ ...order, code: each, cart }, { idempotencyKey: `${order.order_id}-${each}` });
      expect(held.status).toBe('reserved');
    }
    const statuses = (of: object) => (of as OfOrder).reservations.map(({ status }) => status);
    expect(statuses(await shop.extend(order))).toEqual(['extended', 'extended']);
    expect(statuses(await shop.confirm(order))).toEqual(['redeemed', 'redeemed']);
    expect(statuses(await shop.refund(order))).toEqual(['refunded', 'refunded']);
    const [first] = ((await shop.refund(order)) as OfOrder).reservations;
    const inCapitals = { reservation_id: String(first?.reservation_id).toUpperCase() };
    expect(await shop.refund(inCapitals)).toMatchObject({ status: 'refunded' });
    expect(() => new Doorbuster({ baseUrl: service.url }).confirm({ reservation_id })).rejects.toThrow('serviceKey');
  });

  it('repeats a call that got no response, 429 or 5xx, and no other', async () => {
    const answers = [
      () => Promise.reject(new TypeError('cut')),
      () => reply(503, 'temporarily_unavailable'),
      // A proxy responds in place of the service.
      () => Promise.resolve(new Response('<html>', { status: 404 })),
      () => reply(200),
    ];
    let calls = 0;
    const shop = new Doorbuster({
      baseUrl: 'https://x.example',
      serviceKey: 's',
      fetch: () => (answers[calls++] ?? (() => reply(404, 'reservation_not_found')))(),
    });
    expect(await shop.refund({ reservation_id: 'r' })).toEqual(REFUNDED);
    expect(calls).toBe(4);
    const error = await shop.refund({ reservation_id: 'r' }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(DoorbusterError);
    expect([(error as DoorbusterError).code, calls]).toEqual(['reservation_not_found', 5]);
  });
});

const REFUNDED = { reservation_id: 'r', status: 'refunded', returned_to_stock: true };

function reply(status: number, code?: string): Promise<Response> {
  const type = `https://doorbuster.dev/errors/${code}`;
  const body = code ? { type, code, status } : { data: REFUNDED };
  return Promise.resolve(new Response(JSON.stringify(body), { status }));
}
