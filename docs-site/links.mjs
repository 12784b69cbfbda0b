// Links of the documents on the site: a README is the index of its folder, and what is no page of the site is on GitHub.
import { existsSync, statSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const SOURCE = 'https://github.com/doorbuster-dev/doorbuster';

/** Markdown in the root and in these folders is a page. */
const PAGES = /^(?:[A-Z_]+\.md|(?:docs|client|server|lua|examples)\/(?:[\w-]+\/)*[\w-]+\.md)$/;
export const isPage = (/** @type {string} */ path) => PAGES.test(path);

/**
 * @param {string} path of a document in the project
 * @returns {string} its path on the site
 */
export const onSite = (path) => path.replace(/(^|\/)README\.md$/, '$1index.md');

/**
 * The anchor of a heading, as GitHub makes it.
 * @param {string} title in Markdown
 * @returns {string}
 */
export function anchorOf(title) {
  return title
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replace(/\s/g, '-');
}

/**
 * @param {string} page the document with the link, as its path on the site
 * @param {string} target of the link
 * @returns {string} the target on the site, or on GitHub
 */
export function linkOnSite(page, target) {
  if (/^[a-z]+:/i.test(target) || target.startsWith('#')) return target;
  const [file = '', anchor] = target.split('#');
  const path = posix.join(posix.dirname(page), file);
  const isFolder = existsSync(join(ROOT, path)) && statSync(join(ROOT, path)).isDirectory();
  const document = isFolder ? posix.join(path, 'README.md') : path;
  const hash = anchor === undefined ? '' : `#${anchor}`;
  if (isPage(document) && existsSync(join(ROOT, document))) return `/${onSite(document)}${hash}`;
  return `${SOURCE}/${isFolder ? 'tree' : 'blob'}/main/${path}${hash}`;
}
