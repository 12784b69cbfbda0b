import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { directionOf, LANGUAGES, ownName, type PageLanguage, type PageLanguages } from './languages.js';
import { en } from './texts.js';

const FILE = /^([a-z]{2,3})\.json$/;
const text = z.string().min(1).optional();
const fieldsOf = (texts: object, names: (value: unknown) => boolean) =>
  Object.fromEntries(Object.entries(texts).flatMap(([name, value]) => (names(value) ? [[name, text]] : [])));
const isText = (value: unknown) => typeof value === 'string';

const languageFile = z.strictObject({
  name: z.string().min(1).optional(),
  dir: z.enum(['ltr', 'rtl']).optional(),
  texts: z.strictObject({
    ...fieldsOf(en, isText),
    problems: z.strictObject(fieldsOf(en.problems, isText)).optional(),
  }),
});

/**
 * Reads the languages of the sale page: the built-in ones, and the files of a folder (SALE_PAGE_LANGUAGES). A file
 * replaces texts of a built-in language or adds one. Texts that a file lacks are English.
 * @throws Error with the file and what is wrong in it
 */
export function readPageLanguages(folder: string | null): PageLanguages {
  const languages = new Map<string, PageLanguage>(Object.entries(LANGUAGES));
  if (folder === null) return languages;
  for (const name of readdirSync(folder)) {
    const tag = FILE.exec(name)?.[1];
    if (tag) languages.set(tag, readLanguage(join(folder, name), tag, languages.get(tag)));
  }
  return languages;
}

function readLanguage(path: string, tag: string, builtIn: PageLanguage | undefined): PageLanguage {
  const base = builtIn ?? { name: ownName(tag), dir: directionOf(tag), texts: en };
  try {
    const { name, dir, texts } = languageFile.parse(JSON.parse(readFileSync(path, 'utf8')));
    const problems = { ...base.texts.problems, ...texts.problems };
    return { name: name ?? base.name, dir: dir ?? base.dir, texts: { ...base.texts, ...texts, problems } };
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : String(error);
    throw new Error(`SALE_PAGE_LANGUAGES: ${path} is not a language: ${why}`, { cause: error });
  }
}
