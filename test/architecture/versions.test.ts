import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { projectRoot, serviceVersion } from '../../shared/config/project-root.js';

type Locked = { integrity?: string; link?: boolean };
const read = (path: string) => readFileSync(join(projectRoot(), path), 'utf8');
const PACKAGES = ['.', 'client', 'server', 'loadtest', 'test/generators', 'docs-site'];
const WITH_LOCK = PACKAGES.filter((folder) => folder !== 'client' && folder !== 'server');

test('all packages, their locks and the chart have the version of the service', () => {
  const chart = parse(read('deploy/helm/Chart.yaml'));
  const found = [
    ...PACKAGES.map((folder) => [`${folder}/package.json`, JSON.parse(read(`${folder}/package.json`)).version]),
    ...WITH_LOCK.flatMap((folder) => {
      const { version, packages } = JSON.parse(read(`${folder}/package-lock.json`));
      return [
        [`${folder}/package-lock.json`, version],
        [`${folder}/package-lock.json, its root`, packages[''].version],
      ];
    }),
    ['Chart.yaml: version', chart.version],
    ['Chart.yaml: appVersion', chart.appVersion],
  ];
  expect(found.filter(([, version]) => version !== serviceVersion())).toEqual([]);
});

test('so have the documents that name it', () => {
  const named = [...read('client/README.md').matchAll(/@doorbuster\/client@([\d.]+)\//g)].map(([, version]) => version);
  expect(named).toEqual([serviceVersion()]);
});

test('the changelog has a section for it, below Unreleased, with a date', () => {
  const [first, second] = [...read('CHANGELOG.md').matchAll(/^## (.+)$/gm)].map(([, title]) => String(title));
  expect(first).toBe('Unreleased');
  expect(second).toMatch(new RegExp(`^${serviceVersion().replaceAll('.', '\\.')} · \\d{4}-\\d\\d-\\d\\d$`));
});

// Without the digest, `npm ci` takes what the registry sends. npm writes none for packages of other platforms than the
// one where the lock was made.
test('each package of a lock has its digest, on every platform', () => {
  const without = WITH_LOCK.flatMap((folder) =>
    Object.entries(JSON.parse(read(`${folder}/package-lock.json`)).packages as Record<string, Locked>)
      .filter(([name, { integrity, link }]) => name !== '' && !integrity && !link)
      .map(([name]) => `${folder}: ${name}`),
  );
  expect(without).toEqual([]);
});

test('each version of the changelog is in the table of releases, which names its commit', () => {
  const versions = [...read('CHANGELOG.md').matchAll(/^## (\d\S+) · (\S+)$/gm)].map(([, ...found]) => found);
  const rows = [...read('docs/releases.md').matchAll(/^\| (\d\S+) \| (\S+) \| (–|[0-9a-f]{40}) \|/gm)];
  expect(rows.map(([, version, date]) => [version, date])).toEqual(versions);
});

test('the schema of 0.2.0 stays as it was released: a change of it is a migration of its own', async () => {
  const folder = join(projectRoot(), 'migrations/schema');
  const digest = createHash('sha256');
  for (const name of readdirSync(folder).sort())
    digest.update(Object.values(await import(join(folder, name))).join('\n'));
  expect(digest.digest('hex')).toBe('cf0aa7be71ad7a48fccde34db5f6fbf86340b1324fd8a29bbaa7ae22748991d1');
});
