import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../shared/config/project-root.js';
import type { Source } from './sources.js';

/** TypeScript and JavaScript of these folders, tests included; not what was installed or built there. */
export function filesIn(folders: readonly string[]): Source[] {
  const root = projectRoot();
  return folders
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && /\.(?:ts|mjs|js)$/.test(entry.name) && !/node_modules/.test(entry.parentPath))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .map((path) => ({ path: path.slice(root.length + 1).replaceAll('\\', '/'), text: readFileSync(path, 'utf8') }));
}

const blank = (text: string) => text.replace(/[^\n]/g, ' ');
const TOKEN = /\/\*[\s\S]*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`/g;

/**
 * Comments without types, and strings of four words or more, in their places; the rest is blanks.
 * @param onlyComments leaves out strings as well
 */
export function proseOf(code: string, onlyComments = false): string {
  let end = 0;
  let prose = '';
  for (const { 0: found, index } of code.matchAll(TOKEN)) {
    const isComment = found.startsWith('/');
    const isProse = isComment || (!onlyComments && found.split(' ').length > 3);
    const text = isComment
      ? found.replace(/\{\{.*?\}\}/g, blank)
      : ` ${found.slice(1, -1).replace(/\$\{[^}]*\}/g, blank)} `;
    prose += blank(code.slice(end, index)) + (isProse ? text : blank(found));
    end = index + found.length;
  }
  return prose + blank(code.slice(end));
}

/** The line without quoted words, code and targets of links, which keep their names. */
export const withoutQuotes = (line: string): string => line.replace(/"[^"]*"?|`[^`]*`|\]\([^)]*\)/g, '');

/** The sentences of a Markdown text. Titles, tables and blocks of code have none; code in a sentence is left out. */
export function sentencesOf(markdown: string): string[] {
  const text = markdown.replace(/^```[\s\S]*?^```$/gm, '').replace(/^(?:#|\|).*$/gm, '');
  const blocks = text.split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )/);
  return blocks
    .flatMap((block) =>
      block
        .replace(/`[^`]*`/g, ' ')
        .replace(/\]\([^)]*\)/g, ']')
        .replace(/\s+/g, ' ')
        .split(/(?<=[.!?:;]["*)_]*) /),
    )
    .map((sentence) => sentence.trim())
    .filter((sentence) => sentence !== '');
}
