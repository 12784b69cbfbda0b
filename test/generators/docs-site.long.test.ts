import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, posix } from 'node:path';
import { expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';

/** The site of the documents, as `npm run docs:site` builds it, in a folder of this test. */
const folder = mkdtempSync(join(process.env.DOORBUSTER_TEST_DIR ?? tmpdir(), 'docs-site-'));
atEnd('the site', async () => rmSync(folder, { recursive: true, force: true }));
const { status, stdout, stderr } = spawnSync(process.execPath, [join(projectRoot(), 'scripts/docs-site.mjs')], {
  encoding: 'utf8',
  env: { ...process.env, DOCS_SITE_OUT: folder, NODE_ENV: 'production' },
});
const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => name.replaceAll('\\', '/'));
const pages = files.filter((name) => name.endsWith('.html') && name !== '404.html');

test('the site builds, without a dead link, and its folder is named at the end', () => {
  expect([status, `${stdout}${stderr}`]).toEqual([0, expect.not.stringContaining('dead link')]);
  expect(stdout.trimEnd().split('\n').slice(-2).join(' ')).toContain(folder);
});

test('it has a page for each document, and a search', () => {
  const documents = readdirSync(join(projectRoot(), 'docs')).filter((name) => name.endsWith('.md'));
  expect(
    documents.map((name) => `docs/${name.replace(/md$/, 'html')}`).filter((page) => !pages.includes(page)),
  ).toEqual([]);
  expect(pages).toEqual(expect.arrayContaining(['index.html', 'CHANGELOG.html', 'client/index.html']));
  expect(files.some((name) => /localSearchIndex/.test(name))).toBe(true);
});

test('links between pages lead to a page, a file and a heading of the site', () => {
  const textOf = (page: string) => readFileSync(join(folder, page), 'utf8');
  const found = pages.flatMap((page) =>
    [...textOf(page).matchAll(/(?:href|src)="(\/[^"]*)"/g)].map(([, target]) => ({ page, target: String(target) })),
  );
  expect(found.length).toBeGreaterThan(1_000);
  const dead = found.filter(({ target }) => {
    const [path = '', anchor] = target.slice(1).split('#');
    // Any web server sends a file by its name, and the index of a folder.
    const file = path === '' || path.endsWith('/') ? posix.join(path, 'index.html') : path;
    if (!files.includes(file) || !/\.\w+$/.test(file) || !existsSync(join(folder, file))) return true;
    return anchor !== undefined && !textOf(file).includes(`id="${decodeURIComponent(anchor)}"`);
  });
  expect(dead).toEqual([]);
});
