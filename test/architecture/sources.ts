import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { projectRoot } from '../../shared/config/project-root.js';

export type Source = { path: string; text: string };

/** Files of these folders, by their paths in the project; tests and installed packages are left out. */
export function sourcesIn(folders: readonly string[], ending = '.ts'): Source[] {
  const root = projectRoot();
  return folders
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && entry.name.endsWith(ending) && !entry.name.endsWith(`.test${ending}`))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !path.includes('/node_modules/'))
    .sort()
    .map((path) => ({ path: path.slice(root.length + 1).replaceAll('\\', '/'), text: readFileSync(path, 'utf8') }));
}

/** The text without comments, so that what is only spoken of does not count. Strings stay. */
export function withoutComments(text: string): string {
  const token = /\/\*[\s\S]*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`/g;
  return text.replace(token, (found) => (found.startsWith('/*') || found.startsWith('//') ? ' ' : found));
}

const IMPORTS = [
  /\b(?:import|export)\b[^'"`;()]*?\bfrom\s*['"]([^'"]+)['"]/g,
  /\bimport\s*['"]([^'"]+)['"]/g,
  /\bimport\s*\(\s*['"]([^'"]+)['"]\s*\)/g,
];

/**
 * What a file imports, in whatever form: packages by name, files of ours by their path in the project without an
 * ending.
 */
export function importsOf({ path, text }: Source): string[] {
  const code = withoutComments(text);
  const found = IMPORTS.flatMap((pattern) => [...code.matchAll(pattern)].map(([, name]) => String(name)));
  return found.map((name) =>
    name.startsWith('.') ? posix.join(posix.dirname(path), name).replace(/\.(js|ts|mjs)$/, '') : name,
  );
}

export const isOurs = (imported: string): boolean =>
  /^(api|worker|commands|shared|migrations|test|scripts|lua)\//.test(imported);

/**
 * `shared/sale/scripts/line.ts` → `shared/sale`; a file directly in `api`, `worker` or `commands` → itself, without its
 * ending.
 */
export function placeOf(path: string): string {
  const parts = path.split('/');
  return parts.length > 2 ? parts.slice(0, 2).join('/') : path.replace(/\.ts$/, '');
}

export const nameOf = (path: string): string => posix.basename(path);
