import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join, posix } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { anchorOf } from '../../docs-site/links.mjs';
import { projectRoot } from '../../shared/config/project-root.js';
import type { Source } from './sources.js';

const root = projectRoot();
/** Folders with documents. Those of `docs` and `examples` have folders of their own. */
const FOLDERS = ['.', 'docs', 'examples', 'client', 'server', 'lua', 'deploy', '.github', 'docs-site'];
const DEEP = ['docs', 'examples', 'deploy', '.github'];

const documents = (): Source[] =>
  FOLDERS.filter((folder) => existsSync(join(root, folder))).flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: DEEP.includes(folder), encoding: 'utf8' })
      .filter((name) => name.endsWith('.md') && !name.includes('node_modules'))
      .map((name) => posix.join(folder, name.replaceAll('\\', '/')))
      .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') })),
  );

const withoutCode = (text: string) => text.replace(/^```[\s\S]*?^```$/gm, '').replace(/`[^`\n]*`/g, 'code');

/** Targets of links and pictures that are no URLs. */
const targetsOf = (text: string): string[] =>
  [...withoutCode(text).matchAll(/\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"/g)]
    .map(([, link, attribute]) => String(link ?? attribute))
    .filter((target) => !/^[a-z]+:/i.test(target));

/** The anchors of a document's headings, as GitHub and the site make them. */
function anchorsOf(text: string): string[] {
  const lines = text.replace(/^```[\s\S]*?^```$/gm, '').matchAll(/^#{1,6} (.+)$/gm);
  const headings = [...lines].map(([, title]) => anchorOf(String(title)));
  return headings.map((anchor, i) => {
    const before = headings.slice(0, i).filter((one) => one === anchor).length;
    return before === 0 ? anchor : `${anchor}-${before}`;
  });
}

/** @returns what is wrong with the link; null = nothing */
function problemOf(from: string, target: string, textOf: (path: string) => string | null): string | null {
  const [file = '', anchor] = target.split('#');
  const path = file === '' ? from : posix.normalize(posix.join(posix.dirname(from), file));
  const text = textOf(path);
  if (text === null) return `${from}: ${target}: there is no ${path}`;
  if (anchor === undefined || !path.endsWith('.md') || anchorsOf(text).includes(anchor)) return null;
  return `${from}: ${target}: ${path} has no heading #${anchor}`;
}

function textIn(path: string): string | null {
  const file = join(root, path);
  if (path.startsWith('..') || !existsSync(file)) return null;
  return statSync(file).isFile() && path.endsWith('.md') ? readFileSync(file, 'utf8') : '';
}

describe('links of documents', () => {
  test('lead to files and headings that exist', () => {
    const links = documents().flatMap(({ path, text }) => targetsOf(text).map((target) => [path, target] as const));
    expect(links.length).toBeGreaterThan(200);
    expect(links.flatMap(([path, target]) => problemOf(path, target, textIn) ?? [])).toEqual([]);
  });

  test('are found when the file or the heading is missing', () => {
    const textOf = (path: string) => (path === 'docs/b.md' ? '# One title\n\n## A `b`: c\n' : null);
    const problems = ['b.md', 'b.md#one-title', 'b.md#a-b-c', 'b.md#two', 'c.md'].map((target) =>
      problemOf('docs/a.md', target, textOf),
    );
    expect(problems).toEqual([
      null,
      null,
      null,
      'docs/a.md: b.md#two: docs/b.md has no heading #two',
      'docs/a.md: c.md: there is no docs/c.md',
    ]);
    expect(targetsOf('[a](b.md) `[c](d.md)` [e](https://f.example) <img src="g.png">')).toEqual(['b.md', 'g.png']);
  });
});

test('every document of docs/ is reached from the README', () => {
  const reached = new Set(['README.md']);
  for (const path of reached) {
    if (!path.endsWith('.md')) continue;
    for (const target of targetsOf(textIn(path) ?? '')) {
      const to = posix.normalize(posix.join(posix.dirname(path), target.replace(/#.*/, '')));
      const file = join(root, to);
      const index = existsSync(file) && statSync(file).isDirectory() ? posix.join(to, 'README.md') : to;
      reached.add(existsSync(join(root, index)) ? index : to);
    }
  }
  const pages = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md'));
  expect(pages.filter((name) => !reached.has(`docs/${name}`))).toEqual([]);
});
