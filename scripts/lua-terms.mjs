// The part of lua/includes/campaign.lua that follows from the table of terms. Written by `npm run docs`.

const WIDTH = 118;

/** @typedef {import('../shared/domain/terms.js').TextField} TextField */

/**
 * Puts the terms into the marked part of the file.
 * @param {string} lua the file as it is
 * @param {readonly TextField[]} fields of the text of the terms, in their order
 * @returns the file as it has to be
 */
export function withTerms(lua, fields) {
  const part = /( *-- Made by `npm run docs`: the terms\n)[\s\S]*?\n( *-- Until here\n)/;
  if (!part.test(lua)) throw new Error('lua/includes/campaign.lua lacks the part for the terms');
  return lua.replace(
    part,
    (_, /** @type {string} */ begin, /** @type {string} */ end) => `${begin}${valuesOf(fields)}\n${end}`,
  );
}

/** @param {readonly TextField[]} fields */
function valuesOf(fields) {
  const names = ['version', ...fields.map(({ field }) => field)];
  return `${wrapped('  local ', names, ',')} =
    string.match(v[1], '^${names.map(() => '(.-)').join('|')}$')
  return {
${wrapped(
  '    ',
  fields.map(({ field, kind }) => `${field} = ${READ[kind](field)}`),
  ',',
)},`;
}

/** The expression that makes a value of a field's text. @type {Record<TextField['kind'], (field: string) => string>} */
const READ = {
  int: (field) => `tonumber(${field})`,
  flag: (field) => `${field} == '1'`,
  text: (field) => field,
};

/**
 * A list in lines of at most WIDTH columns.
 * @param {string} begin
 * @param {readonly string[]} items
 * @param {string} separator
 */
function wrapped(begin, items, separator) {
  const indent = `${/^ */.exec(begin)?.[0]}  `;
  const lines = [];
  let line = begin;
  for (const [i, item] of items.entries()) {
    const text = i < items.length - 1 ? `${item}${separator} ` : item;
    if (line !== begin && line.length + text.trimEnd().length > WIDTH) {
      lines.push(line.trimEnd());
      line = indent;
    }
    line += text;
  }
  return [...lines, line].join('\n');
}
