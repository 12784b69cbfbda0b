import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { readPageLanguages } from './language-files.js';
import { LANGUAGES } from './languages.js';

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true });
});

function folderWith(files: Record<string, unknown>): string {
  const folder = mkdtempSync(join(tmpdir(), 'languages-'));
  folders.push(folder);
  for (const [name, content] of Object.entries(files))
    writeFileSync(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content));
  return folder;
}

test('without a folder, the languages are the built-in ones', () => {
  expect([...readPageLanguages(null).keys()]).toEqual(Object.keys(LANGUAGES));
});

test('a file adds a language, or replaces texts of a built-in one', () => {
  const languages = readPageLanguages(
    folderWith({
      'fr.json': { texts: { buy: 'J’en veux un', problems: { sold_out: 'Tout est pris.' } } },
      'he.json': { name: 'Hebrew', texts: {} },
      'zh.json': { texts: { buy: '马上抢' } },
      'README.md': 'not a language',
    }),
  );
  const french = languages.get('fr');
  expect([french?.name, french?.dir, french?.texts.buy]).toEqual(['français', 'ltr', 'J’en veux un']);
  expect([french?.texts.ended, french?.texts.problems.sold_out]).toEqual([LANGUAGES.en.texts.ended, 'Tout est pris.']);
  expect(french?.texts.problems.other).toBe(LANGUAGES.en.texts.problems.other);
  expect([languages.get('he')?.name, languages.get('he')?.dir]).toEqual(['Hebrew', 'rtl']);
  expect([languages.get('zh')?.texts.buy, languages.get('zh')?.texts.ended]).toEqual([
    '马上抢',
    LANGUAGES.zh.texts.ended,
  ]);
  expect(languages.size).toBe(Object.keys(LANGUAGES).length + 2);
});

test('a mistake in a file is reported with its name and place', () => {
  for (const [content, why] of [
    [{ texts: { buyy: 'x' } }, /fr\.json is not a language: .*buyy/s],
    [{ texts: { problems: { sold: 'x' } } }, /sold/],
    ['{', /fr\.json is not a language: SyntaxError/],
  ] as const) {
    expect(() => readPageLanguages(folderWith({ 'fr.json': content }))).toThrow(why);
  }
});
